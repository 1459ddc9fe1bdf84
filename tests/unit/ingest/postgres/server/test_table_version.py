"""Versions of tables: what a plan remembers of a table, and which of its added columns are filled."""

from __future__ import annotations

from typing import Any, cast

from penstock.ingest.postgres.server.catalog import PgTableFacts
from penstock.ingest.postgres.server.connection import PgConnection
from penstock.ingest.postgres.server.table_version import TableVersion, filled_columns, versions_of

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
    return versions_of(catalog([("7", "id")], [("7", name) for name in names]), [table])[table.name]


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
