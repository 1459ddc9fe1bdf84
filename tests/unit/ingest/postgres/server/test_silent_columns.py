"""Columns whose values change without a row of the log are found by comparing the catalog before and after."""

from __future__ import annotations

from typing import Any, cast

import pytest

from penstock.ingest.postgres.server.connection import PgConnection
from penstock.ingest.postgres.server.silent_columns import NONE, SilentColumns, changed_silently

BEFORE = SilentColumns(100, {2: 5, 3: 0, 4: 7})
NAMES = {2: "a", 3: "made", 4: "b"}


class Catalog:
    """A catalog in which the labels up to the number 100 are `older`; the columns in `NAMES` exist."""

    def __init__(self, older: SilentColumns) -> None:
        self.older = older

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        if "RECURSIVE" in sql:
            assert "e.oid <= 100" in sql
            return [("7", str(column), "100", str(number)) for column, number in self.older.numbers.items()]
        asked = set(map(int, sql.partition("attnum IN (")[2].partition(")")[0].split(",")))
        return [(str(column), NAMES[column]) for column in sorted(asked & NAMES.keys())]


@pytest.mark.parametrize(
    ("now", "older", "wanted"),
    [
        (BEFORE, NONE, ([], [])),
        (SilentColumns(100, {2: 6, 3: 0, 4: 7}), NONE, ([], ["a"])),
        (SilentColumns(100, {2: 5, 4: 7}), NONE, (["made"], [])),
        (SilentColumns(100, {2: 6, 4: 8}), NONE, (["made"], ["a", "b"])),
        # A label was added, and another column with an older type.
        (SilentColumns(101, {2: 9, 3: 0, 4: 7}), BEFORE, ([], [])),
        (SilentColumns(101, {2: 9, 3: 0, 4: 8}), SilentColumns(100, {2: 5, 3: 0, 4: 8}), ([], ["b"])),
        (SilentColumns(100, {2: 5, 3: 0, 4: 7, 5: 9}), NONE, ([], [])),
    ],
)
def test_columns_with_other_values_are_found(
    now: SilentColumns, older: SilentColumns, wanted: tuple[list[str], list[str]]
) -> None:
    assert changed_silently(cast("PgConnection", Catalog(older)), 7, BEFORE, now) == wanted


def test_a_column_that_was_dropped_has_no_other_values() -> None:
    before = SilentColumns(100, {2: 5, 9: 1})
    assert changed_silently(cast("PgConnection", Catalog(NONE)), 7, before, SilentColumns(100, {2: 5})) == ([], [])


def test_nothing_is_known_of_an_older_release() -> None:
    assert changed_silently(cast("PgConnection", Catalog(BEFORE)), 7, NONE, BEFORE) == ([], [])
