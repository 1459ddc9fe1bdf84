"""The functions of computed columns that read dates and times."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.schema_evolution.computed_arguments import (
    INTEGERS,
    TEXTS,
    Arguments,
    Columns,
    ComputedFunction,
    whole_argument,
    without_misfits,
)
from penstock.schema_evolution.date_patterns import check_pattern, format_timestamps
from penstock.schema_evolution.text_casts import Misfits, cast_texts
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.value_casts import fit_column
from penstock.table.values.types import INT, AtomicType, DataType, Field, type_json

_PRECISIONS = {0: "s", 3: "ms", 6: "us", 9: "ns"}
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years 1 and 9999


def timestamps_of(arguments: Arguments, columns: Columns, place: int) -> pa.Array:
    """Return the first argument (a date, timestamp, epoch number or text) as timestamps."""
    name = arguments[0].column
    source, type_ = columns.arrays[name], columns.types[name]
    root = _root_of_time(type_, name)
    precision = _precision(arguments, place)
    if root == "DATE":
        stamps = pc.cast(source, pa.timestamp("us"))
    elif root.startswith("TIMESTAMP"):
        # Without its zone: the numbers are in UTC already and stay the same.
        stamps = source.view(pa.timestamp(source.type.unit))
    elif root in TEXTS and precision is None:
        stamps = cast_texts(source, AtomicType("TIMESTAMP", precision=6), name, TypeMapping(), columns.misfits)
    else:
        numbers = fit_column(source, Field(-1, name, AtomicType("BIGINT")), TypeMapping(), columns.misfits)
        stamps = numbers.view(pa.timestamp(_PRECISIONS[precision or 0]))
    return _of_this_era(stamps, name, columns.misfits)


def _root_of_time(type_: DataType, name: str) -> str:
    root = type_.root if isinstance(type_, AtomicType) else ""
    if root not in {"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", *INTEGERS, *TEXTS}:
        raise ConfigError(
            f"a time cannot be read from {type_json(type_)}",
            column=name,
            hint="name a column of dates, timestamps, texts or whole numbers",
        )
    return root


def time_function_type(type_: DataType) -> Callable[[Arguments, Mapping[str, DataType]], DataType]:
    """Return a type function with the result `type_`; it raises ConfigError for a column that is not a time."""

    def of(arguments: Arguments, types: Mapping[str, DataType]) -> DataType:
        _root_of_time(types[arguments[0].column], arguments[0].column)
        return type_

    return of


def _of_this_era(stamps: pa.Array, name: str, misfits: Misfits) -> pa.Array:
    """Return the stamps with those outside of the years 1 to 9999 as misfits.

    Calendars and patterns support no other years. Nanoseconds cannot leave that range.
    """
    if stamps.type.unit == "ns":
        return stamps
    per_second = {"s": 1, "ms": 1000, "us": 1_000_000}[stamps.type.unit]
    numbers = stamps.view(pa.int64())
    low, high = pa.scalar(_FIRST_SECOND * per_second), pa.scalar((_LAST_SECOND + 1) * per_second - 1)
    return without_misfits(
        stamps,
        pc.or_(pc.less(numbers, low), pc.greater(numbers, high)),
        numbers,
        misfits,
        (
            f"{name}: %s is outside of the years 1 to 9999 (integers are read as seconds unless the precision 3, "
            "6 or 9 is set)"
        ),
    )


def _precision(arguments: Arguments, place: int) -> int | None:
    if len(arguments) <= place:
        return None
    precision = whole_argument(arguments[place], "precision")
    if precision not in _PRECISIONS:
        raise ConfigError(f"Unsupported precision of temporal function: {precision}", hint="use 0, 3, 6 or 9")
    return precision


def field_function(extract: Callable[[pa.Array], pa.Array]) -> ComputedFunction:
    return ComputedFunction(
        1,
        2,
        time_function_type(INT),
        lambda arguments, columns, rows: pc.cast(extract(timestamps_of(arguments, columns, 1)), pa.int32()),
        refuse=lambda arguments: _precision(arguments, 1),
    )


def format_dates(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    return format_timestamps(timestamps_of(arguments, columns, 2), arguments[1].text)


def check_format(arguments: Arguments) -> None:
    check_pattern(arguments[1].text)
    _precision(arguments, 2)


def wall_clock(instant: int, zone: str) -> int:
    """Return the local time of the zone at an instant, both in milliseconds."""
    there = dt.datetime.fromtimestamp(instant // 1000, ZoneInfo(zone)).utcoffset()
    return instant + (round(there.total_seconds() * 1000) if there else 0)


def batch_time(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    return pa.array(np.full(rows, columns.now_millis, np.int64)).view(pa.timestamp("ms"))
