"""JSON scalars as the server prints them: strings, doubles, and the SQL values that JSON can contain."""

from __future__ import annotations

import re

from penstock.ingest.mysql.values.decimals import packed_size

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
    match kind:
        case 246:
            return _decimal(content)
        case 10 | 12 | 7 if len(content) == 8:
            return f'"{_calendar(int.from_bytes(content, "little", signed=True), clock=kind != _DATE)}"'
        case 11 if len(content) == 8:
            return f'"{_clock(int.from_bytes(content, "little", signed=True))}"'
    return None


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
