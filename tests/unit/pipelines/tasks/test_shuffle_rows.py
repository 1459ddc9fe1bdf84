from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import DecodeError
from penstock.formats.change import RowBatch
from penstock.pipelines.mapping.target_tables import TargetVersion
from penstock.pipelines.tasks import shuffle_rows as blobs
from penstock.pipelines.tasks.shuffle_rows import SCHEMA, Blob, RowWindow, as_batch, pieces, unpacked

ROWS = pa.schema([("id", pa.int64()), ("kind", pa.string())])


def rows(*ids: int, width: int = 1) -> pa.RecordBatch:
    return pa.record_batch([pa.array(ids, pa.int64()), pa.array(["x" * width] * len(ids))], schema=ROWS)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def add(window: RowWindow, table: str, ids: list[int], pos: list[int], sub: list[int]) -> None:
    window.add(table, RowBatch(rows(*ids), np.zeros(len(ids), np.int8), numbers(*pos), np.array(sub, np.int32)))


def test_rows_of_several_source_schemas_keep_the_order_of_the_source() -> None:
    window = RowWindow()
    add(window, "t", [1, 3, 5], [10, 30, 50], [0, 0, 0])
    add(window, "t", [2, 4, 40], [20, 40, 40], [0, 0, 1])
    ((_, batch),) = window.drain()
    assert batch.rows.column("id").to_pylist() == [1, 2, 3, 4, 40, 5]
    assert batch.positions.tolist() == [10, 20, 30, 40, 40, 50]
    assert batch.subs.tolist() == [0, 0, 0, 0, 1, 0]
    assert list(window.drain()) == []


def test_a_drifted_table_frees_its_memory() -> None:
    window = RowWindow(most_bytes=1)
    add(window, "t", [1], [1], [0])
    assert window.is_full
    window.forget("t")
    assert not window.is_full
    assert list(window.drain()) == []


@given(st.lists(st.integers(0, 3), min_size=1, max_size=50), st.integers(1, 400))
def test_a_blob_returns_its_rows_and_kinds(kinds: list[int], size: int) -> None:
    batch = rows(*range(len(kinds)))
    whole = blobs.BLOB_BYTES
    blobs.BLOB_BYTES = size
    try:
        parts = list(pieces(batch, np.array(kinds, np.int8), "t"))
    finally:
        blobs.BLOB_BYTES = whole
    found = [unpacked(data, ROWS) for _, data in parts]
    assert [count for count, _ in parts] == [part.num_rows for part, _ in found]
    assert [item for part, _ in found for item in part.column("id").to_pylist()] == list(range(len(kinds)))
    assert [int(kind) for _, part in found for kind in part] == kinds


def test_a_row_that_is_too_large_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "LARGEST_ROW", 1000)
    monkeypatch.setattr(blobs, "BLOB_BYTES", 500)
    with pytest.raises(DecodeError) as caught:
        list(pieces(rows(1, 2, width=2000), np.zeros(2, np.int8), "ods.wide"))
    assert caught.value.facts["table"] == "ods.wide"


def test_blobs_of_a_range_are_numbered_consecutively() -> None:
    batch = as_batch(
        3, 7, [Blob("t", TargetVersion(0), b"", 1, 1, 5, b"x"), Blob("t", TargetVersion(0), b"", 2, 0, 5, b"y")]
    )
    assert batch.schema == SCHEMA
    assert batch.column("range").to_pylist() == [3, 3]
    assert batch.column("position").to_pylist() == [7, 8]
