"""The functions of computed columns, with Paimon's names and rules, on whole columns.

They are not the functions of projections and filters in `expressions/functions.py`, which follow SQL and Flink CDC.
Most names are in both, with different rules: here `substring` counts from 0 and has an end position, `date_format` and
the fields of a time accept epoch numbers with a precision, arguments are columns and constants, and `cast` accepts
only a constant. There `substring` counts from 1 and has a length, and arguments are expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal

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
    column_text,
    whole_argument,
    without_misfits,
)
from penstock.schema_evolution.computed_times import (
    batch_time,
    check_format,
    field_function,
    format_dates,
    time_function_type,
)
from penstock.schema_evolution.text_casts import Misfits, cast_texts
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.value_casts import fit_column
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.hashing import bucket_rows
from penstock.table.values.types import INT, STRING, AtomicType, DataType, Field, parse_atomic, type_json

_MOST_WIDTH = (1 << 31) - 1
# Python's default context has fewer digits than a DECIMAL.
_WIDE = Context(prec=80)


# text


def _substring(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    # Positions beyond the end are cut, where Paimon's function fails.
    return pc.utf8_slice_codeunits(column_text(columns, arguments[0]), *_bounds(arguments))


def _bounds(arguments: Arguments) -> tuple[int, int | None]:
    begin = whole_argument(arguments[1], "start position")
    end = whole_argument(arguments[2], "end position") if len(arguments) > 2 else None
    if begin < 0 or (end is not None and end <= begin):
        raise ConfigError(
            "substring needs a start position of at least 0 and an end position after it",
            begin=begin,
            end=end,
            hint="write substring(column, 0, 4); positions begin at 0",
        )
    return begin, end


def _of_text(change: Callable[[pa.Array], pa.Array]) -> ComputedFunction:
    def type_of(arguments: Arguments, types: Mapping[str, DataType]) -> DataType:
        type_ = types[arguments[0].column]
        if not isinstance(type_, AtomicType) or type_.root not in TEXTS:
            name = arguments[0].column
            raise ConfigError(
                f"a string is needed, not {type_json(type_)}",
                column=name,
                hint=f"convert it first, by another computed column: {name}_text=concat({name})",
            )
        return STRING

    def values(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
        type_of(arguments, columns.types)
        return change(columns.arrays[arguments[0].column])

    return ComputedFunction(1, 1, type_of, values)


def _concat(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    parts = [pa.scalar(argument.text) if argument.quoted else column_text(columns, argument) for argument in arguments]
    joined = pc.binary_join_element_wise(*parts, "", null_handling="emit_null")
    return joined if isinstance(joined, pa.Array) else pa.array([joined.as_py()] * rows)


# numbers


def _truncate_type(arguments: Arguments, types: Mapping[str, DataType]) -> DataType:
    type_ = types[arguments[0].column]
    root = type_.root if isinstance(type_, AtomicType) else ""
    if root not in {*INTEGERS, "DECIMAL", *TEXTS}:
        raise ConfigError(
            f"Unsupported field type for truncate function: {type_json(type_)}",
            hint="truncate accepts integers, DECIMAL and texts",
        )
    return STRING if root in TEXTS else type_


def _truncate(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    name, width = arguments[0].column, _width(arguments)
    column, type_ = columns.arrays[name], columns.types[name]
    root = type_.root if isinstance(type_, AtomicType) else ""
    if root in TEXTS:
        return pc.utf8_slice_codeunits(column, 0, width)
    reason = f"{name} {type_json(type_)}: %s rounded down to a multiple of {width} is out of range"
    if root == "DECIMAL":
        return _decimals_cut(column, width, columns.misfits, reason)
    filled = pc.fill_null(pc.cast(column, pa.int64()), 0).to_numpy(zero_copy_only=False)
    # The remainder of numpy is never negative here, so the result is rounded down, below zero too. Close to the
    # smallest BIGINT the subtraction wraps around to a greater number.
    cut = filled - np.mod(filled, width)
    odd = (cut > filled) | (cut < -(1 << column.type.bit_width - 1))
    cut_down = pc.if_else(pc.is_valid(column), pa.array(np.where(odd, 0, cut)), pa.scalar(None, pa.int64()))
    return without_misfits(pc.cast(cut_down, column.type), pa.array(odd), column, columns.misfits, reason)


def _decimals_cut(column: pa.Array, width: int, misfits: Misfits, reason: str) -> pa.Array:
    # The width counts units of the last digit, because Paimon truncates the unscaled number.
    step = Decimal(width).scaleb(-column.type.scale)
    limit = Decimal(1).scaleb(column.type.precision - column.type.scale)
    encoded = column.dictionary_encode()
    cut = [_cut_down(value, step) for value in encoded.dictionary.to_pylist()]
    odd = pa.array([abs(value) >= limit for value in cut], pa.bool_()).take(encoded.indices)
    values = pa.array([None if abs(value) >= limit else value for value in cut], column.type).take(encoded.indices)
    return without_misfits(values, odd, column, misfits, reason)


def _cut_down(value: Decimal, step: Decimal) -> Decimal:
    rest = _WIDE.remainder(value, step)
    return _WIDE.subtract(value, rest if rest >= 0 else _WIDE.add(rest, step))


def _width(arguments: Arguments) -> int:
    width = whole_argument(arguments[1], "width")
    if not 0 < width <= _MOST_WIDTH:
        raise ConfigError(
            f"truncate needs a width from 1 to {_MOST_WIDTH}, not {width}", hint="for example truncate(c, 10)"
        )
    return width


def _buckets(arguments: Arguments) -> int:
    count = whole_argument(arguments[1], "number of buckets")
    if not 0 < count <= _MOST_WIDTH:
        raise ConfigError(
            f"bucket needs a number of buckets from 1 to {_MOST_WIDTH}, not {count}", hint="for example bucket(c, 16)"
        )
    return count


def _bucket(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    name = arguments[0].column
    buckets = bucket_rows([columns.arrays[name]], [columns.types[name]], _buckets(arguments))
    return pc.if_else(pc.is_valid(columns.arrays[name]), pa.array(buckets), pa.scalar(None, pa.int32()))


# any


def _cast_type(arguments: Arguments, types: Mapping[str, DataType]) -> DataType:
    # The comma in a type such as DECIMAL(10, 2) splits it into two arguments.
    return parse_atomic(",".join(argument.text for argument in arguments[1:])) if len(arguments) > 1 else STRING


def _cast(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    return _constant(arguments).take(pa.array(np.zeros(rows, np.int64)))


def _constant(arguments: Arguments) -> pa.Array:
    misfits = Misfits()
    value = cast_texts(
        pa.array([arguments[0].text]), _atomic(_cast_type(arguments, {})), "cast", TypeMapping(), misfits
    )
    if misfits.reasons:
        raise ConfigError(
            misfits.reasons[0], hint="write a text of the type, or name another type: cast(2026-01-31, DATE)"
        )
    return value


def _atomic(type_: DataType) -> AtomicType:
    if not isinstance(type_, AtomicType):
        raise ConfigError(
            "cast needs an atomic type", hint="name a type without members, such as BIGINT or DECIMAL(10, 2)"
        )
    return type_


def _coalesce(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    type_ = columns.types[next(argument.column for argument in arguments if not argument.quoted)]
    result = pa.nulls(rows, to_arrow(type_))
    for argument in arguments:
        given = pa.repeat(pa.scalar(argument.text), rows) if argument.quoted else columns.arrays[argument.column]
        # Only values that are used need to fit.
        missing = pc.if_else(pc.is_null(result), given, pa.scalar(None, given.type))
        result = pc.coalesce(
            result, fit_column(missing, Field(-1, argument.text, type_), TypeMapping(), columns.misfits)
        )
    return result


def _first_type(arguments: Arguments, types: Mapping[str, DataType]) -> DataType:
    columns = [argument.column for argument in arguments if not argument.quoted]
    if not columns:
        raise ConfigError(
            "coalesce needs at least one column", hint="name a column without quotes: coalesce(column, 'unknown')"
        )
    return types[columns[0]]


def _always(type_: DataType) -> Callable[[Arguments, Mapping[str, DataType]], DataType]:
    return lambda arguments, types: type_


def _epoch_now() -> DataType:
    return AtomicType("TIMESTAMP", precision=3)


COMPUTED_FUNCTIONS: dict[str, ComputedFunction] = {
    "year": field_function(pc.year),
    "month": field_function(pc.month),
    "day": field_function(pc.day),
    "hour": field_function(pc.hour),
    "minute": field_function(pc.minute),
    "second": field_function(pc.second),
    "date_format": ComputedFunction(2, 3, time_function_type(STRING), format_dates, refuse=check_format),
    "substring": ComputedFunction(2, 3, _always(STRING), _substring, refuse=_bounds),
    "truncate": ComputedFunction(2, 2, _truncate_type, _truncate, refuse=_width),
    "cast": ComputedFunction(1, 3, _cast_type, _cast, no_column=True, refuse=_constant),
    "now": ComputedFunction(0, 0, _always(_epoch_now()), batch_time, no_column=True, by_clock=True),
    "upper": _of_text(pc.utf8_upper),
    "lower": _of_text(pc.utf8_lower),
    "trim": _of_text(lambda column: pc.utf8_trim(column, " ")),
    "concat": ComputedFunction(1, 64, _always(STRING), _concat, all_columns=True),
    "bucket": ComputedFunction(2, 2, _always(INT), _bucket, refuse=_buckets),
    "coalesce": ComputedFunction(1, 64, _first_type, _coalesce, all_columns=True),
}
