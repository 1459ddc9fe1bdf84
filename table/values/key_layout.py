"""The layout of sort keys: how many bytes each column of a key takes, and whether one integer can represent it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.buffers import one_array
from penstock.table.values.row_codec import is_wide_decimal
from penstock.table.values.types import AtomicType, DataType

# In bytes. A DECIMAL of more than 18 digits has 16 bytes instead.
WIDTHS = dict.fromkeys(("BIGINT", "DOUBLE", "TIMESTAMP", "TIMESTAMP_LTZ", "DECIMAL"), 8)
WIDTHS |= {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "DATE": 4, "TIME": 4, "FLOAT": 4}
TEXTS = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """The encoding of one column within a key.

    `width` is the length of the longest text, and `uniform` is set when all texts have that length.
    """

    type: AtomicType
    descending: bool
    nullable: bool
    width: int
    uniform: bool

    @property
    def is_text(self) -> bool:
        return self.type.root in TEXTS

    @property
    def length_bytes(self) -> int:
        # With zero padding alone, "a" and "a\0" would be equal.
        return 0 if self.uniform or not self.is_text else 2 if self.width < 1 << 16 else 4

    @property
    def size(self) -> int:
        return self.nullable + self.width + self.length_bytes

    def joined(self, other: ColumnLayout) -> ColumnLayout:
        uniform = self.uniform and other.uniform and self.width == other.width
        nullable, width = self.nullable or other.nullable, max(self.width, other.width)
        return ColumnLayout(self.type, self.descending, nullable, width, uniform)


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """The encoding of keys; arrays of keys with the same layout are comparable.

    With `signed_zero`, -0.0 sorts before 0.0; without it the two are equal, as they are in keys.
    """

    columns: tuple[ColumnLayout, ...]
    signed_zero: bool = False

    @property
    def size(self) -> int:
        # numpy has no byte strings of length 0, which a key of only empty texts would need.
        return max(1, sum(column.size for column in self.columns))

    @property
    def one_integer(self) -> bool:
        """Return whether the key fits into an int64 as a single integer-like column.

        If the column contains nulls, one value of the int64 must be free to represent null.
        """
        if len(self.columns) != 1:
            return False
        column = self.columns[0]
        if column.is_text or column.type.root in {"FLOAT", "DOUBLE"} or is_wide_decimal(column.type):
            return False
        # 18 digits never reach the smallest int64, so a DECIMAL of 8 bytes leaves it free. BIGINT and timestamps may
        # reach it.
        return not column.nullable or column.width < 8 or column.type.root == "DECIMAL"

    def joined(self, other: KeyLayout) -> KeyLayout:
        """Return a layout that can represent the keys of both layouts."""
        pairs = zip(self.columns, other.columns, strict=True)
        return KeyLayout(tuple(mine.joined(theirs) for mine, theirs in pairs), self.signed_zero)


def key_layout(
    columns: Sequence[pa.Array],
    types: Sequence[DataType],
    descending: Sequence[bool] = (),
    *,
    signed_zero: bool = False,
) -> KeyLayout:
    """Return the narrowest layout for these columns. Joined with the layout of another input, it fits both inputs."""
    flags = tuple(descending) or (False,) * len(types)
    parts = zip(columns, types, flags, strict=True)
    return KeyLayout(
        tuple(_column_layout(column, type_, descending=flag) for column, type_, flag in parts), signed_zero
    )


def _column_layout(column: pa.Array, type_: DataType, *, descending: bool) -> ColumnLayout:
    if not isinstance(type_, AtomicType) or type_.root == "VARIANT":
        raise ConfigError(
            f"{type_} has no order: it cannot be a key or a sequence field", hint="name a column of another type"
        )
    nullable = column.null_count > 0
    if type_.root not in TEXTS:
        width = 16 if is_wide_decimal(type_) else WIDTHS[type_.root]
        return ColumnLayout(type_, descending, nullable, width, uniform=True)
    bounds = pc.min_max(pc.binary_length(one_array(column, to_arrow(type_))))
    low, high = bounds["min"].as_py() or 0, bounds["max"].as_py() or 0
    # A null is written as an empty text, so a column with nulls has texts of two lengths.
    return ColumnLayout(type_, descending, nullable, high, uniform=low == high and not nullable)
