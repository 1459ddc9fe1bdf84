"""Formatting of values as text, as Java's casts to STRING do."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.local_times import wall_clock
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.buffers import one_array
from penstock.table.values.internal import entry_types
from penstock.table.values.types import ArrayType, AtomicType, DataType, MapType, MultisetType, RowType, type_json

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def to_text(array: pa.Array, type_: DataType, zone: str = "UTC") -> pa.Array:
    """Return a string column. Nulls stay null, but inside a constructed value they are written as `null`."""
    array = one_array(array, to_arrow(type_))
    match type_:
        case ArrayType(element):
            return _joined(array, _plain(array.values, element, zone), "[{}]")
        case MapType() | MultisetType():
            key, value = entry_types(type_)
            keys, values = _plain(array.keys, key, zone), _plain(array.items, value, zone)
            return _joined(array, [f"{k} -> {v}" for k, v in zip(keys, values, strict=True)], "{{{}}}")
        case RowType(fields):
            members = [_plain(array.field(i), field.type, zone) for i, field in enumerate(fields)]
            rows = [f"{{{', '.join(row)}}}" for row in zip(*members, strict=True)]
            return pc.if_else(pc.is_valid(array), pa.array(rows, pa.string()), pa.scalar(None, pa.string()))
        case AtomicType():
            return _atomic_text(array, type_, zone)


def _plain(array: pa.Array, type_: DataType, zone: str) -> list[str]:
    return ["null" if text is None else text for text in to_text(array, type_, zone).to_pylist()]


def _joined(array: pa.Array, parts: list[str], frame: str) -> pa.Array:
    # The offsets of a slice are positions in the whole child, whose texts `parts` contains.
    ends = array.offsets.to_pylist()
    spans = zip(ends, ends[1:], array.is_valid().to_pylist(), strict=False)
    texts = [frame.format(", ".join(parts[begin:end])) if valid else None for begin, end, valid in spans]
    return pa.array(texts, pa.string())


def _atomic_text(array: pa.Array, type_: AtomicType, zone: str) -> pa.Array:
    match type_.root:
        case "CHAR" | "VARCHAR":
            return array
        case "BINARY" | "VARBINARY":
            return _utf8(array)
        case "FLOAT":
            # to_pylist returns a double. Its shortest text has more digits than that of the float.
            return _by_distinct(array, lambda value: float_text(_java_digits(value, str(np.float32(value)))))
        case "DOUBLE":
            return _by_distinct(array, lambda value: float_text(_java_digits(value, repr(value))))
        case "DECIMAL" if type_.scale > 6:
            # Arrow formats 0.0000001 as 1E-7.
            return _by_distinct(array, lambda value: format(value, "f"))
        case "DATE":
            return pc.strftime(array, "%Y-%m-%d")
        case "TIME":
            return _by_distinct(array.view(pa.int32()), lambda millis: time_text(millis, type_.precision))
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _timestamp_text(array, type_, zone)
        case "VARIANT":
            raise ConfigError(f"{type_json(type_)} has no text form")
    return array.cast(pa.string())


def _by_distinct(array: pa.Array, text: Callable[[Any], str]) -> pa.Array:
    encoded = array.dictionary_encode()
    return pa.array([text(value) for value in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


def _utf8(array: pa.Array) -> pa.Array:
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else _replaced(value) for value in array.to_pylist()]
        return pa.array(texts, pa.string())


def _replaced(value: bytes) -> str:
    # Java replaces the bytes of a half of a surrogate pair by one character, Python each of them by one.
    return _SURROGATE.sub(b"\xff", value).decode(errors="replace")


def _java_digits(value: float, shortest: str) -> Decimal:
    """Return the digits of Double.toString: the shortest that identify the value, but at least two."""
    digits = Decimal(shortest)
    # The closest text of two digits differs from the shortest for the smallest values only: 4.9E-324, not 5.0E-324.
    return Decimal(f"{value:.1e}") if digits.is_finite() and len(digits.normalize().as_tuple().digits) == 1 else digits


def float_text(shortest: Decimal) -> str:
    """Return the text of Double.toString: plain from 0.001 to below 10 million, otherwise with an exponent."""
    if not shortest.is_finite():
        return "NaN" if shortest.is_nan() else "-Infinity" if shortest < 0 else "Infinity"
    sign, figures, _ = shortest.as_tuple()
    digits = "".join(map(str, figures)).rstrip("0") or "0"
    exponent = shortest.adjusted() if shortest else 0
    mark = "-" if sign else ""
    if not -3 <= exponent < 7:
        return f"{mark}{digits[0]}.{digits[1:] or '0'}E{exponent}"
    if exponent < 0:
        return f"{mark}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    return f"{mark}{whole}.{digits[exponent + 1 :] or '0'}"


def time_text(millis: int, precision: int) -> str:
    seconds, rest = divmod(millis, 1000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    # The fraction has as many digits as the precision allows, without trailing zeros, but at least one.
    return f"{text}.{f'{rest:03d}'[:precision].rstrip('0') or '0'}" if precision else text


def _timestamp_text(array: pa.Array, type_: AtomicType, zone: str) -> pa.Array:
    wall = wall_clock(array, zone) if type_.root == "TIMESTAMP_LTZ" else array
    # strftime writes as many digits as the unit has.
    text = pc.strftime(wall, "%Y-%m-%d %H:%M:%S")
    return text if _UNIT_DIGITS[array.type.unit] == type_.precision else _with_digits(text, type_.precision)


def _with_digits(texts: pa.Array, digits: int) -> pa.Array:
    """Return texts of timestamps without zeros beyond this number of digits. Java shows other digits there."""
    return pc.replace_substring_regex(texts, rf"(\.\d{{{digits}}}\d*?)0+$", r"\1")


def split_timestamp_text(array: pa.Array, digits: int) -> pa.Array:
    """Return the texts of timestamps in UTC that consist of seconds and nanoseconds (`files.relayout.split_type`)."""
    seconds, nanos = array.flatten()
    fraction = pc.utf8_lpad(nanos.cast(pa.string()), 9, "0")
    whole = pc.strftime(seconds.view(pa.timestamp("s")), "%Y-%m-%d %H:%M:%S")
    return _with_digits(pc.binary_join_element_wise(whole, fraction, "."), digits)


def fit_text(array: pa.Array, target: AtomicType) -> pa.Array:
    """Truncate texts to the length of the type, counted in code points. CHAR is padded with blanks."""
    # Texts are rarely too long, and the check is cheaper than a copy of the column.
    if pc.any(pc.greater(pc.utf8_length(array), target.length)).as_py():
        array = pc.utf8_slice_codeunits(array, 0, target.length)
    return pc.utf8_rpad(array, target.length, " ") if target.root == "CHAR" else array


def fit_bytes(array: pa.Array, target: AtomicType) -> pa.Array:
    """Truncate bytes to the length of the type. BINARY is padded with zeros."""
    lengths = pc.min_max(pc.binary_length(array))
    longest, shortest = lengths["max"].as_py() or 0, lengths["min"].as_py()
    if longest > target.length:
        array = pc.binary_slice(array, 0, target.length)
    if target.root == "BINARY" and shortest is not None and shortest < target.length:
        # Arrow cannot pad bytes: zeros are appended to all values, and what exceeds the length is cut off.
        padding = pa.scalar(bytes(target.length), pa.binary())
        array = pc.binary_slice(pc.binary_join_element_wise(array, padding, b""), 0, target.length)
    return array
