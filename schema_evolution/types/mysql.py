"""The mapping from MySQL's declared types to Paimon's; it includes Aliyun's type names."""

from __future__ import annotations

from penstock.errors import SchemaConflict
from penstock.formats.geometry import GEOMETRY_TYPES
from penstock.formats.mysql_type import MysqlType, parse_mysql_type
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.table.values.types import BYTES, STRING, ArrayType, AtomicType, DataType

_MOST_DIGITS = 38
_MOST_FRACTION = 9
_MOST_BITS = 64

# An unsigned integer type becomes the next larger signed one.
_PLAIN: dict[str, AtomicType] = {
    "BOOL": AtomicType("BOOLEAN"),
    "BOOLEAN": AtomicType("BOOLEAN"),
    "TINYINT UNSIGNED": AtomicType("SMALLINT"),
    "SMALLINT": AtomicType("SMALLINT"),
    "SMALLINT UNSIGNED": AtomicType("INT"),
    "MEDIUMINT": AtomicType("INT"),
    "MEDIUMINT UNSIGNED": AtomicType("BIGINT"),
    "INT": AtomicType("INT"),
    "INTEGER": AtomicType("INT"),
    "INT UNSIGNED": AtomicType("BIGINT"),
    "INTEGER UNSIGNED": AtomicType("BIGINT"),
    "BIGINT": AtomicType("BIGINT"),
    "LONG": AtomicType("BIGINT"),
    "FLOAT": AtomicType("FLOAT"),
    "FLOAT UNSIGNED": AtomicType("FLOAT"),
    "REAL": AtomicType("DOUBLE"),
    "DOUBLE": AtomicType("DOUBLE"),
    "DOUBLE PRECISION": AtomicType("DOUBLE"),
    "REAL UNSIGNED": AtomicType("DOUBLE"),
    "DOUBLE UNSIGNED": AtomicType("DOUBLE"),
    "DOUBLE PRECISION UNSIGNED": AtomicType("DOUBLE"),
    "DATE": AtomicType("DATE"),
    "YEAR": AtomicType("INT"),
    "STRING": STRING,
    "TINYTEXT": STRING,
    "TEXT": STRING,
    "MEDIUMTEXT": STRING,
    "LONGTEXT": STRING,
    "JSON": STRING,
    "ENUM": STRING,
    "UUID": STRING,
    "INET4": STRING,
    "INET6": STRING,
    "TINYBLOB": BYTES,
    "BLOB": BYTES,
    "MEDIUMBLOB": BYTES,
    "LONGBLOB": BYTES,
    "BYTES": BYTES,
}
_UNSIGNED_BIG = ("BIGINT UNSIGNED", "SERIAL")
_DECIMALS = ("DECIMAL", "NUMERIC", "FIXED", "DEC")


def mysql_type(declared: str, mapping: TypeMapping) -> DataType:
    """Return the Paimon type; BYTES for an unknown type, so that it does not stop the job."""
    return _known(declared, mapping) or BYTES


def knows(declared: str) -> bool:
    """Return whether the declared type is a known MySQL type."""
    return _known(declared, TypeMapping()) is not None


def _known(declared: str, mapping: TypeMapping) -> DataType | None:
    kind = parse_mysql_type(declared)
    name = kind.name.removesuffix(" ZEROFILL").strip()
    # ZEROFILL makes a column unsigned even without the keyword.
    if kind.name.endswith(" ZEROFILL") and not name.endswith("UNSIGNED"):
        name = f"{name} UNSIGNED"
    if name in _UNSIGNED_BIG:
        # The greatest number has 20 digits.
        return AtomicType("BIGINT") if mapping.bigint_unsigned_to_bigint else AtomicType("DECIMAL", precision=20)
    if name == "LONGTEXT" and mapping.longtext_to_bytes:
        return BYTES
    return _PLAIN.get(name) or _sized(name.removesuffix(" UNSIGNED"), kind, mapping)


def _sized(name: str, kind: MysqlType, mapping: TypeMapping) -> DataType | None:
    match name:
        case "TINYINT":
            # Signed only: TINYINT(1) UNSIGNED is in the table above, as a number.
            return AtomicType("BOOLEAN" if kind.length == 1 and not mapping.tinyint1_not_bool else "TINYINT")
        case "BIT":
            bits = kind.length or 1
            if bits > _MOST_BITS:
                raise SchemaConflict(f"BIT({bits}) is not a valid type", hint=f"MySQL allows at most {_MOST_BITS} bits")
            return AtomicType("BOOLEAN") if bits == 1 else AtomicType("BINARY", length=(bits + 7) // 8)
        case "CHAR" | "VARCHAR" | "NCHAR" | "NVARCHAR" | "CHARACTER":
            if mapping.char_to_string or not kind.length:
                return STRING
            return AtomicType("VARCHAR" if "VAR" in name else "CHAR", length=kind.length)
        case "BINARY" | "VARBINARY":
            # BINARY too: the log omits trailing zeros, so values of several lengths arrive.
            return AtomicType("VARBINARY", length=kind.length) if kind.length else BYTES
        case "TIME":
            # As in Paimon's actions, which ignore the declared precision. The stored value has milliseconds in any
            # case.
            return STRING if mapping.time_to_string else AtomicType("TIME")
        case "DATETIME" | "TIMESTAMP":
            return AtomicType("TIMESTAMP", precision=_fraction(kind))
        case "SET":
            return ArrayType(STRING)
        case "VECTOR":
            return ArrayType(AtomicType("FLOAT"))
    if name in _DECIMALS:
        return _decimal(kind)
    return STRING if name in GEOMETRY_TYPES else None


def _decimal(kind: MysqlType) -> DataType:
    if kind.length is None:
        # Paimon's type for a declaration without a precision.
        return AtomicType("DECIMAL", precision=_MOST_DIGITS, scale=18)
    if kind.length > _MOST_DIGITS:
        return STRING
    # DECIMAL(0) is MySQL's notation for the default precision.
    if kind.length == 0:
        return AtomicType("DECIMAL", precision=10, scale=kind.scale or 0)
    return AtomicType("DECIMAL", precision=kind.length, scale=kind.scale or 0)


def _fraction(kind: MysqlType) -> int:
    # Drivers report the display width: 19 for no fraction, 21 to 26 for one to six digits.
    length = kind.length or 0
    if length <= _MOST_FRACTION:
        return length
    if length == 19:
        return 0
    if 21 <= length <= 26:
        return length - 20
    raise SchemaConflict(
        f"a fraction of {length} digits is not supported",
        type=f"{kind.name}({length})",
        hint="times have up to six digits: correct the type that the producer declares",
    )
