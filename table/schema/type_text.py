"""Types as users write them: `DECIMAL(10, 2) NOT NULL`, `ARRAY<INT>`, `ROW<a INT, b MAP<STRING, BIGINT>>`."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.values.arrow_types import NO_ID, from_arrow
from penstock.table.values.sql_text import backquoted, unquoted
from penstock.table.values.types import (
    ArrayType,
    DataType,
    Field,
    MapType,
    MultisetType,
    RowType,
    parse_atomic,
    parse_type,
    type_text,
)

# The member texts end at the last bracket, because .* is greedy.
_CONSTRUCTED = re.compile(r"(ARRAY|MAP|MULTISET|ROW)\s*<(.*)>\s*(NOT\s+NULL|NULL)?", re.IGNORECASE | re.DOTALL)
# In Flink, round brackets may be around the members of a ROW.
_ROUND = re.compile(r"(ROW)\s*\((.*)\)\s*(NOT\s+NULL|NULL)?", re.IGNORECASE | re.DOTALL)
# A colon may separate name and type, as in Spark's struct<a:int>.
_NAME = r"`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\""
_MEMBER = re.compile(rf"({_NAME}|[^\s:`\"]+)[\s:]+(.*)", re.DOTALL)
# A quoted name, whose signs separate nothing, or one sign.
_PIECE = re.compile(rf"{_NAME}|.", re.DOTALL)


def read_type(given: str | Mapping[str, object] | DataType | pa.DataType) -> DataType:
    """Return a type given as text, as a node of a schema file, as an Arrow type (then nullable), or as a DataType.

    The members of a ROW have no ids yet.
    """
    if isinstance(given, str):
        return parse_type_text(given)
    if isinstance(given, Mapping):
        return parse_type(given)
    if isinstance(given, pa.DataType):
        return from_arrow(given, nullable=True)
    if isinstance(given, DataType):
        return given
    raise ConfigError(f"{given!r} is not a type", hint='write it as "DECIMAL(10, 2) NOT NULL", or as an Arrow type')


def parse_type_text(text: str) -> DataType:
    """Return the type that a text describes."""
    match = _CONSTRUCTED.fullmatch(text.strip()) or _ROUND.fullmatch(text.strip())
    if match is None:
        return parse_atomic(text)
    name, parts = match[1].upper(), _split(match[2], text)
    nullable = match[3] is None or match[3].upper() == "NULL"
    match name, parts:
        case "ARRAY", [element]:
            return ArrayType(parse_type_text(element), nullable)
        case "MULTISET", [element]:
            return MultisetType(parse_type_text(element), nullable)
        case "MAP", [key, value]:
            return MapType(parse_type_text(key), parse_type_text(value), nullable)
        case "ROW", members:
            return RowType(tuple(_member(member) for member in members), nullable)
    wanted = "MAP<STRING, INT>" if name == "MAP" else f"{name}<INT>"
    raise ConfigError(f"{text!r} is not a type", hint=f"write it as in {wanted}")


def written(type_: DataType) -> str:
    """Return the text of a type as a user would write it; `parse_type_text` is the inverse."""
    suffix = "" if type_.nullable else " NOT NULL"
    match type_:
        case ArrayType(element):
            return f"ARRAY<{written(element)}>{suffix}"
        case MultisetType(element):
            return f"MULTISET<{written(element)}>{suffix}"
        case MapType(key, value):
            return f"MAP<{written(key)}, {written(value)}>{suffix}"
        case RowType(fields):
            members = ", ".join(f"{backquoted(field.name)} {written(field.type)}" for field in fields)
            return f"ROW<{members}>{suffix}"
    return type_text(type_)


def _member(text: str) -> Field:
    match = _MEMBER.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{text.strip()!r} is not a member of a ROW", hint="write it as in ROW<a INT, b STRING>")
    name = unquoted(match[1]) if match[1][0] in '`"' else match[1]
    return Field(NO_ID, name, parse_type_text(match[2]))


def _split(text: str, whole: str) -> list[str]:
    """Split the text at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for piece in _PIECE.finditer(text):
        character, place = piece[0], piece.start()
        # Round brackets count too: DECIMAL(10, 2) contains a comma.
        depth += (character in {"<", "("}) - (character in {">", ")"})
        if depth < 0:
            break
        if character == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    if depth != 0:
        raise ConfigError(f"the brackets of {whole!r} do not match", hint="close each bracket: MAP<STRING, ARRAY<INT>>")
    return [*parts, text[start:]] if text.strip() else parts
