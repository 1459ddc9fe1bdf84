"""The keys of the differences that `penstock verify` lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.pipelines.api.compared_columns import KeyDiffers, RangeSums, Rows, differing_keys


def side(*rows: tuple[int, int]) -> RangeSums:
    """Return the sums of rows with these keys and hashes, all in one range, whose keys are known."""
    keys = pa.record_batch({"id": [key for key, _ in rows]})
    batch: Rows = (keys, np.array([hashed for _, hashed in rows], np.int64), np.zeros(len(rows), np.int64))
    compared: Any = None  # neither sums nor keys need it
    sums = RangeSums(compared)
    sums.add(batch)
    sums.find_keys(np.zeros(1, np.int64), iter([batch]))
    return sums


def test_a_key_that_several_rows_of_the_table_have_is_listed() -> None:
    source, table = side((1, 11), (2, 22)), side((1, 11), (2, 22), (2, 22))
    assert len(source.differs_from(table)) == 1
    assert differing_keys(["id"], source, table, 20) == ((KeyDiffers("repeated", {"id": 2}),), {"repeated": 1})


def test_a_key_that_several_rows_of_the_source_have_is_listed() -> None:
    source, table = side((1, 11), (1, 11)), side((1, 11))
    assert differing_keys(["id"], source, table, 20) == ((KeyDiffers("doubled", {"id": 1}),), {"doubled": 1})
