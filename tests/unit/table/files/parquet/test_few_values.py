"""Texts of few values are read as places in the dictionaries of their file, whatever their file is like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.table.files.parquet.few_values import texts_of_few_values
from penstock.table.files.parquet.reader import read
from penstock.table.values.types import INT, STRING, AtomicType, Field

ROWS = 40_000
FEW, BYTES, MANY = Field(1, "few", STRING), Field(2, "bytes", AtomicType("VARBINARY", 10)), Field(3, "many", STRING)
NULLS, NUMBER = Field(4, "nulls", STRING), Field(5, "number", INT)
FIELDS = (FEW, BYTES, MANY, NULLS, NUMBER)


def sample() -> pa.Table:
    draw = np.random.default_rng(3)
    few = draw.choice(["Berlin", "北京", ""], ROWS)
    return pa.table(
        {
            "few": few,
            "bytes": pa.array([text.encode() for text in few], pa.binary()),
            "many": [f"text {number}" for number in draw.integers(0, ROWS, ROWS)],
            "nulls": pa.array(few, mask=draw.random(ROWS) < 0.1),
            "number": pa.array(draw.integers(0, 3, ROWS).astype(np.int32)),
        }
    )


def stored(rows: pa.Table, **options: Any) -> pa.BufferReader:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=15_000, **options)
    return pa.BufferReader(sink.getvalue())


def coded(source: pa.BufferReader) -> list[str]:
    metadata = pq.read_metadata(source)
    return texts_of_few_values(metadata, FIELDS, range(metadata.num_row_groups))


def test_texts_and_bytes_of_few_values_without_nulls_are_found() -> None:
    assert coded(stored(sample())) == ["few", "bytes"]


@pytest.mark.parametrize("options", [{"use_dictionary": False}, {"write_statistics": False}], ids=str)
def test_files_without_dictionaries_or_counts_of_nulls_have_none(options: dict[str, Any]) -> None:
    assert coded(stored(sample(), **options)) == []


def test_every_row_group_that_is_read_must_have_few_values() -> None:
    rows = sample()
    mixed = rows.set_column(0, "few", pa.concat_arrays([rows["few"].chunk(0)[:30_000], rows["many"].chunk(0)[30_000:]]))
    source = stored(mixed)

    assert coded(source) == ["bytes"]
    assert texts_of_few_values(pq.read_metadata(source), FIELDS, [0, 1]) == ["few", "bytes"]


@pytest.mark.parametrize("batch_rows", [999, 40_000])
def test_the_rows_are_the_same_with_and_without_dictionaries(batch_rows: int) -> None:
    rows = sample()
    plain = [batch for _, batch in read(stored(rows), FIELDS, batch_rows=batch_rows)]
    kept = list(read(stored(rows), FIELDS, batch_rows=batch_rows, keep_dictionaries=True))

    assert pa.Table.from_batches(plain).equals(rows)
    assert {batch.schema.field("few").type for _, batch in kept} == {pa.dictionary(pa.int32(), pa.string())}
    assert all(batch.schema.field("many").type == pa.string() for _, batch in kept)
    for first, batch in kept:
        ours = rows.slice(first, batch.num_rows)
        assert batch.column("few").dictionary_decode().equals(ours["few"].combine_chunks())
        assert batch.column("nulls").equals(ours["nulls"].combine_chunks())
