from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.table.merge.key_groups import SEQUENCE, group_rows, newest_rows, with_older_rows
from penstock.table.merge.read_mask import newest_of_integers
from tests.unit.table.merge.tables import spec_of

COLUMNS = {"k": "BIGINT NOT NULL", "v": "INT"}
SPEC = spec_of(COLUMNS)
LEAST, MOST = -(2**63) + 1, 2**63 - 1


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 400), (-200, 200), (0, 100_000), (MOST - 300, MOST), (LEAST, MOST)],
    ids=["dense", "negative", "sparse", "greatest", "all"],
)
@pytest.mark.parametrize("numbered", [False, True])
def test_the_newest_rows_are_the_last_ones_of_the_groups(low: int, high: int, *, numbered: bool) -> None:
    chance = np.random.default_rng(high % 1_000)
    runs = [np.unique(chance.integers(low, high, 200, endpoint=True)) for _ in range(4)]
    keys = np.concatenate(runs)
    rows = pa.table({"k": keys, "v": np.arange(len(keys), dtype=np.int32)})
    if numbered:
        rows = rows.append_column(SEQUENCE, pa.array(chance.permutation(len(keys))))

    groups = group_rows(SPEC, rows)
    expected = np.zeros(len(keys), np.bool_)
    expected[groups.order[groups.ends - 1]] = True

    assert np.array_equal(newest_rows(SPEC, rows), expected)
    found = newest_of_integers(runs)
    assert (found is None) == (high - low > 16 * len(keys))
    assert found is None or numbered or np.array_equal(np.concatenate(found), expected)


def test_no_rows_have_no_newest_one() -> None:
    assert len(newest_rows(SPEC, pa.table({"k": pa.array([], pa.int64()), "v": pa.array([], pa.int32())}))) == 0


@pytest.mark.parametrize("sequence", [None, "v"])
@pytest.mark.parametrize("numbered", [False, True])
def test_older_rows_are_put_where_grouping_puts_them(sequence: str | None, *, numbered: bool) -> None:
    spec = SPEC if sequence is None else spec_of(COLUMNS, {"sequence.field": sequence})
    for seed in range(30):
        chance = np.random.default_rng(seed)
        keys = np.concatenate([np.unique(chance.integers(0, 60, chance.integers(1, 40))) for _ in range(3)])
        known = np.unique(keys)
        older = known[chance.random(len(known)) < 0.5]
        rows = pa.table({"k": np.concatenate([older, keys])})
        # Values that tie, and numbers that do not ascend with the age of a row.
        rows = rows.append_column("v", pa.array(chance.integers(0, 3, len(rows)).astype(np.int32)))
        if numbered:
            rows = rows.append_column(SEQUENCE, pa.array(chance.integers(0, 50, len(rows))))
        groups = group_rows(spec, rows.slice(len(older)))
        found = with_older_rows(spec, groups, rows, np.searchsorted(known, older))
        expected = group_rows(spec, rows)
        assert np.array_equal(found.order, expected.order)
        assert np.array_equal(found.starts, expected.starts)
