"""Headers of pages, as the parser of whole structures reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.table.files.parquet.page_header import PageHeader, page_header
from penstock.table.files.parquet.thrift import (
    BINARY,
    BYTE,
    DOUBLE,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    Items,
    Struct,
    ThriftReader,
    struct_bytes,
)


def whole(data: bytes, place: int) -> PageHeader:
    reader = ThriftReader(data, place)
    header = reader.struct()
    details: Any = header.get(5) or header.get(8) or Struct()
    return PageHeader(reader.place, *(of.get(number) or 0 for of, number in ((header, 1), (header, 3), (details, 1))))  # type: ignore[arg-type]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_headers_of_all_pages_of_a_file_are_read(version: str) -> None:
    chance = np.random.default_rng(1)
    rows = pa.table(
        {
            "number": pa.array(chance.integers(0, 1 << 40, 9_000), mask=chance.random(9_000) < 0.3),
            "few": chance.choice(["Berlin", "北京"], 9_000),
            "text": [f"text {number}" for number in range(9_000)],
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, data_page_version=version, data_page_size=4_000, use_dictionary=["few"])
    data = sink.getvalue().to_pybytes()
    group = pq.read_metadata(pa.BufferReader(data)).row_group(0)

    pages = 0
    for chunk in map(group.column, range(group.num_columns)):
        place = chunk.dictionary_page_offset or chunk.data_page_offset
        while place < (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size:
            header = page_header(data, place)
            assert header == whole(data, place)
            place, pages = header.end + header.size, pages + 1
    assert pages > 10


def test_fields_that_are_not_needed_are_passed_over() -> None:
    details = Struct({1: (I32, 300), 5: (STRUCT, Struct({1: (BINARY, b"\xff" * 200), 3: (I64, -(1 << 60))}))})
    others = {4: (DOUBLE, 0.5), 6: (TRUE, True), 7: (LIST, Items(BINARY, [b"a", b"bc"])), 40: (BYTE, 7), 41: (I16, 3)}
    data = b"before" + struct_bytes(Struct({1: (I32, 3), 3: (I32, 70_000), 8: (STRUCT, details), **others})) + b"page"

    assert page_header(data, 6) == PageHeader(len(data) - 4, 3, 70_000, 300)
    for end in range(6, len(data) - 4):
        with pytest.raises((IndexError, ValueError)):
            page_header(data[:end], 6)
