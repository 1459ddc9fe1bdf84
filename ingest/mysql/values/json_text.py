"""Conversion of MySQL's binary JSON to the text that the server prints."""

from __future__ import annotations

import base64
import re
import struct
from typing import TYPE_CHECKING

from penstock.ingest.mysql.values.decimals import packed_size

if TYPE_CHECKING:
    from collections.abc import Callable


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPES |= {chr(code): f"\\u{code:04x}" for code in range(0x20) if chr(code) not in _ESCAPES}
_SPECIAL = re.compile(r'["\\\x00-\x1f]')
_DECIMAL, _DATE, _TIME, _DATETIME, _TIMESTAMP = 246, 10, 11, 12, 7


def quoted(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    if _SPECIAL.search(text):
        text = _SPECIAL.sub(lambda match: _ESCAPES[match[0]], text)
    return f'"{text}"'


def double_text(value: float) -> str:
    """Return the shortest digits that parse to the same double, in the server's format.

    Values are plain from 1e-15 to below 1e15 or with a fraction, all others have an exponent.
    """
    digits = repr(value)
    mantissa, _, exponent = digits.partition("e")
    if not exponent and "." not in digits:
        return digits  # inf and nan cannot be stored
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    whole, _, part = mantissa.partition(".")
    part = "" if part == "0" else part
    point = len(whole) + int(exponent or 0)
    figures = (whole + part).lstrip("0")
    point -= len(whole + part) - len(figures)
    figures = figures.rstrip("0")
    if not figures:
        return sign + "0.0"
    return sign + _placed(figures, point)


def _placed(figures: str, point: int) -> str:
    """Return the figures with the decimal point before figure number `point`."""
    if point > -15 and (point <= 15 or point < len(figures)):
        if point <= 0:
            return "0." + "0" * -point + figures
        if point >= len(figures):
            return figures + "0" * (point - len(figures)) + ".0"
        return figures[:point] + "." + figures[point:]
    rest = "." + figures[1:] if len(figures) > 1 else ""
    return f"{figures[0]}{rest}e{point - 1}"


def opaque_text(kind: int, content: bytes) -> str | None:
    """Return the text of a DECIMAL, date or time inside JSON; None for types that are printed as their bytes."""
    if kind == _DECIMAL:
        return _decimal(content)
    if kind not in {_DATE, _TIME, _DATETIME, _TIMESTAMP} or len(content) != 8:
        return None
    packed = int.from_bytes(content, "little", signed=True)
    return f'"{_clock(packed)}"' if kind == _TIME else f'"{_calendar(packed, clock=kind != _DATE)}"'


def _decimal(content: bytes) -> str:
    precision, scale = content[0], content[1]
    packed = bytearray(content[2 : 2 + packed_size(precision, scale)])
    negative = packed[0] < 0x80
    packed[0] ^= 0x80
    if negative:
        packed = bytearray(byte ^ 0xFF for byte in packed)
    whole, part = precision - scale, scale
    sizes = [whole % 9, *[9] * (whole // 9), *[9] * (part // 9), part % 9]
    digits, at = "", 0
    for size in sizes:
        width = packed_size(size, 0)
        if size:
            digits += f"{int.from_bytes(packed[at : at + width], 'big'):0{size}}"
        at += width
    text = (digits[:whole].lstrip("0") or "0") + ("." + digits[whole:] if scale else "")
    return "-" + text if negative else text


def _calendar(packed: int, *, clock: bool) -> str:
    date, micro = packed >> 24, packed & 0xFFFFFF
    year_month, day = date >> 22, date >> 17 & 0x1F
    text = f"{year_month // 13:04}-{year_month % 13:02}-{day:02}"
    if not clock:
        return text
    return f"{text} {date >> 12 & 0x1F:02}:{date >> 6 & 0x3F:02}:{date & 0x3F:02}.{micro:06}"


def _clock(packed: int) -> str:
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    time, micro = packed >> 24, packed & 0xFFFFFF
    return f"{sign}{time >> 12 & 0x3FF:02}:{time >> 6 & 0x3F:02}:{time & 0x3F:02}.{micro:06}"


_LITERALS = {0: "null", 1: "true", 2: "false"}
# Literals and integers of two bytes are in the entry itself; in the large form of a container, also integers of four
# bytes.
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
        # Kinds 0 and 1 are objects, 2 and 3 arrays; the odd ones have offsets of four bytes instead of two.
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
        # Keys in stored order and with the separators of the server's own text: a row read from the table and the
        # same row from the log must not differ.
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
