"""The definition of a table: its columns with their types, and its key.

Types have one canonical spelling, whether they come from the catalog, the binlog or DDL. The binlog has no display
widths, so the canonical spelling omits them, except for TINYINT(1), which only the definition distinguishes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from penstock.formats.change import SourceField, SourceSchema

INTEGER_BYTES = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
TEMPORAL = frozenset({"date", "time", "datetime", "timestamp"})
TEXTS = ("tinytext", "text", "mediumtext", "longtext")
BLOBS = ("tinyblob", "blob", "mediumblob", "longblob")
CHARACTER = frozenset({"char", "varchar", *TEXTS})
BYTES = frozenset({"binary", "varbinary", *BLOBS})
GEOMETRIES = (
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
)
NETWORK_BYTES = {"inet4": 4, "inet6": 16, "uuid": 16}

_ALIASES = {
    "integer": "int",
    "int1": "tinyint",
    "int2": "smallint",
    "int3": "mediumint",
    "middleint": "mediumint",
    "int4": "int",
    "int8": "bigint",
    "numeric": "decimal",
    "dec": "decimal",
    "fixed": "decimal",
    "number": "decimal",
    "real": "double",
    "float4": "float",
    "float8": "double",
    "character": "char",
    "nchar": "char",
    "nvarchar": "varchar",
    "varchar2": "varchar",
    "raw": "varbinary",
    "clob": "longtext",
    "long": "mediumtext",
    "geomcollection": "geometrycollection",
}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "0": "\0"}
_PATTERN = re.compile(r"\s*(\w+)\s*(?:\(([^)]*)\))?(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class MySqlType:
    """A column type. `size` is the length, precision or fraction digits, depending on `base`.

    `labels` are the labels of an ENUM or SET.
    """

    base: str
    size: int | None = None
    scale: int | None = None
    unsigned: bool = False
    labels: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = self.base
        if self.scale is not None:
            text += f"({self.size},{self.scale})"
        elif self.size is not None:
            text += f"({self.size})"
        return text + " unsigned" if self.unsigned else text

    @property
    def is_character(self) -> bool:
        return self.base in CHARACTER


def normal_type(
    base: str, sizes: tuple[int, ...] = (), *, unsigned: bool = False, labels: tuple[str, ...] = ()
) -> MySqlType:
    """Return the type in its canonical spelling; `sizes` are the numbers in brackets as written."""
    base = _ALIASES.get(base, base)
    size = sizes[0] if sizes else None
    match base:
        case "bool" | "boolean":
            return MySqlType("tinyint", 1)
        case "serial":
            return MySqlType("bigint", unsigned=True)
        case "tinyint":
            return MySqlType(base, 1 if size == 1 and not unsigned else None, unsigned=unsigned)
        case "smallint" | "mediumint" | "int" | "bigint":
            return MySqlType(base, unsigned=unsigned)
        case "float":
            # A single number is a precision in bits: MySQL stores more than 24 of them as DOUBLE.
            return MySqlType("double" if len(sizes) == 1 and sizes[0] > 24 else "float")
        case "decimal":
            # DECIMAL without a precision, or with 0, has 10 digits.
            return MySqlType(base, 10 if size in {None, 0} else size, sizes[1] if len(sizes) > 1 else 0)
        case "bit" | "char" | "binary":
            return MySqlType(base, 1 if size is None else size)
        case "varchar" | "varbinary" | "vector":
            return MySqlType(base, size)
        case "time" | "datetime" | "timestamp":
            return MySqlType(base, size or None)
        case "text" | "blob" if size is not None:
            return MySqlType(_by_length(base, size))
        case "enum" | "set":
            return MySqlType(base, labels=labels)
    return MySqlType(base)


def _by_length(base: str, length: int) -> str:
    # TEXT(n) and BLOB(n) become the smallest type with room for n bytes.
    family = TEXTS if base == "text" else BLOBS
    return next(name for name, bits in zip(family, (8, 16, 24, 64), strict=True) if length < 1 << bits)


def parse_type(text: str) -> MySqlType:
    """Parse a COLUMN_TYPE text of the catalog, such as `int(10) unsigned zerofill` or `enum('a','b')`."""
    match = _PATTERN.match(text)
    if match is None:
        return MySqlType(text.strip().lower())
    base, rest = match[1].lower(), match[3].lower()
    if base in {"enum", "set"}:
        return normal_type(base, labels=split_labels(text[text.find("(") + 1 : text.rfind(")")]))
    sizes = tuple(int(part) for part in (match[2] or "").split(",") if part.strip().isdecimal())
    # ZEROFILL implies UNSIGNED.
    return normal_type(base, sizes, unsigned="unsigned" in rest or "zerofill" in rest)


def split_labels(text: str) -> tuple[str, ...]:
    """Return the labels of `'a','it''s','back\\\\slash'` as the catalog prints them in every SQL mode."""
    return tuple(
        _ESCAPED.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), label.replace("''", "'"))
        for label in re.findall(r"'((?:[^']|'')*)'", text)
    )


@dataclass(frozen=True, slots=True)
class MySqlColumn:
    """A column. `charset` is None for types without characters; `comment` is None if unknown.

    `is_generated`: the server computes it from others of its row. The binlog does not say so.
    """

    name: str
    type: MySqlType
    nullable: bool = True
    charset: str | None = None
    comment: str | None = None
    is_generated: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """The columns and keys of a table at one moment."""

    database: str
    table: str
    columns: tuple[MySqlColumn, ...]
    primary_key: tuple[str, ...] = ()
    comment: str | None = None
    default_charset: str | None = field(default=None, compare=False)

    @property
    def name(self) -> tuple[str, str]:
        return self.database, self.table

    @property
    def qualified(self) -> str:
        return f"{self.database}.{self.table}"

    def column(self, name: str) -> MySqlColumn | None:
        """Return the column of this name, compared as MySQL does: case-insensitively."""
        wanted = name.lower()
        return next((column for column in self.columns if column.name.lower() == wanted), None)

    def has_in_key(self, column: str) -> bool:
        return column.lower() in {name.lower() for name in self.primary_key}


def schema_of(definition: TableDefinition) -> SourceSchema:
    """Return the source schema of this table's rows, which is the same for snapshot and binlog."""
    fields = tuple(
        SourceField(column.name, str(column.type), column.comment, column.nullable) for column in definition.columns
    )
    return SourceSchema(
        "mysql", definition.database, definition.table, fields, definition.primary_key, definition.comment
    )
