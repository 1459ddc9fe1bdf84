from __future__ import annotations

import numpy as np
import pytest

from penstock.table.merge.row_bits import RowBits


@pytest.mark.parametrize("most", [5, 1_000, 150_000])
def test_flags_are_returned_for_any_range(most: int) -> None:
    chance = np.random.default_rng(most)
    parts = [chance.random(chance.integers(0, most)) < 0.5 for _ in range(12)]
    flags, bits = np.concatenate(parts), RowBits()
    for part in parts:
        bits.add(part)

    for start, end in [(0, len(flags)), *np.sort(chance.integers(0, len(flags) + 1, (30, 2)), axis=1).tolist()]:
        assert np.array_equal(bits.between(start, end), flags[start:end])


def test_a_run_without_rows_has_no_flags() -> None:
    assert len(RowBits().between(0, 0)) == 0
