"""The types of columns as a table map of the binlog describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.ingest.mysql.binlog import table_map as kinds
from penstock.ingest.mysql.definition import BLOBS, GEOMETRIES, NETWORK_BYTES, TEXTS, MySqlColumn, MySqlType
from penstock.ingest.mysql.server.charsets import BINARY_COLLATION, charset_of_collation

if TYPE_CHECKING:
    from penstock.ingest.mysql.binlog.table_map import MappedColumn

INTEGERS = {
    kinds.TINY: "tinyint",
    kinds.SHORT: "smallint",
    kinds.INT24: "mediumint",
    kinds.LONG: "int",
    kinds.LONGLONG: "bigint",
}
_PLAIN = {
    kinds.FLOAT: "float",
    kinds.DOUBLE: "double",
    kinds.YEAR: "year",
    kinds.DATE: "date",
    kinds.NEWDATE: "date",
    kinds.TIME: "time",
    kinds.DATETIME: "datetime",
    kinds.TIMESTAMP: "timestamp",
    kinds.JSON: "json",
}
# Type name and bytes without the fraction.
FRACTIONAL = {kinds.TIME2: ("time", 3), kinds.DATETIME2: ("datetime", 5), kinds.TIMESTAMP2: ("timestamp", 4)}


def mapped_column(logged: MappedColumn) -> MySqlColumn:
    """Return the column as the map alone describes it; without signs and charsets this may be a poor guess."""
    return MySqlColumn(logged.name or "", _log_type(logged), logged.nullable, _charset_name(logged))


def _charset_name(logged: MappedColumn) -> str | None:
    if logged.collation is None or logged.collation == BINARY_COLLATION:
        return None
    charset = charset_of_collation(logged.collation)
    return charset.name if charset else None


def _log_type(logged: MappedColumn) -> MySqlType:
    if logged.kind in INTEGERS:
        return MySqlType(INTEGERS[logged.kind], unsigned=bool(logged.unsigned))
    if logged.kind in _PLAIN:
        return MySqlType(_PLAIN[logged.kind])
    if logged.kind in FRACTIONAL:
        return MySqlType(FRACTIONAL[logged.kind][0], logged.size or None)
    match logged.kind:
        case kinds.NEWDECIMAL:
            return MySqlType("decimal", logged.size, logged.scale)
        case kinds.BIT:
            return MySqlType("bit", logged.size)
        case kinds.ENUM | kinds.SET:
            return MySqlType("enum" if logged.kind == kinds.ENUM else "set", labels=logged.labels or ())
        case kinds.GEOMETRY:
            return MySqlType(GEOMETRIES[logged.geometry or 0])
        case kinds.VECTOR:
            return MySqlType("vector", logged.dimension)
        case kinds.BLOB | kinds.BLOB_COMPRESSED:
            return MySqlType((BLOBS if logged.collation in {None, BINARY_COLLATION} else TEXTS)[logged.size - 1])
    return _string_type(logged)


def _string_type(logged: MappedColumn) -> MySqlType:
    is_fixed = logged.kind == kinds.STRING
    charset = charset_of_collation(logged.collation if logged.collation is not None else BINARY_COLLATION)
    # One byte of a compressed cell is its compression header.
    size = logged.size - 1 if logged.kind == kinds.VARCHAR_COMPRESSED else logged.size
    if charset is None or charset.name == "binary":
        return MySqlType("binary" if is_fixed else "varbinary", size)
    return MySqlType("char" if is_fixed else "varchar", size // charset.bytes_per_character)


def agrees(logged: MappedColumn, kind: MySqlType) -> bool:
    """Return whether a column of this type is stored as the map says."""
    base, size = kind.base, kind.size or 0
    if logged.kind in INTEGERS:
        return base == INTEGERS[logged.kind]
    if logged.kind in FRACTIONAL:
        return base == FRACTIONAL[logged.kind][0] and size == logged.size
    match logged.kind:
        case kinds.NEWDECIMAL:
            return (base, kind.size, kind.scale) == ("decimal", logged.size, logged.scale)
        case kinds.BIT:
            return (base, size) == ("bit", logged.size)
        case kinds.ENUM | kinds.SET:
            return base == ("enum" if logged.kind == kinds.ENUM else "set")
        case kinds.GEOMETRY:
            return base in GEOMETRIES
        case kinds.VECTOR:
            return base == "vector"
        case kinds.BLOB | kinds.BLOB_COMPRESSED:
            return base in {TEXTS[logged.size - 1], BLOBS[logged.size - 1]} or (logged.size == 4 and base == "json")
        case kinds.STRING:
            return base in {"char", "binary"} or NETWORK_BYTES.get(base) == logged.size
        case kinds.VARCHAR | kinds.VARCHAR_COMPRESSED:
            # MariaDB logs VECTOR(n) as bytes, four per number.
            return base in {"varchar", "varbinary"} or (base == "vector" and logged.size == 4 * size)
    return base == _PLAIN.get(logged.kind)
