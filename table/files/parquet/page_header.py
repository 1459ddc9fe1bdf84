"""The header of a page: where it ends, and the few numbers that say which rows the page has.

A query for one row walks the headers of all pages before it, so everything else in a header, such as the least and the
greatest value, is passed over without making values of it.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from penstock.table.files.parquet.thrift import (
    BINARY,
    BYTE,
    DOUBLE,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    SET,
    STRUCT,
    TRUE,
    ThriftReader,
)

_Data: TypeAlias = bytes | memoryview
# Numbers of the Parquet specification: the fields of a header, and the number of values in the details of a data page.
_KIND, _COMPRESSED_SIZE, _DETAILS, _DETAILS_V2 = 1, 3, 5, 8
_VALUES = 1
_INTEGERS = frozenset({I16, I32, I64})


class PageHeader(NamedTuple):
    """A header: its end in the bytes, the kind and the compressed size of its page, and the values of a data page."""

    end: int
    kind: int
    size: int
    values: int


def page_header(data: _Data, place: int) -> PageHeader:
    """Return the header that begins at `place`. ValueError or IndexError when the bytes are not a header."""
    number = kind_of_page = size = values = 0
    while head := data[place]:
        place += 1
        number, kind, place = _field(data, place, head, number)
        if kind in _INTEGERS:
            value, place = _varint(data, place)
            if number == _KIND:
                kind_of_page = value >> 1 ^ -(value & 1)
            elif number == _COMPRESSED_SIZE:
                size = value >> 1 ^ -(value & 1)
        elif kind == STRUCT and number in (_DETAILS, _DETAILS_V2):
            values, place = _first_integer(data, place)
        else:
            place = _passed(data, place, kind)
    return PageHeader(place + 1, kind_of_page, size, values)


def _field(data: _Data, place: int, head: int, number: int) -> tuple[int, int, int]:
    """Return the number and the kind of a field, and where its value begins."""
    step = head >> 4
    if step:
        return number + step, head & 15, place
    # The number does not fit four bits: it follows in full.
    value, place = _varint(data, place)
    return value >> 1 ^ -(value & 1), head & 15, place


def _first_integer(data: _Data, place: int) -> tuple[int, int]:
    """Return field 1 of a structure, 0 without it, and where the structure ends."""
    found = number = 0
    while head := data[place]:
        number, kind, place = _field(data, place + 1, head, number)
        if number == _VALUES and kind in _INTEGERS:
            value, place = _varint(data, place)
            found = value >> 1 ^ -(value & 1)
        else:
            place = _passed(data, place, kind)
    return found, place + 1


def _passed(data: _Data, place: int, kind: int) -> int:
    """Return where the value of a field ends."""
    if kind in _INTEGERS:
        while data[place] & 0x80:
            place += 1
        return place + 1
    if kind in (TRUE, FALSE):
        return place  # the kind is the value
    if kind == BINARY:
        length, place = _varint(data, place)
        return place + length
    if kind == STRUCT:
        while head := data[place]:
            # A number that does not fit four bits follows in full.
            place = place + 1 if head >> 4 else _varint(data, place + 1)[1]
            place = _passed(data, place, head & 15)
        return place + 1
    if kind in (DOUBLE, BYTE):
        return place + (8 if kind == DOUBLE else 1)
    if kind not in (LIST, SET):
        raise ValueError(f"type {kind} in the header of a page")
    reader = ThriftReader(data, place)
    reader.items()
    return reader.place


def _varint(data: _Data, place: int) -> tuple[int, int]:
    byte = data[place]
    if byte < 0x80:
        return byte, place + 1
    value, shift = 0, 0
    while byte & 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        place += 1
        byte = data[place]
    return value | byte << shift, place + 1
