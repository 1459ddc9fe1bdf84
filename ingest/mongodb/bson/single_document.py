"""The values of one document by name, and the documents of an array: for the few documents around the data."""

from __future__ import annotations

import struct

import numpy as np

from penstock.byte_buffers import Int64s
from penstock.ingest.mongodb.bson.value_types import LEAST, PREFIXES, SHORTEST, WIDTHS, damaged, unknown_type

_number = struct.Struct("<i").unpack_from


def members(raw: bytes, at: int = 0) -> dict[str, tuple[int, int]]:
    """Return type and position of the values of one document, by name."""
    found: dict[str, tuple[int, int]] = {}
    position = at + 4
    try:
        while raw[position]:
            end = raw.index(b"\0", position + 1)
            kind, name = raw[position], raw[position + 1 : end].decode()
            found[name] = kind, end + 1
            position = end + 1 + _length(raw, kind, end + 1)
    except (IndexError, ValueError, struct.error) as reason:
        raise damaged(position) from reason
    return found


def _length(raw: bytes, kind: int, start: int) -> int:
    if kind in WIDTHS:
        return WIDTHS[kind]
    if kind in PREFIXES:
        length = int(_number(raw, start)[0]) + PREFIXES[kind]
        if length < LEAST[kind]:
            raise damaged(start)
        return length
    raise unknown_type(kind, start)


def text_at(raw: bytes, start: int) -> str:
    """Return the text whose length is at this position."""
    try:
        return raw[start + 4 : start + 3 + _number(raw, start)[0]].decode()
    except (ValueError, struct.error) as reason:
        raise damaged(start) from reason


def documents_at(raw: bytes, array: int) -> Int64s:
    """Return where the documents of an array begin."""
    begins: list[int] = []
    try:
        _find_documents(raw, array, begins)
    except struct.error as reason:
        raise damaged(array) from reason
    return np.array(begins, np.int64)


def _find_documents(raw: bytes, array: int, begins: list[int]) -> None:
    position, end, width, number = array + 4, array + _number(raw, array)[0] - 1, 3, 0
    # The names of elements are the numbers from 0 on. They are skipped by their number of digits.
    following = 10
    while position < end:
        start = position + width
        begins.append(start)
        size = _number(raw, start)[0]
        if size < SHORTEST:
            raise damaged(start)
        position = start + size
        number += 1
        if number == following:
            width += 1
            following *= 10
