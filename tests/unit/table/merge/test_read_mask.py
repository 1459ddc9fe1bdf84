"""Masks over runs show the rows that merging them would give."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from penstock.table.merge.bounded_merge import MAX_OPEN_RUNS, SortedRun
from penstock.table.merge.merge_rows import merge_rows
from penstock.table.merge.read_mask import deciding_columns, may_mask, shown_rows
from penstock.table.merge.spec import MergeSpec
from tests.unit.table.merge.tables import rows_table, spec_of

COLUMNS = {"k": "STRING NOT NULL", "v": "INT", "note": "STRING"}
KEYS: dict[str, Sequence[Any]] = {
    "STRING": [f"key {n}" for n in range(40)],
    "INT": range(-20, 20),
    "BIGINT": [*range(20), *range(1 << 40, (1 << 40) + 20)],
}


def runs_of(spec: MergeSpec, random: Random, keys_of: Sequence[Any]) -> list[pa.Table]:
    numbers, runs = itertools.count(), []
    for _ in range(random.randint(2, 6)):
        keys = sorted(random.sample(keys_of, random.randint(0, 30)))
        rows = [{"k": key, "v": random.choice([None, 1, 2, 3]), "note": random.choice("ab")} for key in keys]
        runs.append(rows_table(spec, [(next(numbers), random.choice([0, 0, 2, 3]), row) for row in rows]))
    return runs


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("options", [{}, {"sequence.field": "v"}], ids=["newest", "by a sequence field"])
@pytest.mark.parametrize("numbered", [True, False], ids=["numbered", "in order"])
def test_the_rows_shown_are_those_of_a_merge(options: dict[str, str], numbered: bool, key: str) -> None:
    spec = spec_of(COLUMNS | {"k": f"{key} NOT NULL"}, options, ("k",))
    for seed in range(20):
        runs = runs_of(spec, Random(seed), KEYS[key])
        wanted = deciding_columns(spec) if numbered else deciding_columns(spec) - {"_SEQUENCE_NUMBER"}
        slim = [run.select([name for name in run.column_names if name in wanted]) for run in runs]
        masks = shown_rows(spec, [SortedRun(0, item.to_batches(max_chunksize=7)) for item in slim])
        shown = pa.concat_tables(
            run.filter(pa.array(mask.between(0, len(run)))) for run, mask in zip(runs, masks, strict=True)
        )
        merged = merge_rows(spec, runs, drop_deletes=True)
        assert shown.sort_by("k").to_pylist() == merged.to_pylist()


def test_only_untouched_newest_rows_of_runs_that_can_all_be_open_are_masked() -> None:
    plain = spec_of(COLUMNS, {}, ("k",))
    assert may_mask(plain, MAX_OPEN_RUNS)
    assert not may_mask(plain, MAX_OPEN_RUNS + 1)
    assert not may_mask(spec_of(COLUMNS, {"merge-engine": "partial-update"}, ("k",)), 2)
    assert not may_mask(spec_of(COLUMNS, {"ignore-delete": "true"}, ("k",)), 2)
