"""Conversion of MySQL's binary JSON to the text that the server prints."""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING

from penstock.ingest.mysql.values.json_scalars import double_text, opaque_text, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

_LITERALS = {0: "null", 1: "true", 2: "false"}
_INLINE_IN_ALL = frozenset({4, 5, 6})
_INLINE_IN_LARGE = frozenset({7, 8})
_MAX_DEPTH = 110  # the server allows 100


def json_text(raw: bytes) -> str | None:
    """Return the text; None for an empty value, which old rows have in an added column; ValueError for a broken one."""
    if not raw:
        return None
    try:
        return _BinaryDocument(raw).value(raw[0], 1, 0)
    except (struct.error, IndexError, KeyError) as error:
        raise ValueError("the JSON value is truncated") from error


class _BinaryDocument:
    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        # In a valid document every value has separate bytes; a forged one may refer to the same bytes again and again.
        self.values_left = len(raw)

    def value(self, kind: int, at: int, depth: int) -> str:
        return self.container(kind, at, depth + 1) if kind <= 3 else _SCALARS[kind](self.raw, at)

    def container(self, kind: int, at: int, depth: int) -> str:
        raw, is_object, large = self.raw, kind <= 1, kind in {1, 3}
        width = 4 if large else 2
        count = int.from_bytes(raw[at : at + width], "little")
        entries = at + 2 * width + (count * (width + 2) if is_object else 0)
        self.values_left -= count + 1
        if depth > _MAX_DEPTH or self.values_left < 0 or entries + count * (1 + width) > len(raw):
            raise ValueError("the JSON value is malformed")
        values = [self.entry(at, entries + place * (1 + width), depth, large=large) for place in range(count)]
        if not is_object:
            return "[" + ", ".join(values) + "]"
        keys = [self.key(at, at + 2 * width + place * (width + 2), width) for place in range(count)]
        return "{" + ", ".join(f"{key}: {value}" for key, value in zip(keys, values, strict=True)) + "}"

    def key(self, container: int, entry: int, width: int) -> str:
        start = container + int.from_bytes(self.raw[entry : entry + width], "little")
        length = int.from_bytes(self.raw[entry + width : entry + width + 2], "little")
        return quoted(self.raw[start : start + length])

    def entry(self, container: int, entry: int, depth: int, *, large: bool) -> str:
        kind = self.raw[entry]
        if kind in _INLINE_IN_ALL or (large and kind in _INLINE_IN_LARGE):
            return _SCALARS[kind](self.raw, entry + 1)
        width = 4 if large else 2
        return self.value(kind, container + int.from_bytes(self.raw[entry + 1 : entry + 1 + width], "little"), depth)


def _number(form: str) -> Callable[[bytes, int], str]:
    return lambda raw, at: str(struct.unpack_from(form, raw, at)[0])


def _length(raw: bytes, at: int) -> tuple[int, int]:
    """Return a length in groups of seven bits, and the position after it."""
    length = shift = 0
    while True:
        byte = raw[at]
        length |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return length, at
        if shift > 28:
            raise ValueError("a length in the JSON value is too large")


def _string(raw: bytes, at: int) -> str:
    length, start = _length(raw, at)
    return quoted(raw[start : start + length])


def _opaque(raw: bytes, at: int) -> str:
    length, start = _length(raw, at + 1)
    content = raw[start : start + length]
    text = opaque_text(raw[at], content)
    return text if text is not None else f'"base64:type{raw[at]}:{base64.b64encode(content).decode()}"'


_SCALARS: dict[int, Callable[[bytes, int], str]] = {
    4: lambda raw, at: _LITERALS[raw[at]],
    5: _number("<h"),
    6: _number("<H"),
    7: _number("<i"),
    8: _number("<I"),
    9: _number("<q"),
    10: _number("<Q"),
    11: lambda raw, at: double_text(struct.unpack_from("<d", raw, at)[0]),
    12: _string,
    15: _opaque,
}
