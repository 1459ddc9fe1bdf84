"""Bounds of the values of a column that stay correct when they are shortened, or written by another engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.files.columns import has_nanoseconds
from penstock.table.files.relayout import UNIT_NANOS
from penstock.table.values.internal import scaled
from penstock.table.values.types import AtomicType, DataType

_UNORDERED = ("BINARY", "VARBINARY", "VARIANT")  # Java records no bounds for these
FLOATS = ("FLOAT", "DOUBLE")
_GREGORIAN = -12_219_292_800 * 10**9  # 1582-10-15


def is_timestamp(type_: DataType) -> bool:
    return isinstance(type_, AtomicType) and type_.root.startswith("TIMESTAMP")


def has_bounds(type_: DataType, file_format: str) -> bool:
    """Return whether manifests have bounds of a column of this type in files of this format."""
    if not isinstance(type_, AtomicType) or type_.root in _UNORDERED:
        return False
    return file_format != "parquet" or not has_nanoseconds(type_)


def safe_bounds(low: Any, high: Any, type_: DataType, file_format: str) -> tuple[Any, Any]:
    """Return a manifest's bounds if they enclose the values that a reader returns, otherwise None for both.

    Java's bounds of ORC files need corrections: they are NaN when the first value is NaN, CHARs are padded with blanks
    that no reader returns, and timestamps before 1582 use another calendar than the values.
    """
    # Bounds of the other formats need no correction.
    if file_format != "orc" or low is None or not isinstance(type_, AtomicType):
        return low, high
    if type_.root == "CHAR":
        # The padded maximum is not below the value without blanks, so it is still a bound.
        return low.rstrip(" "), high
    unsound = low != low if type_.root in FLOATS else is_timestamp(type_) and low < _GREGORIAN  # noqa: PLR0124
    return (None, None) if unsound else (low, high)


def greatest_prefix(text: str, length: int) -> str | None:
    """Return a text of at most `length` characters that is not less than `text`, or None if there is no such text."""
    if len(text) <= length:
        return text
    for last in range(length - 1, -1, -1):
        # If the last character is the greatest one, the character before it is raised instead.
        point = ord(text[last]) + 1
        if point == 0xD800:
            point = 0xE000  # surrogates are not characters
        if point <= 0x10FFFF:
            return text[:last] + chr(point)
    return None


def bounds_of_rows(column: pa.ChunkedArray, type_: DataType) -> tuple[object, object]:
    """Return the minimum and maximum of a column as internal values, None for both if all values are null."""
    ends = pc.min_max(column)
    return _widened_zeros(*(_internal(ends[end], type_) for end in ("min", "max")))


def _internal(scalar: pa.Scalar, type_: DataType) -> object:
    if not scalar.is_valid:
        return None
    match type_:
        case AtomicType("TIMESTAMP" | "TIMESTAMP_LTZ"):
            return scalar.value * UNIT_NANOS[scalar.type.unit]
        case AtomicType("DATE" | "TIME"):
            return scalar.value
    return scalar.as_py()


def _widened_zeros(low: object, high: object) -> tuple[object, object]:
    return (
        # -0.0 and 0.0 are equal for Arrow's min_max, but not for readers that order them: the bounds enclose both.
        -0.0 if low == 0.0 and isinstance(low, float) else low,
        0.0 if isinstance(high, float) and not high else high,
    )


def converter(type_: AtomicType) -> Callable[[Any], Any]:
    """Return the conversion from a footer's physical value to an internal value."""
    match type_.root:
        case "CHAR" | "VARCHAR":
            return bytes.decode
        case "DECIMAL":
            return lambda raw: scaled(_integer(raw), type_.scale)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return lambda raw: raw * UNIT_NANOS["ms" if type_.precision <= 3 else "us"]
    return lambda raw: raw


def _integer(raw: int | bytes) -> int:
    return raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)
