"""The two rows of an update in one batch and in one row, however the changelog is divided into batches."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.table.read.update_pairs import packed_updates, whole_updates

CHANGES = [("+I", 1), ("-U", 1), ("+U", 2), ("-U", 2), ("+U", 3), ("-D", 3), ("+U", 9), ("-U", 9)]
PACKED = [("+I", [1]), ("+U", [1, 2]), ("+U", [2, 3]), ("-D", [3]), ("+U", [9]), ("-U", [9])]


def batches(ends: list[int]) -> Iterator[pa.RecordBatch]:
    whole = pa.RecordBatch.from_pylist([{"rowkind": kind, "v": v} for kind, v in CHANGES])
    for begin, end in zip([0, *ends], [*ends, len(CHANGES)], strict=True):
        yield whole.slice(begin, end - begin)


@pytest.mark.parametrize("seed", range(20))
def test_a_packed_row_has_both_values_also_if_batches_end_between_them(seed: int) -> None:
    chance = random.Random(seed)
    ends = sorted(chance.randrange(len(CHANGES) + 1) for _ in range(chance.randrange(4)))
    made = [row for batch in whole_updates(batches(ends)) for row in packed_updates(batch).to_pylist()]
    assert [(row["rowkind"], row["v"]) for row in made] == PACKED
