"""sum, product, bool_and and bool_or, computed on whole columns, with Java's overflow behaviour."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.table.merge.aggregates.decimals import decimal_product, decimal_sum
from penstock.table.merge.aggregates.function import Inputs
from penstock.table.merge.incoming_kinds import RetractRefused
from penstock.table.values.buffers import Flags, Ints, filled_values

Numbers = np.ndarray[Any, Any]


def total(inputs: Inputs) -> pa.Array:
    """Return the sum of each key. Retracted rows are subtracted, even if nothing was added before."""
    values = inputs.values()
    if pa.types.is_decimal(values.type):
        return decimal_sum(inputs, values)
    counted = (inputs.adds | inputs.retracts) & inputs.valid()
    numbers: Numbers = filled_values(values, values.type.to_pandas_dtype())
    signed = np.where(inputs.retracts, -numbers, numbers)
    starts = inputs.work.starts
    if pa.types.is_integer(values.type):
        sums = np.add.reduceat(np.where(counted, signed, 0), starts, dtype=numbers.dtype)
    else:
        sums = _float_sums(signed, counted, _key_of_row(inputs), len(starts))
    return pa.array(sums, values.type, mask=~inputs.any_of(counted))


def _float_sums(signed: Numbers, counted: Flags, key: Ints, keys: int) -> Numbers:
    """Return sums built by one addition after the other, as in Java: pairwise summation rounds differently."""
    sums: Numbers = np.zeros(keys, signed.dtype)
    if signed.dtype == np.float64:
        sums[:] = np.bincount(key[counted], weights=signed[counted], minlength=keys)
    else:
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
    factors = np.where(counted, numbers, numbers.dtype.type(1))
    if pa.types.is_integer(values.type):
        products = np.multiply.reduceat(factors, starts, dtype=numbers.dtype)
    else:
        products = np.ones(len(starts), numbers.dtype)
        np.multiply.at(products, _key_of_row(inputs), factors)
    taken_back = inputs.retracts & valid
    for key in np.flatnonzero(inputs.any_of(taken_back)):
        rows = np.arange(starts[key], inputs.work.ends[key])
        products[key] = _divided(numbers, rows, counted, taken_back, inputs.name)
    return pa.array(products, values.type, mask=~inputs.any_of(counted))


def _divided(numbers: Numbers, rows: Ints, counted: Flags, taken_back: Flags, column: str) -> Any:
    """Return the product of a key with retracted rows: the order matters, and integers divide toward zero."""
    result = None
    for row in rows:
        if not (counted[row] or taken_back[row]):
            continue
        if result is None:
            result = numbers[row] if counted[row] else None  # nothing to retract from
        elif counted[row]:
            with np.errstate(over="ignore"):
                result = result * numbers[row]
        else:
            result = _quotient(result, numbers[row], column)
    return 0 if result is None else result


def _quotient(dividend: Any, divisor: Any, column: str) -> Any:
    if isinstance(dividend, np.floating):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return dividend / divisor
    if divisor == 0:
        raise RetractRefused("a product cannot retract a factor of zero", column=column)
    quotient = abs(int(dividend)) // abs(int(divisor))
    signed = quotient if (dividend < 0) == (divisor < 0) else -quotient
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


def _key_of_row(inputs: Inputs) -> Ints:
    return np.asarray(inputs.work.per_row(np.arange(len(inputs.work.starts))), np.int64)
