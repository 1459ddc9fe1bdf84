"""The functions of computed columns: what they take, what type they give, how they work on a column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.schema_evolution.date_patterns import format_timestamps
from penstock.schema_evolution.texts import Misfits, cast_texts
from penstock.schema_evolution.type_mapping import TypeMapping
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.hashing import bucket_rows
from penstock.table.values.texts import to_text
from penstock.table.values.types import INT, STRING, AtomicType, DataType, parse_atomic, type_json


@dataclass(frozen=True, slots=True)
class Argument:
    text: str
    column: str  # the text as a column's name: folded where the catalog folds case
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """Fitted columns by name with their types, and the instant of the batch, in epoch milliseconds."""

    arrays: Mapping[str, pa.Array]
    types: Mapping[str, DataType]
    now_millis: int = 0


Arguments = Sequence[Argument]
_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_TEXTS = ("CHAR", "VARCHAR")
_PRECISIONS = {0: "s", 3: "ms", 6: "us", 9: "ns"}


@dataclass(frozen=True, slots=True)
class Function:
    least: int
    most: int
    type: Callable[[Arguments, Mapping[str, DataType]], DataType]
    values: Callable[[Arguments, Columns, int], pa.Array]
    all_columns: bool = False  # every argument that is not quoted names a column; else only the first does
    no_column: bool = False

    def check(self, name: str, arguments: Arguments) -> None:
        if not self.least <= len(arguments) <= self.most:
            wanted = str(self.least) if self.least == self.most else f"{self.least} to {self.most}"
            raise ConfigError(f"computed column {name!r} has {len(arguments)} arguments; its function takes {wanted}")

    def references(self, arguments: Arguments) -> tuple[str, ...]:
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
    """The first argument as timestamps: of a date, a timestamp, an epoch number or a text."""
    source, type_ = columns.arrays[arguments[0].column], columns.types[arguments[0].column]
    root = type_.root if isinstance(type_, AtomicType) else ""
    precision = _precision(arguments, place)
    if root == "DATE":
        return pc.cast(source, pa.timestamp("us"))
    if root.startswith("TIMESTAMP"):
        return source.view(pa.timestamp(source.type.unit))
    if root in _INTEGERS:
        return pc.cast(source, pa.int64()).view(pa.timestamp(_PRECISIONS[precision or 0]))
    if root in _TEXTS:
        misfits = Misfits()
        if precision is not None:
            numbers = cast_texts(source, AtomicType("BIGINT"), "", TypeMapping(), misfits)
            return numbers.view(pa.timestamp(_PRECISIONS[precision]))
        return cast_texts(source, AtomicType("TIMESTAMP", precision=6), "", TypeMapping(), misfits)
    raise ConfigError(f"a time cannot be taken from {type_json(type_)}", column=arguments[0].column)


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
        lambda arguments, types: INT,
        lambda arguments, columns, rows: pc.cast(take(_stamps(arguments, columns, 1)), pa.int32()),
    )


def _date_format(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    return format_timestamps(_stamps(arguments, columns, 2), arguments[1].text)


def _now(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    return pa.array(np.full(rows, columns.now_millis, np.int64)).view(pa.timestamp("ms"))


# text


def _substring(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    begin = _whole(arguments[1], "place to begin")
    end = _whole(arguments[2], "place to end") if len(arguments) > 2 else None
    if begin < 0 or (end is not None and end <= begin):
        raise ConfigError("substring needs 0 <= begin < end", begin=begin, end=end)
    return pc.utf8_slice_codeunits(_text(columns, arguments[0]), begin, end)


def _of_text(change: Callable[[pa.Array], pa.Array]) -> Function:
    def values(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
        type_ = columns.types[arguments[0].column]
        if not isinstance(type_, AtomicType) or type_.root not in _TEXTS:
            raise ConfigError(f"a text is needed, not {type_json(type_)}", column=arguments[0].column)
        return change(columns.arrays[arguments[0].column])

    return Function(1, 1, lambda arguments, types: STRING, values)


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
    column, type_ = columns.arrays[arguments[0].column], columns.types[arguments[0].column]
    width = _whole(arguments[1], "width")
    if width <= 0:
        raise ConfigError(f"truncate needs a width above 0, not {width}")
    root = type_.root if isinstance(type_, AtomicType) else ""
    if root in _TEXTS:
        return pc.utf8_slice_codeunits(column, 0, width)
    if root == "DECIMAL":
        step = Decimal(width).scaleb(-column.type.scale)
        encoded = column.dictionary_encode()
        cut = [value - ((value % step) + step) % step for value in encoded.dictionary.to_pylist()]
        return pa.array(cut, column.type).take(encoded.indices)
    numbers = pc.cast(column, pa.int64())
    filled = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False)
    cut_down = pa.array(filled - np.mod(filled, width))
    return pc.cast(pc.if_else(pc.is_valid(numbers), cut_down, pa.scalar(None, pa.int64())), column.type)


def _bucket(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    name = arguments[0].column
    buckets = bucket_rows([columns.arrays[name]], [columns.types[name]], _whole(arguments[1], "number of buckets"))
    return pc.if_else(pc.is_valid(columns.arrays[name]), pa.array(buckets), pa.scalar(None, pa.int32()))


# any


def _cast_type(arguments: Arguments, types: Mapping[str, DataType]) -> DataType:
    # A type's own comma, as in DECIMAL(10, 2), parts it into two arguments.
    return parse_atomic(",".join(one.text for one in arguments[1:])) if len(arguments) > 1 else STRING


def _cast(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    type_ = _cast_type(arguments, {})
    misfits = Misfits()
    value = cast_texts(pa.array([arguments[0].text]), _atomic(type_), "cast", TypeMapping(), misfits)
    if misfits.reasons:
        raise ConfigError(misfits.reasons[0])
    return value.take(pa.array(np.zeros(rows, np.int64)))


def _atomic(type_: DataType) -> AtomicType:
    if not isinstance(type_, AtomicType):
        raise ConfigError("cast takes an atomic type")
    return type_


def _coalesce(arguments: Arguments, columns: Columns, rows: int) -> pa.Array:
    type_ = to_arrow(columns.types[next(one.column for one in arguments if not one.quoted)])
    parts = [
        pa.scalar(one.text, pa.string()).cast(type_) if one.quoted else pc.cast(columns.arrays[one.column], type_)
        for one in arguments
    ]
    return pc.coalesce(*parts)


def _first_type(arguments: Arguments, types: Mapping[str, DataType]) -> DataType:
    columns = [one.column for one in arguments if not one.quoted]
    if not columns:
        raise ConfigError("coalesce needs a column")
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
    "date_format": Function(2, 3, _always(STRING), _date_format),
    "substring": Function(2, 3, _always(STRING), _substring),
    "truncate": Function(2, 2, _truncate_type, _truncate),
    "cast": Function(1, 3, _cast_type, _cast, no_column=True),
    "now": Function(0, 0, _always(_epoch_now()), _now, no_column=True),
    "upper": _of_text(pc.utf8_upper),
    "lower": _of_text(pc.utf8_lower),
    "trim": _of_text(lambda column: pc.utf8_trim(column, " ")),
    "concat": Function(1, 64, _always(STRING), _concat, all_columns=True),
    "bucket": Function(2, 2, _always(INT), _bucket),
    "coalesce": Function(1, 64, _first_type, _coalesce, all_columns=True),
}
