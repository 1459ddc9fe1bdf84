"""The writer of a Parquet file takes the rows that it got as a sample, and all others, as they are."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.table.files.columns import stored_rows
from penstock.table.files.encoding import Encoding
from penstock.table.files.parquet import writer
from penstock.table.files.parquet.codings import SAMPLE_ROWS
from penstock.table.files.parquet.writer import ParquetWriter
from penstock.table.values.types import AtomicType, Field

# Seconds in memory are milliseconds in files, so that the layout of the column differs.
MOMENT = Field(0, "moment", AtomicType("TIMESTAMP", precision=0))


def moments(first: int, count: int) -> pa.Table:
    return pa.table({"moment": pa.array(range(first, first + count), pa.timestamp("s"))})


def written(sink: pa.BufferOutputStream) -> list[int]:
    found = pq.read_table(pa.BufferReader(sink.getvalue())).column("moment")
    return [number // 1000 for number in found.cast(pa.int64()).to_pylist()]


@pytest.mark.parametrize(("count", "conversions"), [(100, 2), (SAMPLE_ROWS, 2), (SAMPLE_ROWS + 1, 3)])
def test_the_rows_of_a_small_file_are_converted_once(
    monkeypatch: pytest.MonkeyPatch, count: int, conversions: int
) -> None:
    converted: list[int] = []
    monkeypatch.setattr(
        writer, "stored_rows", lambda rows, *of: (converted.append(len(rows)), stored_rows(rows, *of))[1]
    )
    sink, rows, others = pa.BufferOutputStream(), moments(0, count), moments(count, 50)
    opened = ParquetWriter(sink, (MOMENT,), Encoding(), rows)
    opened.write(rows)
    opened.write(others)
    opened.close()
    assert len(converted) == conversions
    assert written(sink) == list(range(count + 50))


def test_a_sample_of_other_rows_is_not_written() -> None:
    sink = pa.BufferOutputStream()
    opened = ParquetWriter(sink, (MOMENT,), Encoding(), moments(0, 3))
    opened.write(moments(10, 2))
    opened.close()
    assert written(sink) == [10, 11]
