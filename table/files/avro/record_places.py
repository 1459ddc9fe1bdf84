"""The places where the records of a single Avro block begin, found without decoding their values.

A pass over the bytes jumps with regular expressions from one text value to the next, because the bytes alone say how
long a text is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from penstock.table.files.avro.block_bytes import Places
from penstock.table.files.avro.sizes import ENCODED_AS, NUMBER, RECORD, TEXT, WIDTHS, kind_of

Match = Callable[[bytes, int], re.Match[bytes] | None]


def can_match(node: Any, *, with_sized: bool = True) -> bool:
    """Return whether `record_places` supports a schema that can be walked: no text in records that may be null."""
    match node:
        case {"type": "record", "fields": fields}:
            return all(can_match(field["type"], with_sized=with_sized) for field in fields)
        case ["null", branch]:
            return can_match(branch, with_sized=with_sized and kind_of(branch) != RECORD)
    return with_sized or ENCODED_AS[kind_of(node)] != TEXT


def _stretches(members: Sequence[Mapping[str, Any]]) -> tuple[list[tuple[Match, bool]], Match]:
    """Return the matchers that skip the values before each text or bytes value, and the matcher for the rest.

    Each matcher of the first kind is paired with whether its text may be null. If it may, the last matched byte is the
    branch of the union.
    """
    found, pattern = [], b""
    for node in _leaves(members):
        nullable, kind = isinstance(node, list), kind_of(node[1] if isinstance(node, list) else node)
        if ENCODED_AS[kind] == TEXT:
            found.append((_compiled(pattern + (rb"[\x00\x02]" if nullable else b"")), nullable))
            pattern = b""
        else:
            pattern += _pattern(node)
    return found, _compiled(pattern)


def _leaves(members: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
    for member in members:
        node = member["type"]
        if kind_of(node) == RECORD and not isinstance(node, list):
            yield from _leaves(node["fields"])
        else:
            yield node


def _compiled(pattern: bytes) -> Match:
    # DOTALL, because a value may contain the byte of a line feed.
    return re.compile(pattern, re.DOTALL).match


def _pattern(node: Any) -> bytes:
    if isinstance(node, list):
        return rb"(?:\x00|\x02" + _pattern(node[1]) + b")"
    kind = kind_of(node)
    if kind == RECORD:
        return b"".join(_pattern(member["type"]) for member in node["fields"])
    # All bytes of a varint but the last have their highest bit set.
    return rb"[\x80-\xff]*[\x00-\x7f]" if ENCODED_AS[kind] == NUMBER else b".{%d}" % WIDTHS[kind]


def record_places(data: bytes, count: int, members: Sequence[Mapping[str, Any]]) -> Places:
    """Return where each of `count` records begins. Raise ValueError if they do not end with the bytes."""
    stretches, last = _stretches(members)
    place, places = 0, []
    for _ in range(count):
        places.append(place)
        for stretch, nullable in stretches:
            match = stretch(data, place)
            if match is None:
                raise ValueError("the bytes are not a valid record")
            place = match.end()
            # Null: no text follows the branch.
            if nullable and data[place - 1] == 0:
                continue
            size = data[place]
            if size < 0x80:
                place += 1 + (size >> 1)
            else:
                size, place = _long_size(data, place)
                place += size
        match = last(data, place)
        if match is None:
            raise ValueError("the bytes are not a valid record")
        place = match.end()
    if place != len(data):
        raise ValueError(f"{count} records end at byte {place} of {len(data)}")
    return np.array(places, np.int64)


def _long_size(data: bytes, place: int) -> tuple[int, int]:
    size, shift = data[place] & 0x7F, 7
    while data[place] >= 0x80:
        place += 1
        size |= (data[place] & 0x7F) << shift
        shift += 7
    return size >> 1, place + 1
