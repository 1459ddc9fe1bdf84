"""Paimon's types as frozen dataclasses, and their conversion from and to the type grammar of schema files."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TypeAlias

from penstock.errors import ConfigError, did_you_mean

STRING_LENGTH = 2147483647  # of STRING and BYTES: VARCHAR and VARBINARY without a limit
_PLAIN = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "VARIANT")
_LENGTHS = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")
_ALIASES = {"INTEGER": "INT", "NUMERIC": "DECIMAL", "DEC": "DECIMAL"}
_CONSTRUCTED = ("ARRAY", "MAP", "MULTISET", "ROW")


@dataclass(frozen=True, slots=True)
class AtomicType:
    """A type without members.

    `root` is BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DATE, VARIANT, CHAR, VARCHAR, BINARY, VARBINARY,
    DECIMAL, TIME, TIMESTAMP or TIMESTAMP_LTZ. STRING is VARCHAR and BYTES is VARBINARY of the maximum length.
    `precision` is used by DECIMAL and by the time types.
    """

    root: str
    nullable: bool = True
    length: int = 0
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class ArrayType:
    """The type ARRAY, a list of elements."""

    element: DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class MultisetType:
    """The type MULTISET, which maps each element to its count."""

    element: DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class MapType:
    """The type MAP."""

    key: DataType
    value: DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class RowType:
    """The type ROW, a struct of named members."""

    fields: tuple[Field, ...]
    nullable: bool = True


DataType: TypeAlias = AtomicType | ArrayType | MultisetType | MapType | RowType


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a member of a ROW. `default` is the text of the value that replaces a null on write."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default: str | None = None


STRING = AtomicType("VARCHAR", length=STRING_LENGTH)
BYTES = AtomicType("VARBINARY", length=STRING_LENGTH)
INT = AtomicType("INT")
BIGINT = AtomicType("BIGINT")


def with_nullability(type_: DataType, nullable: bool) -> DataType:
    return type_ if type_.nullable is nullable else replace(type_, nullable=nullable)


# The zone follows the precision in TIMESTAMP(3) WITH LOCAL TIME ZONE, and the name when the precision is left out.
_TEXT = re.compile(
    r"""\s*(?P<name>[A-Za-z_]+(?:\s+WITH(?:OUT)?\s+(?:LOCAL\s+)?TIME\s+ZONE)?)
        \s*(?:\(\s*(?P<a>\d+)\s*(?:,\s*(?P<b>\d+)\s*)?\))?
        (?P<zone>\s+WITH(?:OUT)?\s+(?:LOCAL\s+)?TIME\s+ZONE)?
        (?P<not_null>\s+NOT\s+NULL|\s+NULL)?\s*""",
    re.VERBOSE | re.IGNORECASE,
)


def parse_atomic(text: str) -> AtomicType:
    """Return the type of a text such as `DECIMAL(10, 2) NOT NULL`.

    Raise ConfigError for an unknown name, with the most similar known name as the hint.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ConfigError(f"{text!r} is not a type", hint="write it as in DECIMAL(10, 2) NOT NULL")
    words = match["name"].upper().split()
    root = _ALIASES.get(words[0], words[0])
    zone = " ".join(words[1:]) or " ".join((match["zone"] or "").upper().split())
    nullable = " ".join((match["not_null"] or "").upper().split()) != "NOT NULL"
    first = int(match["a"]) if match["a"] else None
    second = int(match["b"]) if match["b"] else None
    return _checked(_atomic_of(root, zone, first, second, nullable, text), text)


def _atomic_of(root: str, zone: str, first: int | None, second: int | None, nullable: bool, text: str) -> AtomicType:
    if root in _PLAIN and first is None:
        return AtomicType(root, nullable)
    match root:
        case "STRING":
            return AtomicType("VARCHAR", nullable, STRING_LENGTH)
        case "BYTES":
            return AtomicType("VARBINARY", nullable, STRING_LENGTH)
        # Lengths and precisions that are left out have SQL's defaults, as in Java's parser: CHAR(1), DECIMAL(10, 0),
        # TIME(0), TIMESTAMP(6).
        case "CHAR" | "VARCHAR" | "BINARY" | "VARBINARY":
            return AtomicType(root, nullable, 1 if first is None else first)
        case "DECIMAL":
            return AtomicType(root, nullable, 0, 10 if first is None else first, second or 0)
        case "TIME":
            return AtomicType(root, nullable, 0, first or 0)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            local = root == "TIMESTAMP_LTZ" or zone == "WITH LOCAL TIME ZONE"
            return AtomicType("TIMESTAMP_LTZ" if local else "TIMESTAMP", nullable, 0, 6 if first is None else first)
    known = (*_PLAIN, *_LENGTHS, *_CONSTRUCTED, *_ALIASES, "STRING", "BYTES", "DECIMAL", "TIME", "TIMESTAMP")
    raise ConfigError(f"{text!r} is not a known type", hint=did_you_mean(root, known))


def _checked(type_: AtomicType, text: str) -> AtomicType:
    wrong = (
        (type_.root == "DECIMAL" and not (1 <= type_.precision <= 38 and type_.scale <= type_.precision))
        or (type_.root.startswith("TIME") and type_.precision > 9)
        or (type_.root in _LENGTHS and not 1 <= type_.length <= STRING_LENGTH)
    )
    if wrong:
        raise ConfigError(f"{text!r} is out of range", hint="DECIMAL takes 1..38 digits, TIME and TIMESTAMP 0..9")
    return type_


def parse_type(node: object) -> DataType:
    """Return the type of a node of a schema file: a string, or an object for constructed types."""
    if isinstance(node, str):
        return parse_atomic(node)
    if not isinstance(node, dict) or not isinstance(node.get("type"), str):
        raise ConfigError(f"{node!r} is not a type", hint="a type is a text such as 'INT', or an object with 'type'")
    # The text of a constructed type contains its nullability too: "ARRAY NOT NULL".
    name, _, rest = node["type"].strip().partition(" ")
    nullable = " ".join(rest.upper().split()) != "NOT NULL"
    match name.upper():
        case "ARRAY":
            return ArrayType(parse_type(node["element"]), nullable)
        case "MULTISET":
            return MultisetType(parse_type(node["element"]), nullable)
        case "MAP":
            return MapType(parse_type(node["key"]), parse_type(node["value"]), nullable)
        case "ROW":
            return RowType(tuple(parse_field(member) for member in node["fields"]), nullable)
    raise ConfigError(f"{node['type']!r} is not a known type", hint=f"choices are {', '.join(_CONSTRUCTED)}")


def parse_field(node: dict[str, object]) -> Field:
    """Return the column that a schema file describes by this node."""
    description, default = node.get("description"), node.get("defaultValue")
    return Field(
        int(str(node["id"])),
        str(node["name"]),
        parse_type(node["type"]),
        None if description is None else str(description),
        None if default is None else str(default),
    )


def type_text(type_: AtomicType) -> str:
    """Return an atomic type as in schema files, such as `DECIMAL(10, 2) NOT NULL`."""
    return _root_text(type_) + ("" if type_.nullable else " NOT NULL")


def _root_text(type_: AtomicType) -> str:
    match type_.root:
        case "VARCHAR" if type_.length == STRING_LENGTH:
            return "STRING"
        case "VARBINARY" if type_.length == STRING_LENGTH:
            return "BYTES"
        case "CHAR" | "VARCHAR" | "BINARY" | "VARBINARY":
            return f"{type_.root}({type_.length})"
        case "DECIMAL":
            return f"DECIMAL({type_.precision}, {type_.scale})"
        case "TIME" | "TIMESTAMP":
            return f"{type_.root}({type_.precision})"
        case "TIMESTAMP_LTZ":
            return f"TIMESTAMP({type_.precision}) WITH LOCAL TIME ZONE"
    return type_.root


def type_json(type_: DataType) -> object:
    """Return the node for a schema file, spelled as Java does; the inverse of parse_type."""
    if isinstance(type_, AtomicType):
        return type_text(type_)
    suffix = "" if type_.nullable else " NOT NULL"
    match type_:
        case ArrayType(element):
            return {"type": f"ARRAY{suffix}", "element": type_json(element)}
        case MultisetType(element):
            return {"type": f"MULTISET{suffix}", "element": type_json(element)}
        case MapType(key, value):
            return {"type": f"MAP{suffix}", "key": type_json(key), "value": type_json(value)}
        case RowType(fields):
            return {"type": f"ROW{suffix}", "fields": [field_json(field) for field in fields]}


def field_json(field: Field) -> dict[str, object]:
    """Return the node that describes a column in a schema file."""
    node: dict[str, object] = {"id": field.id, "name": field.name, "type": type_json(field.type)}
    if field.description is not None:
        node["description"] = field.description
    if field.default is not None:
        node["defaultValue"] = field.default
    return node
