"""sum, product, bool_and and bool_or, computed on whole columns, with Java's overflow behaviour.

Decimals are added and multiplied exactly, on the 64-bit words of Arrow's buffers.
"""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.table.merge.aggregates.function import Inputs
from penstock.table.merge.incoming_kinds import RetractRefused
from penstock.table.values.buffers import Flags, Ints, Words, decimal_words, filled_values

_LOW = np.uint64(0xFFFFFFFF)
_EXACT = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)
_QUOTIENT = decimal.Context(prec=38, rounding=decimal.ROUND_HALF_UP)


def decimal_sum(inputs: Inputs, values: pa.Array) -> pa.Array:
    """Return the sum of each key.

    Where a sum exceeds the type it becomes null, and the next row starts a new sum.

    Java does so for types of more than 18 digits. For others it keeps a sum of up to 64 bits, which Arrow and Parquet
    cannot hold in a column of this type, and which Java itself reads from some files as null, or with other digits.
    """
    counted = (inputs.adds | inputs.retracts) & inputs.valid()
    words = np.stack([half.view(np.uint64) for half in decimal_words(values)], axis=1)
    words[~counted | _cancelled(inputs)] = 0
    limit = 10**values.type.precision
    result = _sums(words, inputs)
    present = inputs.any_of(counted)
    # Near the limit the sum is repeated row by row: the result depends on the row at which it overflows.
    for key in np.flatnonzero(_may_overflow(words, inputs, limit)):
        rows = range(int(inputs.work.starts[key]), int(inputs.work.ends[key]))
        sum_ = _sum_one(words, [row for row in rows if counted[row]], inputs.retracts, limit)
        present[key] = sum_ is not None
        result[key] = _words_of(sum_ or 0)
    return decimal_array(result, present, values.type)


def decimal_array(words: Words, present: Flags, type_: pa.DataType) -> pa.Array:
    """Return 128-bit words as an array of decimals."""
    # The values of a boolean array are a bitmap with the same layout as a validity bitmap.
    validity = pa.array(present).buffers()[1]
    return pa.Array.from_buffers(type_, len(words), [validity, pa.py_buffer(np.ascontiguousarray(words))])


def _sums(words: Words, inputs: Inputs) -> Words:
    """Return 128-bit sums computed in four limbs of 32 bits, exact up to 2**31 rows per key."""
    sign = np.where(inputs.retracts, -1, 1)
    low, high = words[:, 0], words[:, 1]
    # The three lower limbs are not negative. The highest one is shifted arithmetically and keeps the sign.
    limbs = [(low & _LOW).view(np.int64), (low >> np.uint64(32)).view(np.int64)]
    limbs += [(high & _LOW).view(np.int64), high.view(np.int64) >> 32]
    sums = [np.add.reduceat(limb * sign, inputs.work.starts) for limb in limbs]
    for i in range(3):
        # The carry of a negative limb is a borrow, because an arithmetic shift rounds down.
        sums[i + 1] = sums[i + 1] + (sums[i] >> 32)
    parts = [part.view(np.uint64) & _LOW for part in sums]
    return np.stack([parts[0] | parts[1] << np.uint64(32), parts[2] | parts[3] << np.uint64(32)], axis=1)


def _may_overflow(words: Words, inputs: Inputs, limit: int) -> Flags:
    # In floating point, with a margin for rounding: a key too many only costs time.
    sizes = np.abs(words[:, 1].view(np.int64).astype(np.float64) * 2.0**64 + words[:, 0].astype(np.float64))
    return np.asarray(np.add.reduceat(sizes, inputs.work.starts) >= 0.999 * limit)


def _sum_one(words: Words, rows: list[int], retracts: Flags, limit: int) -> int | None:
    sum_: int | None = None
    for row in rows:
        value = -_integer(words, row) if retracts[row] else _integer(words, row)
        sum_ = value if sum_ is None else sum_ + value
        if not -limit < sum_ < limit:
            sum_ = None
    return sum_


def _integer(words: Words, row: int) -> int:
    return int(words[row, 0]) | int(words[row, 1].view(np.int64)) << 64


def _words_of(value: int) -> tuple[int, int]:
    return value & (1 << 64) - 1, value >> 64 & (1 << 64) - 1


def decimal_product(inputs: Inputs, values: pa.Array) -> pa.Array:
    """Return the product of each key, key by key: each step is rounded to the column's scale, as in Java."""
    type_, valid = values.type, inputs.valid()
    results: list[decimal.Decimal | None] = []
    for start, end in zip(inputs.work.starts.tolist(), inputs.work.ends.tolist(), strict=True):
        result: decimal.Decimal | None = None
        for row in range(start, end):
            if valid[row] and (inputs.adds[row] or inputs.retracts[row]):
                value = values[row].as_py()
                if inputs.adds[row]:
                    result = value if result is None else _step(result, value, np.False_, type_)
                # A retract before the first value has nothing to divide.
                if inputs.retracts[row] and result is not None:
                    result = _step(result, value, np.True_, type_)
        results.append(result)
    return pa.array(results, type_)


def _step(
    result: decimal.Decimal, value: decimal.Decimal, divides: np.bool_, type_: pa.DataType
) -> decimal.Decimal | None:
    exact = _QUOTIENT.divide(result, value) if divides else _EXACT.multiply(result, value)
    rounded = _EXACT.quantize(exact, decimal.Decimal(1).scaleb(-type_.scale))
    return rounded if len(rounded.as_tuple().digits) <= type_.precision else None


Numbers = np.ndarray[Any, Any]


def total(inputs: Inputs) -> pa.Array:
    """Return the sum of each key. Retracted rows are subtracted, even if nothing was added before."""
    values = inputs.values()
    if pa.types.is_decimal(values.type):
        return decimal_sum(inputs, values)
    counted = (inputs.adds | inputs.retracts) & inputs.valid()
    numbers: Numbers = filled_values(values, values.type.to_pandas_dtype())
    signed = np.where(inputs.retracts, -numbers, numbers)
    with np.errstate(invalid="ignore"):  # infinity minus infinity is NaN, as in Java
        np.subtract(numbers, numbers, out=signed, where=_cancelled(inputs))
    starts = inputs.work.starts
    if pa.types.is_integer(values.type):
        # Wraps around on overflow, as Java's integers do.
        sums = np.add.reduceat(np.where(counted, signed, 0), starts, dtype=numbers.dtype)
    else:
        sums = _float_sums(signed, counted, _key_of_row(inputs), len(starts))
    return pa.array(sums, values.type, mask=~inputs.any_of(counted))


def _float_sums(signed: Numbers, counted: Flags, key: Ints, keys: int) -> Numbers:
    """Return sums built by one addition after the other, as in Java: pairwise summation rounds differently."""
    sums: Numbers = np.zeros(keys, signed.dtype)
    # Both add in the order of the rows. bincount is faster but only has doubles; a FLOAT column rounds after every
    # step.
    if signed.dtype == np.float64:
        sums[:] = np.bincount(key[counted], weights=signed[counted], minlength=keys)
    else:
        with np.errstate(over="ignore", invalid="ignore"):  # as in Java, a sum that is too large is infinite
            np.add.at(sums, key[counted], signed[counted])
    zero = sums == 0
    if zero.any():
        # Sums start from 0.0 here and from the first value in Java; only the latter can result in -0.0.
        other = counted & ~((signed == 0) & np.signbit(signed))
        sums[zero & (np.bincount(key[other], minlength=keys) == 0)] = -0.0
    return sums


def product(inputs: Inputs) -> pa.Array:
    """Return the product of each key. Retracted rows divide it."""
    values = inputs.values()
    if pa.types.is_decimal(values.type):
        return decimal_product(inputs, values)
    valid = inputs.valid()
    counted = inputs.adds & valid
    numbers: Numbers = filled_values(values, values.type.to_pandas_dtype())
    starts = inputs.work.starts
    # Rows that do not count get the factor one.
    factors = np.where(counted, numbers, numbers.dtype.type(1))
    if pa.types.is_integer(values.type):
        products = np.multiply.reduceat(factors, starts, dtype=numbers.dtype)
    else:
        products = np.ones(len(starts), numbers.dtype)
        with np.errstate(over="ignore", invalid="ignore"):  # as in Java, a product that is too large is infinite
            np.multiply.at(products, _key_of_row(inputs), factors)
    retracted = inputs.retracts & valid
    for key in np.flatnonzero(inputs.any_of(retracted)):
        rows = np.arange(starts[key], inputs.work.ends[key])
        products[key] = _divided(numbers, rows, counted, retracted, inputs.name)
    return pa.array(products, values.type, mask=~inputs.any_of(counted))


def _divided(numbers: Numbers, rows: Ints, counted: Flags, retracted: Flags, column: str) -> Any:
    """Return the product of a key with retracted rows: the order matters, and integers divide toward zero."""
    result = None
    for row in rows:
        if counted[row]:
            with np.errstate(over="ignore", invalid="ignore"):
                result = numbers[row] if result is None else result * numbers[row]
        # A retract before the first value has nothing to divide.
        if retracted[row] and result is not None:
            result = _quotient(result, numbers[row], column)
    return 0 if result is None else result


def _quotient(dividend: Any, divisor: Any, column: str) -> Any:
    if isinstance(dividend, np.floating):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return dividend / divisor
    if divisor == 0:
        raise RetractRefused(
            "a product cannot retract a factor of zero",
            column=column,
            hint=f"set  fields.{column}.ignore-retract = true , or use another aggregate function",
        )
    # Python rounds a quotient down, Java toward zero, so the division is one of absolute values.
    quotient = abs(int(dividend)) // abs(int(divisor))
    signed = quotient if (dividend < 0) == (divisor < 0) else -quotient
    # The least integer divided by -1 does not fit. The cast wraps around, as Java does; a scalar of numpy would
    # raise.
    return np.array(signed).astype(dividend.dtype)[()]


def every(inputs: Inputs) -> pa.Array:
    """Return for each key whether all values are true."""
    counted = inputs.valid_adds()
    truths = _truths(inputs.values())
    return pa.array(np.logical_and.reduceat(truths | ~counted, inputs.work.starts), mask=~inputs.any_of(counted))


def some(inputs: Inputs) -> pa.Array:
    """Return for each key whether any value is true."""
    counted = inputs.valid_adds()
    truths = _truths(inputs.values())
    return pa.array(np.logical_or.reduceat(truths & counted, inputs.work.starts), mask=~inputs.any_of(counted))


def _truths(values: pa.Array) -> Flags:
    return np.asarray(filled_values(values, np.uint8)).view(np.bool_)


def _cancelled(inputs: Inputs) -> Flags:
    """Return the rows that retract the value with which they let their key start."""
    return inputs.adds & inputs.retracts


def _key_of_row(inputs: Inputs) -> Ints:
    return np.asarray(inputs.work.per_row(np.arange(len(inputs.work.starts))), np.int64)
