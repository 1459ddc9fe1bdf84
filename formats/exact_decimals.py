"""Casts to decimals that fail for numbers that do not fit.

Arrow's own casts check that a result fits the type, but not that it fits the 38 digits of a decimal128: a number that
has more digits after it was padded for a larger scale silently becomes another number.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_DIGITS, _WIDE_DIGITS = 38, 76


def decimals_of_texts(texts: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Return plain texts, without exponents, as decimals.

    ArrowInvalid for a text that is no number, does not fit, or is too long for this function.
    """
    digits = (pc.max(pc.binary_length(texts)).as_py() or 0) + kind.scale
    if digits <= _DIGITS:
        return texts.cast(kind)
    if digits > _WIDE_DIGITS:
        raise pa.ArrowInvalid(f"a text is too long for a number with {kind.scale} digits after its point")
    return texts.cast(pa.decimal256(_WIDE_DIGITS, kind.scale)).cast(kind)


def rescaled(values: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Return decimals in another type; ArrowInvalid for one that does not fit."""
    given = values.type
    if given.precision + max(kind.scale - given.scale, 0) <= _DIGITS:
        return values.cast(kind)
    # In two steps: a change of both the width and the scale is made in the narrower type.
    wide = values.cast(pa.decimal256(_WIDE_DIGITS, given.scale)).cast(pa.decimal256(_WIDE_DIGITS, kind.scale))
    return wide.cast(kind)


def apart(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, pa.Array] | None:
    """Return the floating-point numbers that fit a decimal type, and those that do not, each with nulls for the others.

    None for other types, and if all fit or none does. Arrow casts all or none, and casts a number to other digits than
    its text has, so the numbers that do not fit must not decide how others are cast.
    """
    if not (pa.types.is_floating(values.type) and pa.types.is_decimal(kind)):
        return None
    size, limit = pc.abs(pc.cast(values, pa.float64())), 10.0 ** (kind.precision - kind.scale)
    # A number that is too large to be rounded would be an error.
    rounded = pc.round(pc.if_else(pc.less(size, limit), size, limit), kind.scale)
    fit = pc.less(rounded, limit)
    if pc.all(fit).as_py() or not pc.any(fit).as_py():
        return None
    return pc.if_else(fit, values, None), pc.if_else(fit, None, values)
