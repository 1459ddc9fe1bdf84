"""Casts of text to column types, by the rules for change messages, which differ from Paimon's casts.

Arrow casts whole columns; only where that fails is each distinct text parsed. A text that does not fit becomes null
with a reason: a bad value is never a schema change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import InvalidOperation

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.exact_decimals import decimals_of_texts
from penstock.local_times import instants
from penstock.schema_evolution.exact_texts import is_exact, not_exact
from penstock.schema_evolution.text_values import (
    DAY_NANOS,
    FALSE,
    FIRST_DAY,
    KEEPS_DATES,
    KEEPS_OFFSETS,
    KEEPS_TIMES,
    MOST_DIGITS,
    TRUE,
    ZERO_DATE,
    HasOffset,
    OutsideOfDay,
    Zero,
    clock_of_micros,
    parser_of,
)
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.types import STRING_LENGTH, AtomicType, type_text

_UNIT_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}


@dataclass(slots=True)
class Misfits:
    """Rows with a value that does not fit, each with its first reason.

    `nulled` counts the values that a rule replaced by null, or by zero in NOT NULL columns. `inexact` counts the values
    that the type stores only in part, such as with fewer digits.
    """

    reasons: dict[int, str] = field(default_factory=dict)
    nulled: int = 0
    inexact: int = 0

    def add(self, rows: npt.NDArray[np.int64], reason: str) -> None:
        """Record the rows with the reason; a row keeps its first reason."""
        for row in rows.tolist():
            self.reasons.setdefault(row, reason)


def cast_texts(
    column: pa.Array, target: AtomicType, name: str, mapping: TypeMapping, misfits: Misfits, *, in_key: bool = False
) -> pa.Array:
    """Return a string column as `target`; values that do not fit are null in the result and recorded in `misfits`.

    With `in_key` values that the type cannot hold exactly do not fit: different keys would become equal.
    """
    fast = _cast_whole(column, target, misfits, in_key=in_key)
    if fast is not None:
        return fast
    parse, approximate = parser_of(target), target.root in {"FLOAT", "DOUBLE"} and not in_key
    encoded = column.dictionary_encode()
    values: list[object] = []
    inexact: list[int] = []
    texts: list[str] = encoded.dictionary.to_pylist()
    if mapping.time_micros and target.root == "TIME":
        texts = list(map(clock_of_micros, texts))
    for number, text in enumerate(texts):
        value, reason = _one(parse, text, mapping, in_key=in_key)
        if value is not None and not approximate and not is_exact(text, value, target):
            inexact.append(number)
            value, reason = (None, not_exact(target)) if in_key else (value, None)
        if value is None:
            rows = np.flatnonzero(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False) == number)
            if reason is None:
                misfits.nulled += len(rows)
                value = None if target.nullable else 0
            else:
                misfits.add(rows, f"{name} {type_text(target)}: {text[:80]!r} {reason}")
        values.append(value)
    if inexact and not in_key:
        misfits.inexact += int(np.isin(encoded.indices.fill_null(-1).to_numpy(), inexact).sum())
    return _array(values, target).take(encoded.indices)


def _one(parse: Callable[[str], object], text: str, mapping: TypeMapping, *, in_key: bool) -> tuple[object, str | None]:
    try:
        return parse(text), None
    except OutsideOfDay as reason:
        if in_key:
            return None, f"{reason} {KEEPS_TIMES}"
        return None, str(reason) if mapping.zero_date_error else None
    except HasOffset as reason:
        return None, f"{reason} {KEEPS_OFFSETS}" if in_key else str(reason)
    except Zero as reason:
        if in_key and not ZERO_DATE.fullmatch(text):
            return None, f"{reason} {KEEPS_DATES}"
        return None, str(reason) if mapping.zero_date_error else None
    except InvalidOperation:
        # Its text is only the name of a class.
        return None, "does not fit (it is not a number)"
    except (ValueError, OverflowError) as reason:
        return None, f"does not fit ({reason})" if str(reason) else "does not fit"


def _array(values: list[object], target: AtomicType) -> pa.Array:
    arrow = to_arrow(target)
    if pa.types.is_timestamp(arrow):
        unit = _UNIT_NANOS[arrow.unit]
        return pa.array([None if v is None else int(str(v)) // unit for v in values], pa.int64()).cast(arrow)
    if pa.types.is_date(arrow) or pa.types.is_time(arrow):
        return pa.array(values, pa.int32()).cast(arrow)
    return pa.array(values, arrow)


def _cast_whole(column: pa.Array, target: AtomicType, misfits: Misfits, *, in_key: bool) -> pa.Array | None:
    """Cast the whole column at once; return None when a text in it is not in Arrow's format.

    With `in_key` also when this may cut off digits, as each text has to be looked at then.
    """
    arrow = to_arrow(target)
    try:
        match target.root:
            case "CHAR" | "VARCHAR":
                return _fitting(column, pc.utf8_length, target)
            case "BOOLEAN":
                return _booleans(column)
            case "VARBINARY" if _fitting(column, pc.binary_length, target) is not None:
                return pc.cast(column, arrow)
            case "TIME" | "BINARY" | "VARBINARY" | "VARIANT":
                return None
            case "DECIMAL":
                return decimals_of_texts(column, arrow) if _are_short_and_plain(column) else None
            case "TIMESTAMP" | "TIMESTAMP_LTZ":
                return _stamps(column, arrow, target.precision, misfits, in_key=in_key)
            case "FLOAT" | "DOUBLE" if in_key:
                return None
            case "FLOAT" | "DOUBLE":
                doubles = _finite(pc.cast(column, pa.float64()), column)
                return doubles if doubles is None or target.root == "DOUBLE" else _floats(doubles)
            case "TINYINT" | "SMALLINT" | "INT" | "BIGINT" if _has_letter(column, b"x"):
                return None
        if target.root == "DATE":
            return _of_this_era(pc.cast(column, arrow), pa.int32(), FIRST_DAY)
        return pc.cast(column, arrow)
    except pa.ArrowInvalid:
        return None


def _are_short_and_plain(column: pa.Array) -> bool:
    """Return whether Arrow parses these decimals correctly.

    It silently returns wrong numbers for more than 38 digits, and crashes on very negative exponents.
    """
    if (pc.max(pc.binary_length(column)).as_py() or 0) > MOST_DIGITS:
        return False
    return not _has_letter(column, b"e")


def _has_letter(column: pa.Array, letter: bytes) -> bool:
    """Return whether any text has this letter, given in lower case, in either case."""
    _, offsets, data = column.buffers()
    if data is None:
        return False
    ends = np.frombuffer(offsets, np.int32)
    texts = np.frombuffer(data, np.uint8)[ends[column.offset] : ends[column.offset + len(column)]]
    # The bit 0x20 makes a letter lower case, so one comparison finds both.
    return bool(((texts | 0x20) == letter[0]).any())


def _of_this_era(column: pa.Array, numbers: pa.DataType, first: int) -> pa.Array | None:
    """Return the column, or None when it has values before year 1.

    Arrow has a year 0, which is a zero date here, so each text must be parsed separately.
    """
    least = pc.min(column.view(numbers)).as_py()
    return None if least is not None and least < first else column


def _fitting(column: pa.Array, measure: Callable[[pa.Array], pa.Array], target: AtomicType) -> pa.Array | None:
    if target.length == STRING_LENGTH:
        return column
    longest = pc.max(measure(column)).as_py()
    return column if longest is None or longest <= target.length else None


def _booleans(column: pa.Array) -> pa.Array | None:
    lower = pc.utf8_lower(column)
    true, false = pc.is_in(lower, pa.array(TRUE)), pc.is_in(lower, pa.array(FALSE))
    known = pc.or_(pc.or_(true, false), pc.is_null(column))
    if not pc.all(known).as_py():
        return None
    return pc.if_else(pc.is_valid(column), true, pa.scalar(None, pa.bool_()))


def _finite(doubles: pa.Array, texts: pa.Array) -> pa.Array | None:
    """Return the doubles; None when a number exceeds their range, which Arrow makes infinite."""
    infinite = pc.is_inf(doubles)
    if not pc.any(infinite).as_py():
        return doubles
    named = pc.match_substring(texts.filter(infinite), "inf", ignore_case=True)
    return doubles if pc.all(named).as_py() else None


def _floats(doubles: pa.Array) -> pa.Array | None:
    """Return the nearest floats; None when a number exceeds their range."""
    # Producers print a FLOAT with the digits of a double, such as 9.899999618530273. Therefore digits that a float
    # cannot store are no error.
    floats = pc.cast(doubles, pa.float32(), safe=False)
    beyond = pc.and_(pc.is_inf(floats), pc.invert(pc.is_inf(doubles)))
    return None if pc.any(beyond).as_py() else floats


def _stamps(
    column: pa.Array, arrow: pa.TimestampType, precision: int, misfits: Misfits, *, in_key: bool
) -> pa.Array | None:
    """Cast to timestamps; digits beyond the column's precision are cut off and counted, but not with `in_key`."""
    plain = pa.timestamp(arrow.unit)
    try:
        exact = pc.cast(column, plain)
    except pa.ArrowInvalid:
        # The text has more digits than the unit of the column.
        exact = pc.cast(column, pa.timestamp("us"))
    stamps = exact
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[arrow.unit]
    if precision < digits or exact.type != plain:
        # Cut and not rounded, as Paimon does.
        multiple = 10 ** (digits - precision)
        stamps = pc.cast(pc.floor_temporal(exact, multiple, unit=_FLOORS[arrow.unit]), plain)
    first = FIRST_DAY * DAY_NANOS // _UNIT_NANOS[arrow.unit]
    known = _of_this_era(stamps, pa.int64(), first)
    if known is None:
        return None
    cut = 0 if stamps is exact else pc.sum(pc.not_equal(pc.cast(stamps, exact.type), exact)).as_py() or 0
    if cut and in_key:
        return None
    misfits.inexact += cut
    # Parsed without a zone, the numbers are in UTC, so the zone can be added without a conversion.
    return known.view(pa.int64()).view(arrow) if arrow.tz else known


def instants_of(texts: pa.Array, stamps: pa.Array, zone: str) -> pa.Array:
    """Return the instants of texts that were parsed as UTC but are local times of `zone`.

    Numbers and texts that end in Z are independent of the zone and stay unchanged.
    """
    there = instants(stamps.view(pa.timestamp(stamps.type.unit)), zone)
    absolute = pc.match_substring_regex(texts, r"^-?[0-9]+$|Z$")
    return pc.if_else(absolute, stamps, there.view(pa.int64()).view(stamps.type))


_FLOORS = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}
