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
    versions_of,
)

TABLE = PgTableFacts(7, "public", "t", has_key=True, identity="d", rows=1, columns=4)


class Catalog:
    """A catalog that answers each query with the next rows."""

    def __init__(self, *answers: list[tuple[Any, ...]]) -> None:
        self.answers = list(answers)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.answers.pop(0)


def catalog(*answers: list[tuple[Any, ...]]) -> PgConnection:
    return cast("PgConnection", Catalog(*answers))


def version(*names: str, columns: int = 4) -> TableVersion:
    table = PgTableFacts(7, "public", "t", has_key=True, identity="d", rows=1, columns=columns)
    return versions_of(catalog([("7", "id")], [("7", name, "700") for name in names]), [table])[table.name]


def test_a_version_has_the_key_and_a_mark_of_each_name() -> None:
    found = version("id", "a", "A")
    assert (found.oid, found.columns, found.key) == (7, 4, ("id",))
    assert len(found.names) == 9
    assert [found.had(name) for name in ("id", "a", "A", "b")] == [True, True, True, False]


def test_names_of_dropped_columns_are_kept_until_the_table_is_another_one() -> None:
    before, now = version("id", "gone"), version("id", "new", columns=5)
    assert [now.after(before).had(name) for name in ("id", "gone", "new")] == [True, True, True]
    another = TableVersion(8, 2, ("id",), now.names)
    assert not another.after(before).had("gone")
    assert now.after(None) == now


def test_columns_are_filled_that_have_a_value_or_a_name_from_before() -> None:
    rows = [("plain", "f"), ("with_default", "t"), ("gone", "f")]
    assert filled_columns(catalog(rows), version("id", "gone", columns=1), TABLE) == ["with_default", "gone"]


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
        rows = [("7", name, number) for name, number in zip(("id", "a"), made, strict=True)]
        return versions_of(catalog([("7", "id")], rows), [TABLE])[TABLE.name].key_marks

    assert marks("700", "700") == marks("700", "701") != marks("701", "700")


def test_the_newest_statement_on_columns_names_them() -> None:
    rows = [("id", "3"), ("a", "1"), ("b", "1")]
    assert last_changed_columns(catalog(rows), TABLE) == ["a", "b"]
