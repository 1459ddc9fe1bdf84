"""Conversion of canal texts that are not simply text: numbers for ENUM, SET and BIT, characters for bytes, WKB.

Each function converts the text column of one declared type to a column that can be cast further: ENUM to text, SET to a
list of texts, BIT(n) to big-endian bytes, binary types to bytes, geometries to GeoJSON text. All other types stay text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.faults import Faults, map_distinct
from penstock.formats.geometry import GEOMETRY_TYPES, geojson
from penstock.formats.mysql_type import MysqlType, parse_mysql_type

Convert = Callable[[pa.Array, Faults], pa.Array]

BINARY_TYPES = frozenset({"BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"})
# The lead bytes of U+0080 to U+00FF, which have two bytes in UTF-8.
_LATIN_LEADS = (0xC2, 0xC3)
_SRID_BYTES = 4
_MOST_BITS = 64
_MOST_DIGITS = 40  # leading zeros included


def converter(column: str, declared: str) -> Convert | None:
    """Return the conversion of a declared type, None if the text already is the value."""
    kind = parse_mysql_type(declared)
    # Canal sends the number of a label of an ENUM, a bit mask for a SET, a decimal number for a BIT, and for bytes
    # one character each. Other producers send labels.
    if kind.name == "ENUM":
        return partial(enum_labels, options=kind.options, problem=_problem(column, "ENUM"))
    if kind.name == "SET":
        return partial(set_members, options=kind.options, problem=_problem(column, "SET"))
    if kind.name == "BIT" and (kind.length or 1) > 1:
        return partial(bit_bytes, kind=kind, problem=_problem(column, declared))
    if kind.name in BINARY_TYPES:
        return lambda texts, _faults: latin1_bytes(texts)
    if kind.name in GEOMETRY_TYPES:
        return partial(geometry_texts, problem=_problem(column, declared))
    return None


def _problem(column: str, declared: str) -> str:
    return f"the value of column {column} does not fit {declared}"


def enum_labels(texts: pa.Array, faults: Faults, options: tuple[str, ...], problem: str) -> pa.Array:
    """Replace ENUM numbers by labels; a text that is not a number already is the label."""

    def label(text: str) -> str:
        if not text.isdecimal():
            return text
        number = int(text)
        if number > len(options):
            # A label may consist of digits, and canal may have sent the label itself.
            if text in options:
                return text
            raise ValueError(f"option {text}, but the type has only {len(options)} options")
        # 0 is MySQL's value for an invalid label, which it shows as an empty text.
        return options[number - 1] if number else ""

    return map_distinct(texts, label, pa.string(), problem, faults)


def set_members(texts: pa.Array, faults: Faults, options: tuple[str, ...], problem: str) -> pa.Array:
    """Return SET values as lists of labels, from bit masks or from labels separated by commas."""

    def members(text: str) -> list[str]:
        if not text.isdecimal():
            return text.split(",") if text else []
        mask = int(text)
        if mask >> len(options):
            raise ValueError(f"bit mask {text}, but the type has only {len(options)} options")
        return [option for bit, option in enumerate(options) if mask >> bit & 1]

    return map_distinct(texts, members, pa.list_(pa.string()), problem, faults)


def bit_bytes(texts: pa.Array, faults: Faults, kind: MysqlType, problem: str) -> pa.Array:
    """Return BIT values, sent as decimal numbers, as big-endian bytes."""
    bits = kind.length or 1
    width = (bits + 7) // 8

    def big_endian(text: str) -> bytes:
        if not text.isdecimal() or len(text) > _MOST_DIGITS or bits > _MOST_BITS or int(text) >> bits:
            raise ValueError(f"{text[:40]!r} is not a {bits}-bit number")
        return int(text).to_bytes(width, "big")

    # No server has such a column, and the type mapping rejects the type later.
    if bits > _MOST_BITS:
        return map_distinct(texts, big_endian, pa.binary(), problem, faults)
    try:
        numbers = texts.cast(pa.uint64())
    except pa.ArrowInvalid:
        return map_distinct(texts, big_endian, pa.binary(), problem, faults)
    if bits < 64 and pc.any(pc.greater(numbers, pa.scalar((1 << bits) - 1, pa.uint64()))).as_py():
        return map_distinct(texts, big_endian, pa.binary(), problem, faults)
    filled = numbers.fill_null(0).to_numpy().astype(">u8").view(np.uint8).reshape(-1, 8)[:, 8 - width :]
    offsets = np.arange(len(texts) + 1, dtype=np.int32) * width
    whole = pa.Array.from_buffers(
        pa.binary(), len(texts), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(filled))]
    )
    return pc.if_else(numbers.is_valid(), whole, pa.scalar(None, pa.binary()))


def latin1_bytes(texts: pa.Array) -> pa.Array:
    """Convert characters to bytes one to one. A text with a character above U+00FF is real text and keeps its UTF-8."""
    if pc.all(pc.string_is_ascii(texts)).as_py() is not False:
        return texts.cast(pa.binary())
    valid = texts.is_valid()
    # Nulls must have no bytes, since all bytes of the column are converted at once.
    full = pc.fill_null(texts, "")
    offsets = np.frombuffer(full.buffers()[1], np.int32)[full.offset : full.offset + len(full) + 1].astype(np.int64)
    data = np.frombuffer(full.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    offsets -= offsets[0]
    row_of_byte = np.repeat(np.arange(len(full)), np.diff(offsets))
    is_text = np.zeros(len(full), bool)
    # A greater lead byte begins a character above U+00FF.
    is_text[row_of_byte[data > _LATIN_LEADS[1]]] = True
    lead = ((data == _LATIN_LEADS[0]) | (data == _LATIN_LEADS[1])) & ~is_text[row_of_byte]
    follows = np.flatnonzero(lead) + 1
    out = data.copy()
    # U+0080 to U+00FF have two bytes in UTF-8: the second one and the last two bits of the first are the byte
    # meant.
    out[follows] = (data[follows] & 0x3F) | ((data[follows - 1] & 0x03) << 6)
    dropped = np.concatenate(([0], np.cumsum(lead)))[offsets]
    shrunk = (offsets - dropped).astype(np.int32)
    whole = pa.Array.from_buffers(pa.binary(), len(full), [None, pa.py_buffer(shrunk), pa.py_buffer(out[~lead])])
    return pc.if_else(valid, whole, pa.scalar(None, pa.binary()))


def geometry_texts(texts: pa.Array, faults: Faults, problem: str) -> pa.Array:
    """Return geometries, sent as SRID and WKB in ISO-8859-1 characters, as GeoJSON text."""

    def text(value: str) -> str:
        data = value.encode("latin-1", "strict")
        return geojson(data[_SRID_BYTES:], int.from_bytes(data[:_SRID_BYTES], "little"))

    return map_distinct(texts, text, pa.string(), problem, faults)
