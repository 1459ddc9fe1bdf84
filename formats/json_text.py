"""JSON values as text for a STRING column: digits as sent, exponents expanded, nested values as compact JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

import msgspec
import pyarrow as pa

# Beyond this exponent the plain form of a number would be unreasonably long; such a number stays as it was sent.
MAX_EXPONENT = 1000

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)", re.DOTALL
)
# Length of one \uXXXX escape; a pair is twice as long, any other escape has two bytes.
_LONE = 6


class Number(str):
    """The digits of a JSON number that is not an integer."""

    __slots__ = ()


def exact(text: str) -> Number:
    """Return a JSON number with its exact digits, without a detour through binary floats (msgspec's float_hook)."""
    return Number(plain_digits(text) if "e" in text or "E" in text else text)


def plain_digits(text: str) -> str:
    """Return a number with an exponent as plain digits, `1500` for `1.5E3`."""
    exponent = re.split("[eE]", text)[1]
    if len(exponent) > 5 or abs(int(exponent)) > MAX_EXPONENT:
        return text
    return format(Decimal(text), "f")


def java_double(number: float) -> str:
    """Return a finite number as Java prints it: 3.14, 0.0, 1.0E10."""
    # The range in which Java prints no exponent.
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    mantissa, _, exponent = f"{Decimal(repr(number)).normalize():E}".partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def text_of(value: object) -> str | None:
    """Return the text of a JSON value in a STRING column; None for null."""
    if value is None or isinstance(value, str):
        return value
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value) if isinstance(value, int) else compact_json(value)


def compact_json(value: object) -> str:
    """Return JSON text without blanks, members in the order and numbers with the digits of the message."""
    parts: list[str] = []
    _write(value, parts)
    return "".join(parts)


def _write(value: object, parts: list[str]) -> None:
    if isinstance(value, dict):
        separator = "{"
        for name, member in value.items():
            parts += (separator, _quoted(name), ":")
            _write(member, parts)
            separator = ","
        parts.append("}" if value else "{}")
    elif isinstance(value, list):
        separator = "["
        for member in value:
            parts.append(separator)
            _write(member, parts)
            separator = ","
        parts.append("]" if value else "[]")
    elif isinstance(value, str) and not isinstance(value, Number):
        parts.append(_quoted(value))
    else:
        parts.append("null" if value is None else text_of(value) or "")


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def text_column(values: Sequence[object]) -> pa.Array:
    """Return JSON values as a STRING column. Columns of a single kind are converted as a whole, mixed ones by value."""
    try:
        return pa.array(values, pa.string())
    except pa.ArrowTypeError:
        pass
    try:
        return pa.array(values, pa.int64()).cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([text_of(value) for value in values], pa.string())


def repair_surrogates(value: bytes) -> tuple[bytes, int]:
    """Return `value` with every unpaired surrogate escape replaced by U+FFFD, and the number of replacements."""
    count = 0

    def repaired(match: re.Match[bytes]) -> bytes:
        nonlocal count
        escape = match.group()
        if len(escape) != _LONE:
            return escape
        count += 1
        return b"\\ufffd"

    return _ESCAPE.sub(repaired, value), count
