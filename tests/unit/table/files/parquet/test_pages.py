from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import TableCorrupt
from penstock.table.files.parquet.int96 import has_int96, raw_metadata
from penstock.table.files.parquet.pages import wanted_rows
from penstock.table.files.parquet.reader import leaves
from tests.golden.cases import Case

ROWS = 3_000


def sample(seed: int) -> pa.Table:
    draw = np.random.default_rng(seed)
    absent = draw.random(ROWS) < 0.3
    texts = [f"text {'x' * int(size)}" for size in draw.integers(0, 90, ROWS)]
    return pa.table(
        {
            "id": pa.array(np.arange(ROWS), pa.int64()),
            "deltas": pa.array(draw.integers(0, 1 << 40, ROWS), mask=absent),
            "long": pa.array(texts, mask=absent),
            "few": pa.array(draw.choice(["Berlin", "北京", ""], ROWS)),
            "score": pa.array(draw.random(ROWS), mask=draw.random(ROWS) < 0.9),
            "paid": pa.array(draw.random(ROWS) < 0.5),
            "amount": pa.array([Decimal(int(n)) / 100 for n in draw.integers(0, 10**8, ROWS)], pa.decimal128(16, 2)),
            "huge": pa.array([Decimal(int(n)) / 100 for n in draw.integers(0, 10**8, ROWS)], pa.decimal128(38, 2)),
            "at": pa.array(draw.integers(0, 1 << 50, ROWS), pa.timestamp("us")),
            "day": pa.array(draw.integers(0, 20_000, ROWS).astype(np.int32)).cast(pa.date32()),
            "empty": pa.nulls(ROWS, pa.string()),
            "tiny": pa.array(draw.integers(0, 9, ROWS).astype(np.int8)),
        }
    )


def written(rows: pa.Table, **options: Any) -> tuple[pq.ParquetFile, pa.NativeFile]:
    out = pa.BufferOutputStream()
    pq.write_table(rows, out, row_group_size=1_500, store_schema=False, **options)
    source = pa.BufferReader(out.getvalue())
    return pq.ParquetFile(source), source


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "zstd", "max_rows_per_page": 100},
        {"compression": "snappy", "max_rows_per_page": 700, "data_page_size": 900, "write_batch_size": 64},
        {"compression": "none", "data_page_version": "2.0", "data_page_size": 2_000, "write_batch_size": 50},
        {"compression": "gzip", "data_page_version": "2.0", "max_rows_per_page": 333},
        {"compression": "lz4", "use_dictionary": False, "data_page_size": 2_000, "write_batch_size": 50},
        {"compression": "brotli", "use_dictionary": ["few"], "column_encoding": {"deltas": "DELTA_BINARY_PACKED"}},
        {"use_dictionary": False, "store_decimal_as_integer": True, "write_page_index": True, "max_rows_per_page": 64},
        {"use_dictionary": False, "column_encoding": {"score": "BYTE_STREAM_SPLIT", "long": "DELTA_BYTE_ARRAY"}},
    ],
)
def test_rows_are_those_that_the_whole_row_group_has_at_their_places(options: Mapping[str, Any]) -> None:
    draw = np.random.default_rng(7)
    rows = sample(len(options))
    file, source = written(rows, **options)
    for group in range(2):
        whole = file.read_row_group(group)
        for _ in range(12):
            start = int(draw.integers(0, 1_499))
            wanted = range(start, int(draw.integers(start + 1, min(start + 400, 1_500) + 1)))
            names = [str(name) for name in draw.permutation(rows.column_names)[: draw.integers(1, 12)]]
            found = wanted_rows(file, source, group, names, wanted)
            assert found is not None
            assert found.equals(whole.select(names).slice(start, len(wanted)).combine_chunks().to_batches()[0])


def test_pages_before_the_requested_rows_are_not_decoded() -> None:
    rows = sample(1).select(["deltas", "at"])
    file, source = written(rows, compression="zstd", use_dictionary=False, max_rows_per_page=100)
    data = bytearray(source.read_at(source.size(), 0))
    for place in range(2):
        begin = file.metadata.row_group(0).column(place).data_page_offset
        # Behind the header, within the compressed values of the first page.
        data[begin + 100 : begin + 120] = bytes(20)
    damaged = pa.BufferReader(bytes(data))
    opened = pq.ParquetFile(damaged)

    with pytest.raises(OSError, match=r"(?i)zstd|decompress|corrupt"):
        opened.read_row_group(0)
    found = wanted_rows(opened, damaged, 0, ["deltas", "at"], range(1_200, 1_203))
    assert found is not None
    assert found.to_pylist() == rows.slice(1_200, 3).to_pylist()


class _CountedReads:
    def __init__(self, source: pa.NativeFile) -> None:
        self.source, self.reads = source, 0

    def read_at(self, length: int, place: int) -> bytes:
        self.reads += 1
        return bytes(self.source.read_at(length, place))


def test_columns_that_are_near_each_other_are_one_request_to_the_store() -> None:
    rows = sample(2)
    file, source = written(rows)
    counted = _CountedReads(source)

    found = wanted_rows(file, counted, 1, rows.column_names, range(5, 6))

    assert found is not None
    assert found.to_pylist() == rows.slice(1_505, 1).to_pylist()
    assert counted.reads == 1


def test_nested_columns_are_left_to_the_reader_of_whole_row_groups() -> None:
    members = pa.array([{"b": number} for number in range(20)])
    lists = pa.array([[number, number] for number in range(20)])
    numbers = pa.array(range(20))
    file, source = written(pa.table({"a": members, "l": lists, "a.b": numbers, "n": numbers}))

    assert wanted_rows(file, source, 0, ["a", "n"], range(3, 4)) is None
    assert wanted_rows(file, source, 0, ["l"], range(3, 4)) is None
    # The path of the member of `a` is the name of another column.
    assert wanted_rows(file, source, 0, ["a.b"], range(3, 4)) is None
    found = wanted_rows(file, source, 0, ["n"], range(3, 4))
    assert found is not None
    assert found.to_pylist() == [{"n": 3}]


def test_large_columns_are_left_to_the_reader_of_whole_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    file, source = written(sample(3))
    size = file.metadata.row_group(0).column(0).total_compressed_size
    monkeypatch.setattr("penstock.table.files.parquet.pages._MOST_BYTES", size)

    assert wanted_rows(file, source, 0, ["id"], range(3, 4)) is not None
    assert wanted_rows(file, source, 0, ["id", "few"], range(3, 4)) is None


def test_a_page_that_is_longer_than_its_column_is_refused() -> None:
    file, source = written(sample(4).select(["id"]), use_dictionary=False, max_rows_per_page=100)
    data = bytearray(source.read_at(source.size(), 0))
    begin = file.metadata.row_group(0).column(0).data_page_offset
    # Field 3 of a header, the compressed size, follows the type (2 bytes) and the uncompressed size (3 bytes).
    assert data[begin + 5] == 0x15
    assert data[begin + 6] & 0x80
    data[begin + 6 : begin + 8] = b"\xfe\x7f"
    damaged = pa.BufferReader(bytes(data))

    with pytest.raises(TableCorrupt, match="not within its column"):
        wanted_rows(pq.ParquetFile(damaged), damaged, 0, ["id"], range(1_200, 1_203))


@pytest.mark.parametrize("name", ["types_append_parquet", "types_pk_parquet", "codecs_parquet", "py_append_types"])
def test_rows_of_files_of_java_and_pypaimon_are_those_of_the_whole_row_group(name: str) -> None:
    compared = 0
    for path in Case(name).table.rglob("*.parquet"):
        source = pa.OSFile(str(path))
        file = pq.ParquetFile(source)
        if has_int96(file.metadata, leaves(file.metadata, names := file.schema_arrow.names, names)):
            file = pq.ParquetFile(source, metadata=raw_metadata(source))
        columns = [field.name for field in file.schema_arrow if not pa.types.is_nested(field.type)]
        for group in range(file.num_row_groups):
            whole = file.read_row_group(group, columns)
            for start in range(0, len(whole), max(1, len(whole) // 3)):
                found = wanted_rows(file, source, group, columns, range(start, start + 1))
                assert found is not None
                # As texts, since NaN differs from itself.
                assert str(found.select(columns).to_pydict()) == str(whole.select(columns).slice(start, 1).to_pydict())
                compared += 1
    assert compared
