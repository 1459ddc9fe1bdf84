"""Conversion of JSON texts to VARIANT: the open binary encoding of Parquet and Spark, as Paimon's parse_json writes it.

Texts are converted one after the other in Python. Parsing dominates the time, and no available library produces this
encoding column by column.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa

from penstock.table.values.arrow_types import VARIANT_STRUCT

# The numbers of the specification: basic types, primitive types, and primitive types by the width of the number.
_PRIMITIVE, _SHORT_TEXT, _OBJECT, _ARRAY = range(4)
_NULL, _TRUE, _FALSE, _DOUBLE, _TEXT = 0, 1, 2, 7, 16
_INTEGERS = ((3, "<b"), (4, "<h"), (5, "<i"), (6, "<q"))
_DECIMALS = ((8, 9, 4), (9, 18, 8), (10, 38, 16))  # type, digits, bytes
_LONGEST_SHORT_TEXT = 63


class NoVariant(ValueError):
    """A text that is not JSON, or an object that contains a key twice."""


def variants_of_json(texts: pa.Array) -> pa.Array:
    """Return a VARIANT column. A null text becomes null; a JSON null becomes a VARIANT that contains null."""
    values = [
        None if text is None else dict(zip(("value", "metadata"), encoded(text), strict=True))
        for text in texts.to_pylist()
    ]
    return pa.array(values, VARIANT_STRUCT)


def encoded(text: str) -> tuple[bytes, bytes]:
    """Return the value and the metadata of one JSON text."""
    names: dict[str, int] = {}
    try:
        value = _value(json.loads(text, parse_float=_number, parse_constant=_refuse, object_pairs_hook=_members), names)
        return value, _metadata(list(names))
    except NoVariant:
        raise
    except RecursionError as reason:
        raise NoVariant(f"{text[:80]!r} is too deep") from reason
    except (ValueError, OverflowError) as reason:
        raise NoVariant(f"{text[:80]!r} is not JSON: {reason}") from reason


def _refuse(constant: str) -> NoReturn:
    """Refuse NaN and the infinities, which Python reads and JSON does not have."""
    raise NoVariant(f"{constant} is not JSON")


def _members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise NoVariant("an object contains a key twice")
    return found


def _number(text: str) -> Decimal | float:
    """Return a number as a Decimal, or as a float if it has an exponent or more than 38 digits."""
    # A decimal of the encoding has at most 38 digits and no exponent.
    if "e" in text or "E" in text or sum(map(str.isdigit, text)) > 38:
        return float(text)
    return Decimal(text)


def _value(value: Any, names: dict[str, int]) -> bytes:
    match value:
        case None:
            return _head(_PRIMITIVE, _NULL)
        case bool():
            return _head(_PRIMITIVE, _TRUE if value else _FALSE)
        case int():
            return _integer(value)
        case float():
            return _head(_PRIMITIVE, _DOUBLE) + struct.pack("<d", value)
        case Decimal():
            return _decimal(value)
        case str():
            return _text(value.encode())
        case Mapping():
            return _object(value, names)
    return _array([_value(item, names) for item in value])


def _head(basic: int, header: int) -> bytes:
    # The two low bits of the first byte are the basic type, the others depend on it.
    return bytes([basic | header << 2])


def _integer(value: int) -> bytes:
    for type_, form in _INTEGERS:
        bound = 1 << (8 * struct.calcsize(form) - 1)
        if -bound <= value < bound:
            return _head(_PRIMITIVE, type_) + struct.pack(form, value)
    return _decimal(Decimal(value))


def _decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    scale = -int(exponent)
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    for type_, most, width in _DECIMALS:
        if max(len(str(abs(unscaled))), scale) <= most:
            return _head(_PRIMITIVE, type_) + bytes([scale]) + unscaled.to_bytes(width, "little", signed=True)
    return _head(_PRIMITIVE, _DOUBLE) + struct.pack("<d", float(value))


def _text(value: bytes) -> bytes:
    if len(value) <= _LONGEST_SHORT_TEXT:
        return _head(_SHORT_TEXT, len(value)) + value
    return _head(_PRIMITIVE, _TEXT) + struct.pack("<I", len(value)) + value


def _object(members: Mapping[str, Any], names: dict[str, int]) -> bytes:
    """Return an object with its members sorted by name. Names are numbered in the order of their first occurrence."""
    encoded_members = {
        name: (names.setdefault(name, len(names)), _value(value, names)) for name, value in members.items()
    }
    # The members are sorted by the bytes of their names, so that readers can search them by bisection.
    ordered = [encoded_members[name] for name in sorted(members, key=str.encode)]
    ids, values = [number for number, _ in ordered], [value for _, value in ordered]
    id_width, width = _width(max(ids, default=0)), _width(sum(map(len, values)))
    large = len(ids) > 255
    # The widths of offsets and of name numbers are chosen per object. `large` means that the count has four bytes.
    head = _head(_OBJECT, (width - 1) | (id_width - 1) << 2 | large << 4)
    count = len(ids).to_bytes(4 if large else 1, "little")
    return head + count + b"".join(number.to_bytes(id_width, "little") for number in ids) + _offsets(values, width)


def _array(values: Sequence[bytes]) -> bytes:
    width, large = _width(sum(map(len, values))), len(values) > 255
    head = _head(_ARRAY, (width - 1) | large << 2)
    return head + len(values).to_bytes(4 if large else 1, "little") + _offsets(values, width)


def _offsets(values: Sequence[bytes], width: int) -> bytes:
    """Return the start of each value and the end of the last one, followed by the values."""
    ends = [0]
    for value in values:
        ends.append(ends[-1] + len(value))
    return b"".join(end.to_bytes(width, "little") for end in ends) + b"".join(values)


def _width(most: int) -> int:
    return max(1, (most.bit_length() + 7) // 8)


def _metadata(names: Sequence[str]) -> bytes:
    texts = [name.encode() for name in names]
    width = _width(max(len(texts), sum(map(len, texts))))
    # The first byte has the version, 1, and the width of the offsets.
    return bytes([1 | (width - 1) << 6]) + len(texts).to_bytes(width, "little") + _offsets(texts, width)
