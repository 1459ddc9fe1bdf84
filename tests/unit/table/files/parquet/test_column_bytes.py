from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import TableCorrupt
from penstock.table.files.parquet.column_bytes import column_bytes
from penstock.table.files.parquet.pages import wanted_rows
from penstock.table.files.parquet.thrift import ThriftReader

ROWS = 4_000


def written(folder: Path) -> Path:
    """Return a file with long least and greatest values in the headers of its pages."""
    rows = pa.table(
        {
            "id": range(ROWS),
            "long": [f"{'x' * 300}{n}" for n in range(ROWS)],
            "few": [f"v{n % 7}" for n in range(ROWS)],
        }
    )
    path = folder / "rows.parquet"
    pq.write_table(rows, path, max_rows_per_page=500, row_group_size=2_000, store_schema=False)
    return path


def test_rows_on_a_disk_are_those_in_memory(tmp_path: Path) -> None:
    path = written(tmp_path)
    file, disk, memory = pq.ParquetFile(path), pa.OSFile(str(path)), pa.BufferReader(path.read_bytes())

    for wanted in (range(1), range(499, 501), range(1_234, 1_300), range(1_999, 2_000)):
        found = wanted_rows(file, disk, 1, ["few", "id", "long"], wanted)
        assert found is not None
        assert found.equals(wanted_rows(file, memory, 1, ["few", "id", "long"], wanted))
        assert found["id"].to_pylist() == [2_000 + place for place in wanted]


def test_headers_are_read_without_their_pages(tmp_path: Path) -> None:
    path = written(tmp_path)
    metadata = pq.ParquetFile(path).metadata.row_group(0)
    chunks = [metadata.column(place) for place in range(3)]
    content = path.read_bytes()

    for chunk, held in column_bytes(pa.OSFile(str(path)), chunks):
        begin = int(chunk.dictionary_page_offset or chunk.data_page_offset)
        place, pages = 0, 0
        while place < held.size:
            reader = ThriftReader(content, begin + place)
            size = reader.struct().get(3)
            assert isinstance(size, int)
            header = held.header(place)
            assert (header.end, header.size) == (reader.place - begin, size)
            assert bytes(held.part(place, header.end)) == content[begin + place : begin + header.end]
            place, pages = header.end + header.size, pages + 1
        assert pages >= 4


def test_a_damaged_header_on_a_disk_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    file = pq.ParquetFile(path)
    chunk = file.metadata.row_group(1).column(0)
    begin = int(chunk.dictionary_page_offset or chunk.data_page_offset)
    content = bytearray(path.read_bytes())
    content[begin : begin + 400] = b"\x15\xff" * 200
    path.write_bytes(content)

    with pytest.raises((TableCorrupt, ValueError, IndexError)):
        wanted_rows(file, pa.OSFile(str(path)), 1, ["id"], range(1_200, 1_203))
