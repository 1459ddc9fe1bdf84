"""Integer ids for values of any type, including nested types: equal values get equal ids."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.table.merge.engine_rows import dense_ranks, valid_rows
from penstock.table.values.buffers import Ints, fixed_values
from penstock.table.values.sort_keys import sort_keys
from penstock.table.values.types import ArrayType, AtomicType, DataType, MapType, MultisetType, RowType


def identities(values: pa.Array, type_: DataType) -> Ints:
    """Return an id for each value. All nulls are equal, all NaNs are equal, 0.0 and -0.0 differ.

    The order of the ids has no meaning.
    """
    if len(values) == 0:
        return np.zeros(0, np.int64)
    found = _identities(values, type_)
    return np.where(valid_rows(values), found + 1, 0) if values.null_count else found


def _identities(values: pa.Array, type_: DataType) -> Ints:
    match type_:
        case RowType(fields):
            return combined([identities(values.field(i), member.type) for i, member in enumerate(fields)], len(values))
        case ArrayType(element):
            return _of_lists(values, identities(values.values, element), ordered=True)
        case MapType() | MultisetType():
            key, value = (type_.key, type_.value) if isinstance(type_, MapType) else (type_.element, AtomicType("INT"))
            entries = [identities(values.keys, key), identities(values.items, value)]
            return _of_lists(values, combined(entries, len(values.keys)), ordered=False)
        case AtomicType("VARIANT"):
            return combined([identities(values.field(i), AtomicType("VARBINARY")) for i in range(2)], len(values))
    return dense_ranks(sort_keys([values], [type_], signed_zero=True))


def combined(columns: list[Ints], rows: int) -> Ints:
    """Return ids of rows from the ids of their columns."""
    result = np.zeros(rows, np.int64)
    for column in columns:
        result = dense_ranks(result * (int(column.max(initial=0)) + 1) + column)
    return result


def _of_lists(values: pa.Array, ids: Ints, *, ordered: bool) -> Ints:
    """Return ids of lists from the ids of their elements. Nested lists are rare, so each costs a Python object."""
    offsets = fixed_values(values.offsets, np.int32)
    numbers: dict[bytes, int] = {}
    found = []
    for start, end in pairwise(offsets.tolist()):
        content = ids[start:end] if ordered else np.sort(ids[start:end])
        found.append(numbers.setdefault(content.tobytes(), len(numbers)))
    return np.array(found, np.int64)
