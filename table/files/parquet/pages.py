"""Reading of the pages of a row group that contain wanted rows, without decoding the pages before them.

Arrow decodes a column from its first page on. The header of a page contains its number of rows, so the wanted pages are
found without decoding any. They are given to Arrow as a Parquet file in memory, which reads them in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import TableCorrupt
from penstock.table.files.parquet.column_bytes import ColumnBytes, column_bytes
from penstock.table.files.parquet.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Items,
    Struct,
    ThriftReader,
    struct_bytes,
)

_MAGIC = b"PAR1"
# Numbers of the Parquet specification: of kinds of pages, of a repeated column, and of fields below.
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_REPEATED = 2
# Arrow's names of the codecs. LZ4 is LZ4_RAW in the specification; Hadoop's older form of it has no name in Arrow.
_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6, "LZ4": 7}
_MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class _Pages:
    """The pages of a column that contain the wanted rows, and all rows of these pages, counted in the row group."""

    chunk: Any
    rows: range
    dictionary: bytes | memoryview
    data: bytes | memoryview


def wanted_rows(file: Any, source: Any, group: int, names: Sequence[str], rows: range) -> pa.RecordBatch | None:
    """Return rows of a row group, or None if only Arrow can find them, or if the columns are too large for memory.

    `file` is the opened ParquetFile, `source` its bytes. Holds the compressed columns of the row group.
    """
    metadata = file.metadata.row_group(group)
    places = [metadata.column(place) for place in range(metadata.num_columns)]
    chunks = [chunk for chunk in places if chunk.path_in_schema in names]
    elements = _flat_columns(file.metadata)
    # The path of a nested column leads to a member. It may even equal the name of another column that has a dot.
    if sorted(chunk.path_in_schema for chunk in chunks) != sorted(names) or not elements.keys() >= set(names):
        return None
    if any(chunk.compression not in _CODECS for chunk in chunks):
        return None
    if sum(chunk.total_compressed_size for chunk in chunks) > _MOST_BYTES:
        return None
    by_rows: dict[range, list[_Pages]] = {}
    for chunk, content in column_bytes(source, chunks):
        pages = _pages_of(chunk, content, rows)
        by_rows.setdefault(pages.rows, []).append(pages)
    columns: dict[str, pa.Array] = {}
    for held, members in by_rows.items():
        table = _decoded(members, elements, rows.stop - held.start).slice(rows.start - held.start)
        columns |= {name: table.column(name).combine_chunks() for name in table.column_names}
    return pa.RecordBatch.from_arrays([columns[name] for name in names], names=list(names))


def _flat_columns(metadata: Any) -> dict[str, Struct]:
    """Return the columns of a file that are neither nested nor repeated: the elements of its schema by name."""
    stream = pa.BufferOutputStream()
    metadata.write_metadata_file(stream)
    # The schema is the second field of a footer, so the row groups after it are not parsed.
    elements = ThriftReader(stream.getvalue().to_pybytes(), len(_MAGIC)).struct(last=2).structs(2)
    found, place = {}, 1
    while place < len(elements):
        element = elements[place]
        if not _number(element, 5) and _number(element, 3) != _REPEATED:
            name = element.get(4)
            found[name.decode() if isinstance(name, bytes) else ""] = element
        # The elements of a nested column follow it, each before its own children.
        open_elements = 1
        while open_elements:
            open_elements += _number(elements[place], 5) - 1
            place += 1
    return found


def _number(of: Struct, field: int) -> int:
    value = of.get(field)
    return value if isinstance(value, int) else 0


def _pages_of(chunk: Any, content: ColumnBytes, rows: range) -> _Pages:
    """Return the pages with the rows. `content` is the bytes of the column."""
    place = begin = row = first = 0
    dictionary = content.part(0, 0)
    while row < rows.stop:
        begins, header = place, content.header(place)
        place = header.end + header.size
        if not header.end <= place <= content.size:
            raise TableCorrupt("a page of a Parquet file is not within its column", column=chunk.path_in_schema)
        if header.kind == _DICTIONARY_PAGE:
            dictionary = content.part(begins, place)
        elif header.kind in (_DATA_PAGE, _DATA_PAGE_V2):
            if row <= rows.start:
                begin, first = begins, row
            # A column that is not repeated has a value, possibly null, in every row.
            row += header.values
    return _Pages(chunk, range(first, row), dictionary, content.part(begin, place))


def _decoded(members: Sequence[_Pages], elements: Mapping[str, Struct], count: int) -> pa.Table:
    """Return at least the first `count` rows of pages that have the same rows."""
    root = Struct({4: (BINARY, b"schema"), 5: (I32, len(members))})
    parts: list[bytes | memoryview] = [_MAGIC]
    chunks, place = [], len(_MAGIC)
    for pages in members:
        chunks.append(_chunk(pages, elements[pages.chunk.path_in_schema], place))
        parts += [pages.dictionary, pages.data]
        place += len(pages.dictionary) + len(pages.data)
    rows = len(members[0].rows)
    group = Struct({1: (LIST, Items(STRUCT, list(chunks))), 2: (I64, place), 3: (I64, rows)})
    schema = [root, *(elements[pages.chunk.path_in_schema] for pages in members)]
    footer = struct_bytes(
        Struct(
            {
                1: (I32, 2),
                2: (LIST, Items(STRUCT, list(schema))),
                3: (I64, rows),
                4: (LIST, Items(STRUCT, [group])),
            }
        )
    )
    data = b"".join([*parts, footer, len(footer).to_bytes(4, "little"), _MAGIC])
    batches, read = [], 0
    # Batches end with the last wanted row: the rest of its page is not decoded.
    for batch in pq.ParquetFile(pa.BufferReader(data)).iter_batches(count, use_threads=False):
        batches.append(batch)
        read += batch.num_rows
        if read >= count:
            break
    return pa.Table.from_batches(batches)


def _chunk(pages: _Pages, element: Struct, place: int) -> Struct:
    """Return the description of a column whose pages begin at `place`."""
    size = len(pages.dictionary) + len(pages.data)
    name = element.fields[4]
    details = {
        1: element.fields[1],
        2: (LIST, Items(I32, [])),
        3: (LIST, Items(BINARY, [name[1]])),
        4: (I32, _CODECS[pages.chunk.compression]),
        5: (I64, len(pages.rows)),
        6: (I64, size),
        7: (I64, size),
        9: (I64, place + len(pages.dictionary)),
    }
    if pages.dictionary:
        details[11] = (I64, place)
    return Struct({2: (I64, place), 3: (STRUCT, Struct(details))})
