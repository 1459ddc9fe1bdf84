"""The layout and types of a table's rows in the binlog: the table map, completed by the tracked definition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.ingest.mysql.binlog import table_map as kinds
from penstock.ingest.mysql.binlog.mapped_types import FRACTIONAL, INTEGERS, agrees, mapped_column
from penstock.ingest.mysql.binlog.row_layout import RowImageLayout
from penstock.ingest.mysql.definition import (
    NETWORK_BYTES,
    MySqlColumn,
    TableDefinition,
    schema_of,
)
from penstock.ingest.mysql.errors import SchemaHistoryMismatch
from penstock.ingest.mysql.server.charsets import CHARSETS, charset_named
from penstock.ingest.mysql.values.decimals import packed_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.formats.change import SourceSchema
    from penstock.ingest.mysql.binlog.table_map import MappedColumn, TableMap
    from penstock.ingest.mysql.server.charsets import Charset

# Bytes of a cell of these types, which do not depend on metadata.
_WIDTHS = {
    kinds.TINY: 1,
    kinds.SHORT: 2,
    kinds.INT24: 3,
    kinds.LONG: 4,
    kinds.LONGLONG: 8,
    kinds.FLOAT: 4,
    kinds.DOUBLE: 8,
    kinds.YEAR: 1,
    kinds.DATE: 3,
    kinds.NEWDATE: 3,
    kinds.TIME: 3,
    kinds.DATETIME: 8,
    kinds.TIMESTAMP: 4,
    kinds.NULL: 0,
}
_LABELLED = frozenset({kinds.ENUM, kinds.SET})
# Character sets whose labels are read rightly without their collation.
_LOGGED_AS_UTF8 = frozenset({None, "ascii", "utf8", "utf8mb3", "utf8mb4"})
_PREFIXED = frozenset({kinds.BLOB, kinds.BLOB_COMPRESSED, kinds.GEOMETRY, kinds.JSON, kinds.VECTOR})


@dataclass(frozen=True, slots=True)
class BinlogColumn:
    """A column with its storage in the binlog: `column` is its type, the other fields how it is stored.

    `charset` is None for types without characters.
    """

    column: MySqlColumn
    kind: int
    size: int
    scale: int
    charset: Charset | None

    @property
    def width(self) -> int:
        """The bytes of a cell, or minus the bytes of its length prefix."""
        if self.kind in _WIDTHS:
            return _WIDTHS[self.kind]
        if self.kind in FRACTIONAL:
            return FRACTIONAL[self.kind][1] + (self.size + 1) // 2
        if self.kind == kinds.NEWDECIMAL:
            return packed_size(self.size, self.scale)
        if self.kind in _PREFIXED:
            return -self.size
        if self.kind in _LABELLED:
            return self.size
        if self.kind == kinds.BIT:
            return (self.size + 7) // 8
        # The prefix has two bytes if the declared length in bytes does not fit into one, even for a short value.
        return -1 if self.size <= 255 else -2


@dataclass(frozen=True, slots=True)
class BinlogTable:
    """A table at one position of the binlog."""

    definition: TableDefinition
    columns: tuple[BinlogColumn, ...]

    @property
    def schema(self) -> SourceSchema:
        return schema_of(self.definition)

    def present(self, bitmap: bytes) -> list[int]:
        """Return the columns that images with this bitmap contain."""
        return [place for place in range(len(self.columns)) if bitmap[place // 8] >> place % 8 & 1]

    def layout(self, present: Sequence[int]) -> RowImageLayout:
        return RowImageLayout(tuple(self.columns[place].width for place in present))


def shape_of(mapped: TableMap, definition: TableDefinition | None) -> BinlogTable:
    """Return the shape of the table in a map, with names from the map or from the definition tracked for this position.

    A definition that contradicts the map raises `SchemaHistoryMismatch` if its names are needed, and is ignored if it
    would only have added details (TINYINT(1), comments).
    """
    if mapped.has_names and mapped.columns:
        return _from_map(mapped, definition)
    if definition is None:
        raise SchemaHistoryMismatch(
            "the binlog contains no column names, and the definition of this table is unknown",
            table=".".join(mapped.name),
            hint="SET PERSIST binlog_row_metadata = FULL on the server, or read the table again (--resnapshot)",
        )
    if len(definition.columns) != len(mapped.columns):
        raise _mismatch(mapped, definition)
    columns = tuple(
        _completed(mapped_column(logged), logged, column)
        for logged, column in zip(mapped.columns, definition.columns, strict=True)
    )
    if not all(agrees(logged, shaped.column.type) for logged, shaped in zip(mapped.columns, columns, strict=True)):
        raise _mismatch(mapped, definition)
    whole = replace(definition, database=mapped.database, table=mapped.table)
    return BinlogTable(replace(whole, columns=tuple(shaped.column for shaped in columns)), columns)


def _mismatch(mapped: TableMap, definition: TableDefinition) -> SchemaHistoryMismatch:
    return SchemaHistoryMismatch(
        "the columns in the binlog do not match the tracked definition of the table",
        table=".".join(mapped.name),
        in_the_log=", ".join(_storage(column) for column in mapped.columns),
        tracked=", ".join(f"{column.name} {column.type}" for column in definition.columns),
        hint="a DDL statement was missed: read the tables again (--resnapshot)",
    )


def _storage(column: MappedColumn) -> str:
    return str(mapped_column(column).type)


def _from_map(mapped: TableMap, definition: TableDefinition | None) -> BinlogTable:
    columns = []
    for logged in mapped.columns:
        known = definition.column(logged.name or "") if definition else None
        columns.append(_detailed(mapped_column(logged), logged, known))
    names = [shaped.column.name for shaped in columns]
    if mapped.primary_key is not None:
        key = tuple(names[place] for place in mapped.primary_key)
    else:
        key = definition.primary_key if definition else ()
    comment = definition.comment if definition else None
    whole = TableDefinition(mapped.database, mapped.table, tuple(shaped.column for shaped in columns), key, comment)
    return BinlogTable(whole, tuple(columns))


def _detailed(column: MySqlColumn, logged: MappedColumn, known: MySqlColumn | None) -> BinlogColumn:
    """Return the column of the map, with missing details from a definition that does not contradict it."""
    if known is not None and agrees(logged, known.type) and column.type.unsigned == known.type.unsigned:
        column = replace(column, comment=known.comment)
        # The log stores these as plain bytes or integers, so only the definition knows them.
        is_ambiguous = known.type.base in {*NETWORK_BYTES, "vector"} or (known.type.base, known.type.size) == (
            "tinyint",
            1,
        )
        if is_ambiguous:
            column = replace(column, type=known.type, charset=None)
        if logged.kind in _LABELLED and logged.collation is None and known.charset not in _LOGGED_AS_UTF8:
            return _shaped(replace(column, type=known.type), logged)
    if logged.kind in _LABELLED and logged.labels is None:
        raise SchemaHistoryMismatch(
            "the binlog lacks the character set of labels, and the definition of this table is unknown",
            column=column.name,
            hint="read the table again (--resnapshot); later releases of MySQL 8.0 log it",
        )
    return _shaped(column, logged)


def _completed(column: MySqlColumn, logged: MappedColumn, known: MySqlColumn) -> BinlogColumn:
    """Return the column of the definition; metadata in the map takes precedence where present."""
    kind = known.type
    if logged.unsigned is not None and kind.base in INTEGERS.values() and logged.unsigned != kind.unsigned:
        kind = column.type
    if logged.kind in _LABELLED and logged.labels is not None:
        kind = column.type
    charset = column.charset if logged.collation is not None else known.charset
    return _shaped(MySqlColumn(known.name, kind, logged.nullable, charset, known.comment), logged)


def _shaped(column: MySqlColumn, logged: MappedColumn) -> BinlogColumn:
    charset = charset_named(column.charset) if column.charset else None
    if charset is None and column.type.is_character:
        charset = CHARSETS["utf8mb4"]
    return BinlogColumn(column, logged.kind, logged.size, logged.scale, charset)
