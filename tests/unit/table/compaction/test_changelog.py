"""Differences between what a key was and what it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.table.compaction.changelog import ChangelogSpec, diff, lowest_rows
from penstock.table.merge.key_groups import group_rows
from penstock.table.options.table_options import TableOptions
from tests.unit.table.compaction.memory_bucket import records_of
from tests.unit.table.merge.tables import rows_table, spec_of

COLUMNS: dict[str, Any] = {
    "k": "INT NOT NULL",
    "x": "DOUBLE",
    "s": "STRING",
    "l": {"type": "ARRAY", "element": "INT"},
}
SPEC = spec_of(COLUMNS)
NAN = float("nan")


def changes(before: list[Any], after: list[Any], changelog: ChangelogSpec | None = None) -> list[tuple[int, int]]:
    """(kind, key) of each change; rows are (kind, row) or None, one a key."""
    tables, numbers = [], []
    for rows in (before, after):
        present = [row for row in rows if row is not None]
        tables.append(rows_table(SPEC, [(7, kind, row) for kind, row in present]))
        places = iter(range(len(present)))
        numbers.append(np.array([-1 if row is None else next(places) for row in rows]))
    found = diff(SPEC, changelog or ChangelogSpec(), *tables, *numbers)
    return [(kind, row["k"]) for kind, row in records_of(found)]


def a_row(key: int, **values: Any) -> tuple[int, dict[str, Any]]:
    return 0, {"k": key, **values}


def test_inserted_deleted_and_updated_keys() -> None:
    before = [None, a_row(2), a_row(3, s="old"), None]
    after = [a_row(1), None, a_row(3, s="new"), None]
    assert changes(before, after) == [(0, 1), (3, 2), (1, 3), (2, 3)]


def test_both_images_may_come_from_one_table() -> None:
    rows = rows_table(SPEC, [(n, kind, {"k": key, "s": f"{n}"}) for n, kind, key in [(1, 0, 1), (2, 3, 1), (3, 0, 2)]])
    more = rows_table(SPEC, [(4, 2, {"k": 2, "s": "4"}), (5, 0, {"k": 3, "s": "5"})])
    together = pa.concat_tables([rows, more])
    found = diff(SPEC, ChangelogSpec(), together, together, np.array([0, 2, -1]), np.array([1, 3, 4]))
    assert [(kind, row["k"], row["s"]) for kind, row in records_of(found)] == [
        (3, 1, "1"),
        (1, 2, "3"),
        (2, 2, "4"),
        (0, 3, "5"),
    ]


def test_retracts_count_as_no_row() -> None:
    gone = (3, {"k": 1})
    assert changes([gone], [a_row(1)]) == [(0, 1)]
    assert changes([a_row(1)], [gone]) == [(3, 1)]
    assert changes([gone], [(1, {"k": 1})]) == []


def test_equal_rows_are_an_update_unless_configured() -> None:
    rows = [a_row(1, s="a", x=1.0, l=[1, None])]
    assert changes(rows, rows) == [(1, 1), (2, 1)]
    assert changes(rows, rows, ChangelogSpec(deduplicate=True)) == []


@pytest.mark.parametrize(
    ("old", "new", "equal"),
    [
        ({"x": None}, {"x": None}, True),
        ({"x": None}, {"x": 0.0}, False),
        ({"x": 0.0}, {"x": -0.0}, True),
        ({"x": NAN}, {"x": NAN}, False),
        ({"s": ""}, {"s": None}, False),
        ({"s": "a"}, {"s": "b"}, False),
        ({"l": [1, 2]}, {"l": [1, 2]}, True),
        ({"l": [1, 2]}, {"l": [2, 1]}, False),
        ({"l": []}, {"l": None}, False),
    ],
)
def test_images_are_compared_as_java_does(old: dict[str, Any], new: dict[str, Any], equal: bool) -> None:
    found = changes([a_row(1, **old)], [a_row(1, **new)], ChangelogSpec(deduplicate=True))
    assert found == ([] if equal else [(1, 1), (2, 1)])


def test_ignored_fields_make_no_difference() -> None:
    ignoring = ChangelogSpec(deduplicate=True, ignored=("s",))
    assert changes([a_row(1, s="a")], [a_row(1, s="b")], ignoring) == []


def test_options_of_the_changelog() -> None:
    options = {
        "changelog-producer": "Full-Compaction",
        "changelog-producer.row-deduplicate": "true",
        "changelog-producer.row-deduplicate-ignore-fields": "a, b",
    }
    assert ChangelogSpec.of(TableOptions(options)) == ChangelogSpec(
        "full-compaction", deduplicate=True, ignored=("a", "b")
    )


def test_the_lowest_row_of_a_key_is_the_last_one_on_its_smallest_level() -> None:
    for seed in range(30):
        chance = np.random.default_rng(seed)
        keys, levels = chance.integers(0, 12, 40), chance.integers(0, 4, 40) * chance.integers(0, 2, 40)
        groups = group_rows(SPEC, rows_table(SPEC, [(0, 0, {"k": int(key)}) for key in keys]))
        expected = []
        for first, end in zip(groups.starts, groups.ends, strict=True):
            upper = [row for row in groups.order[first:end].tolist() if levels[row]]
            # Of rows on the same level, `min` would return the first.
            expected.append(min(reversed(upper), key=lambda row: levels[row], default=-1))
        assert lowest_rows(groups, levels).tolist() == expected
