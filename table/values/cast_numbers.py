"""Casts between numbers with Java's arithmetic.

Integers wrap around, floats saturate, and decimals are rounded half up and become null on overflow.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.buffers import array_like, decimal_words, filled_values, fixed_values
from penstock.table.values.cast_rules import CastFailed
from penstock.table.values.types import AtomicType

DTYPES = {
    "BOOLEAN": np.uint8,
    "TINYINT": np.int8,
    "SMALLINT": np.int16,
    "INT": np.int32,
    "BIGINT": np.int64,
    "FLOAT": np.float32,
    "DOUBLE": np.float64,
}
_INTS = {"TINYINT", "SMALLINT", "INT", "BIGINT"}
_ROUNDING = Context(prec=120, rounding=ROUND_HALF_UP)


def cast_number(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    """Cast a column from one numeric type to another."""
    if target.root == "DECIMAL":
        return _to_decimal(array, source, target)
    if source.root == "DECIMAL":
        return _from_decimal(array, target)
    values = fixed_values(array, DTYPES[source.root])
    if target.root == "BOOLEAN":
        return array_like((values != 0).view(np.uint8), array, pa.uint8()).cast(pa.bool_())
    if target.root in _INTS and source.root in {"FLOAT", "DOUBLE"}:
        values = _saturated(np.asarray(values, np.float64), target)
    # A DOUBLE beyond the range of FLOAT becomes infinite, as in Java; numpy would warn.
    with np.errstate(over="ignore"):
        return array_like(values.astype(DTYPES[target.root]), array, to_arrow(target))


def _saturated(values: npt.NDArray[np.float64], target: AtomicType) -> npt.NDArray[np.int64]:
    """Return the values rounded toward zero and limited to the range of INT or BIGINT; NaN becomes 0.

    For narrower targets, the caller's cast wraps the result around, as Java's does.
    """
    bounds = np.iinfo(np.int64 if target.root == "BIGINT" else np.int32)
    # numpy does not define the conversion of values out of range, so only the others are converted. The greatest
    # BIGINT is no double: it is compared as 2^63, the double next to it.
    inside = (values > bounds.min) & (values < bounds.max)
    out = np.where(inside, values, 0).astype(np.int64)
    out[values >= bounds.max] = bounds.max
    out[values <= bounds.min] = bounds.min
    return out


def _to_decimal(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    if source.root in {"FLOAT", "DOUBLE"}:
        return _float_to_decimal(array.cast(pa.float64()), target)
    if source.root == "BOOLEAN":
        array = array.cast(pa.int8())
    scale = source.scale if source.root == "DECIMAL" else 0
    # 76 digits can represent any DECIMAL at any scale, so neither the change of scale nor the rounding overflows.
    wide = array.cast(pa.decimal256(38, scale)).cast(pa.decimal256(76, max(scale, target.scale)))
    if target.scale < scale:
        wide = pc.round(wide, target.scale, "half_towards_infinity")
    # The check follows the rounding: 99.95 as DECIMAL(3, 1) is 100.0 and overflows.
    limit = pa.scalar(Decimal(10) ** (target.precision - target.scale), wide.type)
    fits = pc.less(pc.abs(wide), limit)
    return pc.if_else(fits, wide, pa.scalar(None, wide.type)).cast(to_arrow(target))


def _float_to_decimal(array: pa.Array, target: AtomicType) -> pa.Array:
    # Java goes through the shortest text of a float, here a Python object: each distinct value is converted once.
    encoded = array.dictionary_encode()
    values = [_rounded(value, target) for value in encoded.dictionary.to_pylist()]
    return pa.array(values, to_arrow(target)).take(encoded.indices)


def decimals_of_floats(column: pa.Array, arrow: pa.Decimal128Type) -> pa.Array:
    """Return floating-point numbers as decimals that are rounded half up, as in Java and DuckDB.

    ArrowInvalid for a number that is too large, NaN and the infinities.
    """
    doubles = column.cast(pa.float64())
    cast = doubles.cast(arrow)
    # Arrow rounds half to even, takes 0.35 for less than a half, and shows the binary digits behind those of the
    # shortest text. It is right for all but the numbers near a half and those with 15 digits or more.
    scaled = np.abs(np.asarray(filled_values(doubles, np.float64), np.float64)) * 10.0**arrow.scale
    near = (scaled >= 2.0**49) | (np.abs(scaled - np.floor(scaled) - 0.5) <= scaled * 2.0**-50)
    if not near.any():
        return cast
    # Of these, no shortest text has more than 18 digits behind the last one that is kept.
    texts = doubles.filter(pa.array(near)).cast(pa.string())
    exact = texts.cast(pa.decimal256(76, arrow.scale + 18))
    return pc.replace_with_mask(cast, pa.array(near), pc.round(exact, arrow.scale, "half_towards_infinity").cast(arrow))


def floats_of_decimals(decimals: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Return decimals as the closest floating-point numbers, as Java does; Arrow's own may be the next ones to them."""
    # Casting through text rounds each value once, from all its digits.
    return pc.cast(pc.cast(decimals, pa.string()), arrow)


def _rounded(value: float, target: AtomicType) -> Decimal | None:
    exact = Decimal(repr(value))
    if not exact.is_finite():
        raise CastFailed(f"{value} is not a DECIMAL", value=value)
    return rounded_decimal(exact, target)


def rounded_decimal(value: Decimal, target: AtomicType) -> Decimal | None:
    """Return the value rounded half up to the target's scale, or None when the result exceeds its precision."""
    # A DECIMAL has at most 38 digits: larger values overflow, and much smaller ones are zero at any scale. Both
    # limits keep the result of quantize within the digits of its context, beyond which it raises an error.
    if value and value.adjusted() >= 40:
        return None
    # Zero with a large exponent, such as 0E50, is zero.
    if not value or value.adjusted() < -60:
        value = Decimal(0)
    result = value.quantize(Decimal(1).scaleb(-target.scale), context=_ROUNDING)
    return result if result == 0 or result.adjusted() < target.precision - target.scale else None


def _from_decimal(array: pa.Array, target: AtomicType) -> pa.Array:
    if target.root in {"FLOAT", "DOUBLE"}:
        return floats_of_decimals(array, to_arrow(target))
    # Only the low 64 bits of the integer are converted, so that integers out of range wrap around.
    whole = pc.trunc(array.cast(pa.decimal256(76, array.type.scale))).cast(pa.decimal256(76, 0)).cast(pa.decimal128(38))
    return array_like(decimal_words(whole)[0].astype(DTYPES[target.root]), array, to_arrow(target))
