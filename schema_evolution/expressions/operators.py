"""Operators on whole columns, and the conversion of their operands to a common type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError, DecodeError
from penstock.formats.exact_decimals import rescaled
from penstock.schema_evolution.expressions.arithmetic import ARITHMETIC, arithmetic, as_doubles
from penstock.schema_evolution.expressions.like_patterns import like
from penstock.table.values.arrow_types import is_number

Values = Any  # an Arrow array, or a scalar when the expression is constant


def texts(value: Values) -> Values:
    """Return values as text; numbers and times in SQL notation."""
    if pa.types.is_string(value.type):
        return value
    if pa.types.is_null(value.type):
        return pc.cast(value, pa.string())
    if pa.types.is_large_string(value.type) or pa.types.is_dictionary(value.type):
        return pc.cast(value, pa.string())
    if pa.types.is_boolean(value.type):
        return pc.if_else(value, "true", "false")
    if pa.types.is_binary(value.type):
        raise ConfigError("bytes are not text", hint="cast(x as string) reads them as UTF-8")
    return pc.cast(value, pa.string())


def stamps(value: Values) -> Values:
    """Return dates, timestamps or texts as timestamps without time zone."""
    if pa.types.is_timestamp(value.type):
        return value if value.type.tz is None else pc.cast(value, pa.timestamp(value.type.unit))
    if pa.types.is_date(value.type) or pa.types.is_null(value.type):
        return pc.cast(value, pa.timestamp("us"))
    if pa.types.is_string(value.type):
        try:
            return pc.cast(value, pa.timestamp("us"))
        except pa.ArrowInvalid as reason:
            raise DecodeError(f"a text is not a timestamp: {reason}") from reason
    raise ConfigError(f"a time cannot be read from {value.type}", hint="name a column of dates, timestamps or texts")


def whole(value: Values, of: str) -> int:
    """Return the value of an argument that must be a constant whole number."""
    if not isinstance(value, pa.Scalar) or not pa.types.is_integer(value.type):
        raise ConfigError(f"this argument of {of} must be a constant integer, not a column", hint="write its digits")
    return int(value.as_py())


def aligned(left: Values, right: Values) -> tuple[Values, Values]:
    """Return two operands that can be compared.

    A text compared with a time is parsed as time; a boolean compared with a number is 0 or 1; text and numbers cannot
    be compared.
    """
    if left.type == right.type or pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return left, right
    for first, other, turned in ((left, right, False), (right, left, True)):
        if pa.types.is_boolean(first.type) and is_number(other.type):
            pair = pc.cast(first, pa.int8()), other
        elif pa.types.is_string(first.type) and pa.types.is_temporal(other.type):
            pair = _as_time(first, other.type), other
        elif pa.types.is_decimal(first.type) and pa.types.is_floating(other.type):
            pair = as_doubles(first), other
        else:
            continue
        return (pair[1], pair[0]) if turned else pair
    if pa.types.is_string(left.type) != pa.types.is_string(right.type):
        raise ConfigError(
            f"{left.type} and {right.type} cannot be compared", hint="cast one of them: cast(x as bigint)"
        )
    return left, right


def _as_time(value: Values, type_: pa.DataType) -> Values:
    try:
        if pa.types.is_timestamp(type_) and type_.tz is not None:
            return pc.cast(pc.cast(value, pa.timestamp(type_.unit)), type_)
        return pc.cast(value, type_)
    except pa.ArrowInvalid as reason:
        raise ConfigError(
            f"a text compared with {type_} cannot be converted to it: {reason}",
            hint="write dates as '2026-01-31' and timestamps as '2026-01-31 12:00:00'",
        ) from reason


def common(values: Sequence[Values]) -> list[Values]:
    """Return the values in a common type: numbers by Arrow's rules, times as timestamps.

    ConfigError for any other mix of types.
    """
    typed = [value for value in values if not pa.types.is_null(value.type)]
    if not typed:
        return list(values)
    types = {value.type for value in typed}
    if len(types) == 1:
        wanted = typed[0].type
    elif all(map(is_number, types)):
        wanted = _wider(list(types))
    elif all(pa.types.is_temporal(type_) for type_ in types):
        wanted = pa.timestamp("us")
    else:
        named = " and ".join(sorted(map(str, types)))
        raise ConfigError(f"{named} have no common type", hint="cast them: cast(x as string)")
    return [_in_type(value, wanted) for value in values]


def _in_type(value: Values, wanted: pa.DataType) -> Values:
    if wanted == pa.float64():
        return as_doubles(value)
    if not (pa.types.is_decimal128(value.type) and pa.types.is_decimal128(wanted)):
        return pc.cast(value, wanted)
    try:
        return rescaled(value, wanted)
    except pa.ArrowInvalid as reason:
        raise DecodeError(f"a number is out of the range of its type: {reason}") from reason


def _wider(types: Sequence[pa.DataType]) -> pa.DataType:
    if any(pa.types.is_floating(type_) for type_ in types):
        return pa.float64()
    decimals = [type_ for type_ in types if pa.types.is_decimal(type_)]
    if not decimals:
        return pa.int64()
    scale = max(type_.scale for type_ in decimals)
    # A BIGINT operand has up to 19 digits.
    digits = max([type_.precision - type_.scale for type_ in decimals] + [19] * (len(decimals) < len(types)))
    return pa.decimal128(min(38, digits + scale), scale)


_COMPARED: dict[str, Callable[[Values, Values], Values]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def operate(name: str, operands: Sequence[Values]) -> Values | None:
    """Return the operator's result; None when `name` is not an operator."""
    match name:
        case "and":
            # SQL's logic of three values: false AND null is false, true OR null is true.
            return pc.and_kleene(_truth(operands[0]), _truth(operands[1]))
        case "or":
            return pc.or_kleene(_truth(operands[0]), _truth(operands[1]))
        case "not":
            return pc.invert(_truth(operands[0]))
        case "is null":
            return pc.is_null(operands[0])
        case "is not null":
            return pc.is_valid(operands[0])
        case "in":
            pairs = (_COMPARED["="](*aligned(operands[0], candidate)) for candidate in operands[1:])
            found = next(pairs)
            for pair in pairs:
                # True if any is equal; null if none is equal and one of them is null.
                found = pc.or_kleene(found, pair)
            return found
        case "like":
            return like(texts(operands[0]), operands[1])
    if name in _COMPARED:
        return _COMPARED[name](*aligned(operands[0], operands[1]))
    return arithmetic(name, operands[0], operands[1]) if name in ARITHMETIC else None


def _truth(value: Values) -> Values:
    if pa.types.is_boolean(value.type) or pa.types.is_null(value.type):
        return pc.cast(value, pa.bool_())
    if pa.types.is_integer(value.type):
        return pc.not_equal(value, 0)
    raise ConfigError(
        f"a condition is needed, and this expression is {value.type}",
        hint="compare the value: x > 0, x = 'paid' or x is not null",
    )
