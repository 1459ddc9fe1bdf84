"""The functions of computed columns: their arguments, result types and implementations on whole columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.schema_evolution.date_patterns import check_pattern, format_timestamps
from penstock.schema_evolution.text_casts import Misfits, cast_texts
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.value_casts import fit_column
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.hashing import bucket_rows
from penstock.table.values.texts import to_text
from penstock.table.values.types import INT, STRING, AtomicType, DataType, Field, parse_atomic, type_json


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a function, as text and as a possible column name."""

    text: str
    column: str  # the text as a column name, in lower case if the catalog is not case sensitive
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """Fitted columns by name with their types, and the wall clock of the batch in milliseconds.

    `misfits` collects the rows whose values a function cannot read.
    """

    arrays: Mapping[str, pa.Array]
    types: Mapping[str, DataType]
    now_millis: int = 0
    misfits: Misfits = field(default_factory=Misfits)


Arguments = Sequence[Argument]
_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_TEXTS = ("CHAR", "VARCHAR")
_PRECISIONS = {0: "s", 3: "ms", 6: "us", 9: "ns"}
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years 1 and 9999
_MOST_WIDTH = (1 << 31) - 1
_WIDE = Context(prec=80)  # Python's default context has fewer digits than a DECIMAL


@dataclass(frozen=True, slots=True)
class Function:
    """A function of computed columns.

    `refuse` raises ConfigError for arguments that are invalid for any column, before anything is read.
    """

    least: int
    most: int
    type: Callable[[Arguments, Mapping[str, DataType]], DataType]
    values: Callable[[Arguments, Columns, int], pa.Array]
    all_columns: bool = False  # every unquoted argument names a column; otherwise only the first does
    no_column: bool = False
    refuse: Callable[[Arguments], object] = lambda arguments: None

    def check(self, name: str, arguments: Arguments) -> None:
        """Raise ConfigError when the number or the values of the arguments are invalid for any column."""
        if not self.least <= len(arguments) <= self.most:
            wanted = str(self.least) if self.least == self.most else f"between {self.least} and {self.most}"
            raise ConfigError(f"computed column {name!r} has {len(arguments)} arguments; its function needs {wanted}")
        if not (self.all_columns or self.no_column) and arguments[0].quoted:
            raise ConfigError(
                f"computed column {name!r} refers to no column: {arguments[0].text!r} is a string literal",
                hint="write a column's name without quotes",
            )
        self.refuse(arguments)

    def references(self, arguments: Arguments) -> tuple[str, ...]:
        """Return the names of the columns the arguments refer to."""
        if self.no_column or not arguments:
            return ()
        return tuple(one.column for one in (arguments if self.all_columns else arguments[:1]) if not one.quoted)


def _text(columns: Columns, argument: Argument) -> pa.Array:
    return to_text(columns.arrays[argument.column], columns.types[argument.column])


def _whole(argument: Argument, what: str) -> int:
    try:
        return int(argument.text)
    except ValueError as reason:
        raise ConfigError(f"{argument.text!r} is no {what}") from reason


# time


def _stamps(arguments: Arguments, columns: Columns, place: int) -> pa.Array:
    """Return the first argument (a date, timestamp, epoch number or text) as timestamps."""
    name = arguments[0].column
    source, type_ = columns.arrays[name], columns.types[name]
    root = _root_of_time(type_, name)
    precision = _precision(arguments, place)
    if root == "DATE":
        stamps = pc.cast(source, pa.timestamp("us"))
    elif root.startswith("TIMESTAMP"):
        stamps = source.view(pa.timestamp(source.type.unit))
    elif root in _TEXTS and precision is None:
        stamps = cast_texts(source, AtomicType("TIMESTAMP", precision=6), name, TypeMapping(), columns.misfits)
    else:
        numbers = fit_column(source, Field(-1, name, AtomicType("BIGINT")), TypeMapping(), columns.misfits)
        stamps = numbers.view(pa.timestamp(_PRECISIONS[precision or 0]))
    return _of_this_era(stamps, name, columns.misfits)


def _root_of_time(type_: DataType, name: str) -> str:
    root = type_.root if isinstance(type_, AtomicType) else ""
    if root not in {"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", *_INTEGERS, *_TEXTS}:
        raise ConfigError(f"a time cannot be read from {type_json(type_)}", column=name)
    return root


def _of_time(type_: DataType) -> Callable[[Arguments, Mapping[str, DataType]], DataType]:
    """Return a type function whose result is `type_`, and which raises ConfigError for a column that is not a time."""

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
    return _without(
        stamps,
        pc.or_(pc.less(numbers, low), pc.greater(numbers, high)),
        numbers,
        misfits,
        (
            f"{name}: %s is outside of the years 1 to 9999 (integers are read as seconds unless the precision 3, "
            "6 or 9 is set)"
        ),
    )


def _without(values: pa.Array, odd: pa.Array, shown: pa.Array, misfits: Misfits, reason: str) -> pa.Array:
    """Return the values with null, and a misfit, where they are odd."""
    odd = pc.fill_null(odd, fill_value=False)
    rows = np.flatnonzero(odd.to_numpy(zero_copy_only=False))
    if not len(rows):
        return values
    for place, value in enumerate(shown.take(pa.array(rows))):
        misfits.add(rows[place : place + 1], reason % value)
    return pc.if_else(odd, pa.scalar(None, values.type), values)


def _precision(arguments: Arguments, place: int) -> int | None:
    if len(arguments) <= place:
        return None
    precision = _whole(arguments[place], "precision")
    if precision not in _PRECISIONS:
        raise ConfigError(f"Unsupported precision of temporal function: {precision}", hint="use 0, 3, 6 or 9")
    return precision


def _field(take: Callable[[pa.Array], pa.Array]) -> Function:
    return Function(
        1,
        2,
        _of_time(INT),
        lambda arguments, columns, rows: pc.cast(take(_stamps(arguments, columns, 1)), pa.int32()),
        refuse=lambda arguments: _precision(arguments, 1),
    )


def _date_format(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    return format_timestamps(_stamps(arguments, columns, 2), arguments[1].text)


def _refuse_format(arguments: Arguments) -> None:
    check_pattern(arguments[1].text)
    _precision(arguments, 2)


def wall_clock(instant: int, zone: str) -> int:
    """Return the local time of the zone at an instant, both in milliseconds."""
    there = dt.datetime.fromtimestamp(instant // 1000, ZoneInfo(zone)).utcoffset()
    return instant + (round(there.total_seconds() * 1000) if there else 0)


def _now(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    return pa.array(np.full(rows, columns.now_millis, np.int64)).view(pa.timestamp("ms"))


# text


def _substring(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    return pc.utf8_slice_codeunits(_text(columns, arguments[0]), *_bounds(arguments))


def _bounds(arguments: Arguments) -> tuple[int, int | None]:
    begin = _whole(arguments[1], "start position")
    end = _whole(arguments[2], "end position") if len(arguments) > 2 else None
    if begin < 0 or (end is not None and end <= begin):
        raise ConfigError(
            "substring needs a start position of at least 0 and an end position after it", begin=begin, end=end
        )
    return begin, end


def _of_text(change: Callable[[pa.Array], pa.Array]) -> Function:
    def type_of(arguments: Arguments, types: Mapping[str, DataType]) -> DataType:
        type_ = types[arguments[0].column]
        if not isinstance(type_, AtomicType) or type_.root not in _TEXTS:
            raise ConfigError(f"a string is needed, not {type_json(type_)}", column=arguments[0].column)
        return STRING

    def values(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
        type_of(arguments, columns.types)
        return change(columns.arrays[arguments[0].column])

    return Function(1, 1, type_of, values)


def _concat(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    parts = [pa.scalar(one.text) if one.quoted else _text(columns, one) for one in arguments]
    joined = pc.binary_join_element_wise(*parts, "", null_handling="emit_null")
    return joined if isinstance(joined, pa.Array) else pa.array([joined.as_py()] * rows)


# numbers


def _truncate_type(arguments: Arguments, types: Mapping[str, DataType]) -> DataType:
    type_ = types[arguments[0].column]
    root = type_.root if isinstance(type_, AtomicType) else ""
    if root not in {*_INTEGERS, "DECIMAL", *_TEXTS}:
        raise ConfigError(f"Unsupported field type for truncate function: {type_json(type_)}")
    return STRING if root in _TEXTS else type_


def _truncate(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    name, width = arguments[0].column, _width(arguments)
    column, type_ = columns.arrays[name], columns.types[name]
    root = type_.root if isinstance(type_, AtomicType) else ""
    if root in _TEXTS:
        return pc.utf8_slice_codeunits(column, 0, width)
    reason = f"{name} {type_json(type_)}: %s rounded down to a multiple of {width} is out of range"
    if root == "DECIMAL":
        return _decimals_cut(column, width, columns.misfits, reason)
    filled = pc.fill_null(pc.cast(column, pa.int64()), 0).to_numpy(zero_copy_only=False)
    cut = filled - np.mod(filled, width)
    odd = (cut > filled) | (cut < -(1 << column.type.bit_width - 1))
    cut_down = pc.if_else(pc.is_valid(column), pa.array(np.where(odd, 0, cut)), pa.scalar(None, pa.int64()))
    return _without(pc.cast(cut_down, column.type), pa.array(odd), column, columns.misfits, reason)


def _decimals_cut(column: pa.Array, width: int, misfits: Misfits, reason: str) -> pa.Array:
    step = Decimal(width).scaleb(-column.type.scale)
    limit = Decimal(1).scaleb(column.type.precision - column.type.scale)
    encoded = column.dictionary_encode()
    cut = [_cut_down(value, step) for value in encoded.dictionary.to_pylist()]
    odd = pa.array([abs(value) >= limit for value in cut], pa.bool_()).take(encoded.indices)
    values = pa.array([None if abs(value) >= limit else value for value in cut], column.type).take(encoded.indices)
    return _without(values, odd, column, misfits, reason)


def _cut_down(value: Decimal, step: Decimal) -> Decimal:
    rest = _WIDE.remainder(value, step)
    return _WIDE.subtract(value, rest if rest >= 0 else _WIDE.add(rest, step))


def _width(arguments: Arguments) -> int:
    width = _whole(arguments[1], "width")
    if not 0 < width <= _MOST_WIDTH:
        raise ConfigError(f"truncate needs a width from 1 to {_MOST_WIDTH}, not {width}")
    return width


def _buckets(arguments: Arguments) -> int:
    count = _whole(arguments[1], "number of buckets")
    if not 0 < count <= _MOST_WIDTH:
        raise ConfigError(f"bucket needs a number of buckets from 1 to {_MOST_WIDTH}, not {count}")
    return count


def _bucket(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    name = arguments[0].column
    buckets = bucket_rows([columns.arrays[name]], [columns.types[name]], _buckets(arguments))
    return pc.if_else(pc.is_valid(columns.arrays[name]), pa.array(buckets), pa.scalar(None, pa.int32()))


# any


def _cast_type(arguments: Arguments, types: Mapping[str, DataType]) -> DataType:
    # The comma in a type such as DECIMAL(10, 2) splits it into two arguments.
    return parse_atomic(",".join(one.text for one in arguments[1:])) if len(arguments) > 1 else STRING


def _cast(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    return _constant(arguments).take(pa.array(np.zeros(rows, np.int64)))


def _constant(arguments: Arguments) -> pa.Array:
    misfits = Misfits()
    value = cast_texts(
        pa.array([arguments[0].text]), _atomic(_cast_type(arguments, {})), "cast", TypeMapping(), misfits
    )
    if misfits.reasons:
        raise ConfigError(misfits.reasons[0])
    return value


def _atomic(type_: DataType) -> AtomicType:
    if not isinstance(type_, AtomicType):
        raise ConfigError("cast needs an atomic type")
    return type_


def _coalesce(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    type_ = columns.types[next(one.column for one in arguments if not one.quoted)]
    result = pa.nulls(rows, to_arrow(type_))
    for one in arguments:
        given = pa.repeat(pa.scalar(one.text), rows) if one.quoted else columns.arrays[one.column]
        # Only values that are used need to fit.
        asked = pc.if_else(pc.is_null(result), given, pa.scalar(None, given.type))
        result = pc.coalesce(result, fit_column(asked, Field(-1, one.text, type_), TypeMapping(), columns.misfits))
    return result


def _first_type(arguments: Arguments, types: Mapping[str, DataType]) -> DataType:
    columns = [one.column for one in arguments if not one.quoted]
    if not columns:
        raise ConfigError("coalesce needs at least one column")
    return types[columns[0]]


def _always(type_: DataType) -> Callable[[Arguments, Mapping[str, DataType]], DataType]:
    return lambda arguments, types: type_


def _epoch_now() -> DataType:
    return AtomicType("TIMESTAMP", precision=3)


FUNCTIONS: dict[str, Function] = {
    "year": _field(pc.year),
    "month": _field(pc.month),
    "day": _field(pc.day),
    "hour": _field(pc.hour),
    "minute": _field(pc.minute),
    "second": _field(pc.second),
    "date_format": Function(2, 3, _of_time(STRING), _date_format, refuse=_refuse_format),
    "substring": Function(2, 3, _always(STRING), _substring, refuse=_bounds),
    "truncate": Function(2, 2, _truncate_type, _truncate, refuse=_width),
    "cast": Function(1, 3, _cast_type, _cast, no_column=True, refuse=_constant),
    "now": Function(0, 0, _always(_epoch_now()), _now, no_column=True),
    "upper": _of_text(pc.utf8_upper),
    "lower": _of_text(pc.utf8_lower),
    "trim": _of_text(lambda column: pc.utf8_trim(column, " ")),
    "concat": Function(1, 64, _always(STRING), _concat, all_columns=True),
    "bucket": Function(2, 2, _always(INT), _bucket, refuse=_buckets),
    "coalesce": Function(1, 64, _first_type, _coalesce, all_columns=True),
}
