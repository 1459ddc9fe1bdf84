"""The keys of a lookup: values in the types of the table's columns, distinct keys, and the rows found for each."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.buffers import Ints
from penstock.table.values.sort_keys import sort_keys
from penstock.table.values.types import AtomicType, DataType, type_json

_DIGITS = Context(prec=76)  # of decimal256, which has all values of both sides of a comparison
_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_TEXTS = ("CHAR", "VARCHAR")
_BYTES = ("BINARY", "VARBINARY")


def in_type(values: pa.Array, type_: DataType, column: str, table: str) -> pa.Array:
    """Return the values in the type of a column; null where the column cannot have such a value."""
    arrow = to_arrow(type_)
    if values.type == arrow:
        return values
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), arrow)
    if not _comparable(values.type, type_):
        raise ConfigError(
            f"{values.type} cannot be compared with {column}, which is {type_json(type_)}",
            table=table,
            hint="cast the value in the projection",
        )
    # Unsafe casts, so that values that the column cannot have do not fail the batch: they become nulls.
    if pa.types.is_decimal(arrow):
        return _as_decimals(values, arrow)
    cast = pc.cast(values, arrow, safe=False)
    return pc.if_else(pc.equal(pc.cast(cast, values.type, safe=False), values), cast, pa.scalar(None, arrow))


def _as_decimals(values: pa.Array, type_: pa.Decimal128Type) -> pa.Array:
    """Return integers or decimals in a decimal type; null for numbers with more digits than the type."""
    scale = type_.scale
    wide = pa.decimal256(76, max(scale, values.type.scale if pa.types.is_decimal(values.type) else 0))
    exact = pc.cast(values, wide)
    largest = pa.scalar(Decimal(10**type_.precision - 1).scaleb(-scale, _DIGITS), wide)
    inside = pc.if_else(pc.less_equal(pc.abs(exact), largest), exact, pa.scalar(None, wide))
    cut = pc.cast(inside, pa.decimal256(76, scale), safe=False)
    kept = pc.if_else(pc.equal(pc.cast(cut, wide), inside), cut, pa.scalar(None, cut.type))
    return pc.cast(kept, type_)


def _comparable(key_type: pa.DataType, type_: DataType) -> bool:
    root = type_.root if isinstance(type_, AtomicType) else ""
    if root in _TEXTS:
        return bool(pa.types.is_string(key_type) or pa.types.is_large_string(key_type))
    if root in _BYTES:
        return bool(pa.types.is_binary(key_type) or pa.types.is_large_binary(key_type))
    if root in _INTEGERS:
        return bool(pa.types.is_integer(key_type))
    if root == "DECIMAL":
        return bool(pa.types.is_integer(key_type) or pa.types.is_decimal(key_type))
    if root.startswith("TIMESTAMP"):
        return bool(pa.types.is_timestamp(key_type))
    return False


def distinct_keys(columns: Sequence[pa.Array], types: Sequence[DataType]) -> tuple[list[pa.Array], Ints]:
    """Return the distinct keys in key order, and the number of each row's key among them; -1 for a key with a null."""
    if len(columns) == 1:
        return _distinct_values(columns[0])
    valid = np.ones(len(columns[0]), np.bool_)
    for column in columns:
        if column.null_count:
            valid &= column.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(valid)
    chosen = [column.take(pa.array(rows)) for column in columns] if len(rows) < len(valid) else list(columns)
    _, first, inverse = np.unique(sort_keys(chosen, types), return_index=True, return_inverse=True)
    codes = np.full(len(valid), -1, np.int64)
    codes[rows] = inverse
    return [column.take(pa.array(first)) for column in chosen], codes


def _distinct_values(column: pa.Array) -> tuple[list[pa.Array], Ints]:
    if pa.types.is_integer(column.type) and not column.null_count:
        return _distinct_numbers(column)
    encoded = pc.dictionary_encode(column)
    order = pc.sort_indices(encoded.dictionary).to_numpy().astype(np.int64)
    rank = np.empty(len(order) + 1, np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = -1  # the place that nulls point to
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return [encoded.dictionary.take(pa.array(order))], rank[codes]


def _distinct_numbers(column: pa.Array) -> tuple[list[pa.Array], Ints]:
    # One sort is a fifth of the work of a hash table and a sort of its keys, where most keys differ.
    values = column.to_numpy(zero_copy_only=False)
    order = np.argsort(values)
    ordered = values[order]
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    codes = np.empty(len(ordered), np.int64)
    codes[order] = np.cumsum(is_first) - 1
    return [pa.array(ordered[is_first], column.type)], codes


def rows_of_keys(codes: Ints, which: Ints, distinct: int) -> tuple[Ints, Ints]:
    """Return the number of the key and the place of the row, for each row that each key has.

    `which` are the numbers of the distinct keys of the rows, in any order.
    """
    counts = np.bincount(which, minlength=distinct) if distinct else np.zeros(0, np.int64)
    known = np.flatnonzero(codes >= 0)
    of_key = counts[codes[known]]
    numbers = np.repeat(known, of_key)
    if len(counts) == 0 or counts.max() <= 1:
        places = np.full(distinct, -1, np.int64)
        places[which] = np.arange(len(which))
        return numbers, places[codes[numbers]]
    starts = (np.cumsum(counts) - counts)[codes[known]]
    before = np.cumsum(of_key) - of_key
    ordered = np.repeat(starts - before, of_key) + np.arange(len(numbers))
    return numbers, np.argsort(which, kind="stable")[ordered]
