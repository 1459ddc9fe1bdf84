"""Versions of tables: what a plan remembers of a table, and which of its added columns are filled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from penstock.ingest.postgres.server.catalog import PgTableFacts
from penstock.ingest.postgres.server.connection import PgConnection
from penstock.ingest.postgres.server.table_version import (
    TableVersion,
    filled_columns,
    last_changed_columns,
    new_in_key,
    renamed_columns,
    versions_of,
    with_unknown_places,
)

TABLE = PgTableFacts(7, "public", "t", has_key=True, identity="d", rows=1, columns=4, key=("id",))


class Catalog:
    """A catalog that answers each query with the next rows."""

    def __init__(self, *answers: list[tuple[Any, ...]]) -> None:
        self.answers = list(answers)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.answers.pop(0)

    def literal(self, text: str) -> str:
        return f"'{text}'"


def catalog(*answers: list[tuple[Any, ...]]) -> PgConnection:
    return cast("PgConnection", Catalog(*answers))


def version(*names: str, columns: int = 4) -> TableVersion:
    table = PgTableFacts(7, "public", "t", has_key=True, identity="d", rows=1, columns=columns)
    rows = [("7", name, str(number), "700") for number, name in enumerate(names, 1)]
    return versions_of(catalog([("7", "id")], rows), [table])[table.name]


def test_a_version_has_the_key_and_a_mark_of_each_name() -> None:
    found = version("id", "a", "A")
    assert (found.oid, found.columns, found.key) == (7, 4, ("id",))
    assert len(found.names) == 12  # of the last number, the column was dropped before
    assert [found.had(name) for name in ("id", "a", "A", "b")] == [True, True, True, False]


def test_names_of_dropped_columns_are_kept_until_the_table_is_another_one() -> None:
    before, now = version("id", "gone"), version("id", "new", columns=5)
    assert [now.after(before).had(name) for name in ("id", "gone", "new")] == [True, True, True]
    another = TableVersion(8, 2, ("id",), version("id", "new").names)
    assert not another.after(before).had("gone")
    assert now.after(None) == now


def test_columns_that_are_new_in_the_key_are_found_by_number() -> None:
    before, now = version("id", "a"), replace(TABLE, key=("key", "a"))
    assert new_in_key(catalog([("key", "1"), ("a", "2")]), before, now) == ["a"]
    assert not new_in_key(catalog(), before, replace(TABLE, key=("id",)))
    assert not before.is_same(now)


def test_renamed_columns_have_new_names_or_those_of_others() -> None:
    before, now = replace(version("id", "a", "b", "c"), marks=1), replace(TABLE, marks=2)
    rows = [("id", "1"), ("b", "2"), ("a", "3"), ("d", "4")]
    assert renamed_columns(catalog(rows), before, now) == (["d"], ["b", "a"])
    again = replace(version("id", "b", "a", "d"), marks=2).after(before)
    rows = [("id", "1"), ("b", "2"), ("c", "4")]
    assert renamed_columns(catalog(rows), again, replace(TABLE, marks=3)) == ([], ["c"])
    assert renamed_columns(catalog(rows), again, now) == ([], [])


def test_a_dropped_column_keeps_the_place_of_its_name() -> None:
    before = replace(version("id", "a", "b"), marks=1)
    table = replace(TABLE, marks=2)
    catalog_ = catalog([("7", "id")], [("7", "id", "1", "700"), ("7", "a", "3", "701")])
    now = versions_of(catalog_, [table])[table.name].after(before)
    assert renamed_columns(catalog([("id", "1"), ("a", "3")]), now, replace(table, marks=3)) == ([], [])
    assert now.had("b")


def test_a_column_that_was_added_and_dropped_between_two_plans_has_no_name() -> None:
    first = replace(version("id", "b", "a", columns=3)).after(version("id", "a", "b", columns=3))
    found = replace(version("id", "c", "a", columns=5), marks=1).after(first)
    assert not any(found.had(name) for name in ("", "---"))
    assert found.had("b")
    now = replace(TABLE, columns=6, marks=2)
    assert renamed_columns(catalog([("id", "1"), ("b", "2"), ("a", "3")]), found, now) == ([], ["b"])


def test_of_an_older_release_only_new_names_are_known() -> None:
    older = replace(version(), names=with_unknown_places(version("id", "a", "b", columns=3).names, 4))
    rows = [("id", "1"), ("b", "2"), ("a", "3"), ("d", "4")]
    assert renamed_columns(catalog(rows), older, replace(TABLE, marks=2)) == (["d"], [])
    assert with_unknown_places("", 4) == ""


def test_columns_are_filled_that_have_a_value_or_a_name_from_before() -> None:
    rows = [("plain", "f"), ("with_default", "t"), ("gone", "f")]
    assert filled_columns(catalog(rows), version("id", "gone", columns=2), TABLE) == ["with_default", "gone"]


def test_a_table_is_the_same_as_long_as_no_column_was_added() -> None:
    assert version("id").is_same(TABLE)
    assert not version("id", columns=3).is_same(TABLE)


def test_values_have_changed_if_rows_and_a_column_were_written() -> None:
    before = TableVersion(7, 4, files=10, marks=20)
    changes = [(10, 20), (11, 20), (10, 21), (11, 21)]
    found = [before.has_changed_values(replace(TABLE, files=files, marks=marks)) for files, marks in changes]
    assert found == [False, False, False, True]
    assert not TableVersion(7, 4).has_changed_values(replace(TABLE, files=11, marks=21))  # of an older release


def test_new_columns_are_filled_if_all_rows_were_written() -> None:
    before, now = TableVersion(7, 3, files=10), replace(TABLE, files=11)
    assert filled_columns(catalog([("dropped_default", "f")]), before, now) == ["dropped_default"]
    assert filled_columns(catalog([("dropped_default", "f")]), before, replace(TABLE, files=10)) == []


def test_the_marks_of_a_key_change_with_its_columns_alone() -> None:
    def marks(*made: str) -> int:
        rows = [("7", name, place, number) for name, place, number in zip(("id", "a"), "12", made, strict=True)]
        return versions_of(catalog([("7", "id")], rows), [TABLE])[TABLE.name].key_marks

    assert marks("700", "700") == marks("700", "701") != marks("701", "700")


def test_the_newest_statement_on_columns_names_them() -> None:
    rows = [("id", "3"), ("a", "1"), ("b", "1")]
    assert last_changed_columns(catalog(rows), TABLE) == ["a", "b"]
