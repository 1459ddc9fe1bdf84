"""Arithmetic on whole columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError, DecodeError
from penstock.table.values.arrow_types import is_number
from penstock.table.values.cast_numbers import floats_of_decimals

Values = Any  # an Arrow array, or a scalar when the expression is constant

# `whole /` is the division of Flink CDC: of two integers it is an integer.
ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "whole /"})


def arithmetic(sign: str, left: Values, right: Values) -> Values:
    """Add, subtract, multiply or divide.

    Whole numbers stay whole and must not overflow; decimals stay decimals; with a double operand both become doubles.
    """
    if sign in {"/", "%"}:
        return remainder(left, right) if sign == "%" else _divided(left, right)
    if sign == "whole /":
        return _divided_whole(left, right)
    # The sum of two SMALLINT values need not be one.
    left, right = (
        pc.cast(values, pa.int64()) if pa.types.is_integer(values.type) else values for values in (left, right)
    )
    if not all(is_number(values.type) or pa.types.is_null(values.type) for values in (left, right)):
        raise ConfigError(f"{left.type} {sign} {right.type} cannot be computed", hint="cast strings to numbers first")
    operation = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}[sign]
    if any(pa.types.is_decimal(values.type) for values in (left, right)):
        if not any(pa.types.is_floating(values.type) for values in (left, right)):
            return _decimal(sign, operation, left, right)
        left, right = as_doubles(left), as_doubles(right)
    try:
        return operation(left, right)
    except pa.ArrowInvalid as reason:
        raise DecodeError(f"a number is out of the range of its type: {reason}") from reason


def _decimal(sign: str, operation: Callable[[Values, Values], Values], left: Values, right: Values) -> Values:
    """Return the exact result. Its type has at most 38 digits, also where the types of the operands allow for more."""
    try:
        return operation(left, right)
    except pa.ArrowInvalid:  # of the types: Arrow gives a result enough digits for all values
        pass
    try:
        result = operation(_with_76_digits(left), _with_76_digits(right))
        narrow = pa.decimal128(38, result.type.scale)
    except (pa.ArrowInvalid, ValueError) as reason:
        raise ConfigError(
            f"{left.type} {sign} {right.type} would need more than 38 digits",
            hint="cast one of them to fewer digits: cast(x as decimal(18, 2))",
        ) from reason
    try:
        return pc.cast(result, narrow)
    except pa.ArrowInvalid as reason:
        raise DecodeError(f"a number is out of the range of its type: {reason}") from reason


def _with_76_digits(value: Values) -> Values:
    if pa.types.is_null(value.type):
        return value
    precision, scale = (value.type.precision, value.type.scale) if pa.types.is_decimal(value.type) else (19, 0)
    return pc.cast(value, pa.decimal256(precision, scale))


def _divided(left: Values, right: Values) -> Values:
    """Return the quotient as a double; null for a divisor of 0."""
    return pc.divide(*_doubles(left, right))


def remainder(left: Values, right: Values) -> Values:
    """Return the remainder, which has the sign of the left operand; null for a divisor of 0."""
    if _are_integers(left, right):
        # The remainder of both is 0, but the least BIGINT divided by -1 is out of range.
        right = pc.if_else(pc.equal(right, -1), pa.scalar(1, right.type), right)
        return pc.subtract(pc.cast(left, pa.int64()), pc.multiply(_divided_whole(left, right), right))
    left, right = _doubles(left, right)
    return pc.subtract(left, pc.multiply(pc.trunc(pc.divide(left, right)), right))


def _doubles(left: Values, right: Values) -> tuple[Values, Values]:
    return as_doubles(left), as_doubles(_null_for_0(right))


def as_doubles(value: Values) -> Values:
    """Return numbers as doubles."""
    if pa.types.is_decimal(value.type):
        return floats_of_decimals(value, pa.float64())
    return pc.cast(value, pa.float64())


def _divided_whole(left: Values, right: Values) -> Values:
    """Return an integer for two integers, without the fraction; else a double."""
    if not _are_integers(left, right):
        return _divided(left, right)
    try:
        # Arrow divides integers towards zero.
        return pc.divide_checked(pc.cast(left, pa.int64()), pc.cast(_null_for_0(right), pa.int64()))
    except pa.ArrowInvalid as reason:
        raise DecodeError(f"a number is out of the range of its type: {reason}") from reason


def _are_integers(left: Values, right: Values) -> bool:
    return bool(pa.types.is_integer(left.type) and pa.types.is_integer(right.type))


def _null_for_0(divisor: Values) -> Values:
    """Return the divisor with null for 0: Arrow raises an error for integers and returns infinity for doubles."""
    return pc.if_else(pc.equal(divisor, pa.scalar(0, divisor.type)), pa.scalar(None, divisor.type), divisor)
