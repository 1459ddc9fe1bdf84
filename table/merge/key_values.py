"""Keys as Python values that compare in the table's order, for the few keys that decide where to cut or to search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.table.values.binary_row import decode_row
from penstock.table.values.internal import OrderValue, internal_values, order_values
from penstock.table.values.types import DataType

KeyValue: TypeAlias = tuple[OrderValue, ...]


def key_value(row: bytes, types: Sequence[DataType]) -> KeyValue:
    """Return a key that is stored in a manifest."""
    return order_values(decode_row(row, types), types)


class KeyRows(Sequence[KeyValue]):
    """The keys of many rows, decoded only where a search reads them."""

    def __init__(self, columns: Sequence[pa.Array], types: Sequence[DataType]) -> None:
        self._columns, self._types = columns, types

    def __len__(self) -> int:
        return len(self._columns[0])

    def __getitem__(self, row: Any) -> Any:
        row = row if row >= 0 else row + len(self)
        cells = zip(self._columns, self._types, strict=True)
        return order_values([internal_values(column.slice(row, 1), type_)[0] for column, type_ in cells], self._types)
