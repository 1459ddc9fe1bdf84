"""Rows of COPY: the file header with or without a first row, nulls, and rows that do not fit."""

from __future__ import annotations

import struct

import pytest

from penstock.ingest.postgres.errors import UnexpectedMessage
from penstock.ingest.postgres.received import Received
from penstock.ingest.postgres.values.copy_rows import cells_of, rows_of
from penstock.ingest.postgres.values.windows import Shape

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)


def row(*values: bytes | None) -> bytes:
    cells = (struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value for value in values)
    return struct.pack(">h", len(values)) + b"".join(cells)


@pytest.mark.parametrize(
    "messages", [[HEADER, row(b"ab", None), b"\xff\xff"], [HEADER + row(b"ab", None), b"\xff\xff"]]
)
def test_header_and_trailer_are_skipped(messages: list[bytes]) -> None:
    assert bodies(messages) == [row(b"ab", None)]
    assert bodies([HEADER]) == bodies([b"\xff\xff"]) == bodies([]) == []
    assert bodies([b"\xff\xff", row(b"a")]) == [b"\xff\xff", row(b"a")]  # only the last message can be the trailer


def bodies(messages: list[bytes]) -> list[bytes]:
    rows = rows_of(Received.of(messages))
    return [rows.body(number) for number in range(len(rows))]


def test_cells_are_found_column_by_column() -> None:
    first, second = cells_of(Received.of([row(b"ab", None), row(b"", b"xyz")]), [Shape()] * 2)
    assert [
        first.data[start : start + size].tobytes() for start, size in zip(first.start, first.length, strict=True)
    ] == [
        b"ab",
        b"",
    ]
    assert second.null.tolist() == [True, False]
    assert second.length.tolist() == [0, 3]


def test_rows_with_other_columns_are_errors() -> None:
    with pytest.raises(UnexpectedMessage, match="another number of columns"):
        list(cells_of(Received.of([row(b"a")]), [Shape()] * 2))
    with pytest.raises(UnexpectedMessage, match="longer than its last column"):
        list(cells_of(Received.of([row(b"a") + b"!"]), [Shape()]))
