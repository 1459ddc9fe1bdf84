"""Kafka Connect's schemas as Debezium uses them: a carrier type, a semantic name, parameters.

The declared type of a column is one line of text, `carrier [name] [parameter=value ...]`, values percent-encoded:

    int64 io.debezium.time.MicroTimestamp
    bytes org.apache.kafka.connect.data.Decimal connect.decimal.precision=10 scale=2
    int16 __debezium.source.column.type=TINYINT __debezium.source.column.length=1

It contains only parameters that affect the type. `ConnectType.parse` reads it back. The type in the source database is
used if that database is MySQL or MariaDB: other databases have types of the same names with other values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from penstock.errors import DecodeError
from penstock.formats.change import BAD_VALUE, SourceField, SourceSchema, TableName

SOURCE_TYPE = "__debezium.source.column.type"
SOURCE_LENGTH = "__debezium.source.column.length"
SOURCE_SCALE = "__debezium.source.column.scale"
ZONED_TIMESTAMP = "io.debezium.time.ZonedTimestamp"
SOURCE_PARAMETERS = (SOURCE_TYPE, SOURCE_LENGTH, SOURCE_SCALE)
_TYPE_PARAMETERS = ("connect.decimal.precision", "scale", "length", *SOURCE_PARAMETERS)
# The name of the schema of an envelope's `source`.
_CONNECTOR = re.compile(r"io\.debezium\.connector\.(\w+)\.")
_LONGEST_NUMBER = 18


@dataclass(frozen=True, slots=True)
class ConnectType:
    """A declared type: carrier type, semantic name, and the parameters that affect the type."""

    carrier: str
    name: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        named = [quote(self.name, safe=".")] if self.name else []
        pairs = [f"{quote(key, safe='.')}={quote(value, safe='')}" for key, value in self.parameters]
        return " ".join([self.carrier, *named, *pairs])

    @classmethod
    def parse(cls, text: str) -> ConnectType:
        """Parse the text form of a declared type."""
        carrier, *rest = text.split(" ")
        names = [unquote(part) for part in rest if "=" not in part]
        pairs = [part.split("=", 1) for part in rest if "=" in part]
        return cls(carrier, names[0] if names else None, tuple((unquote(key), unquote(value)) for key, value in pairs))

    def parameter(self, key: str) -> str | None:
        """Return a parameter's text, None if it is not declared."""
        return dict(self.parameters).get(key)

    def number(self, key: str) -> int | None:
        """Return a parameter as a number, None if it is not declared or not a number."""
        text = self.parameter(key)
        # A number longer than any sensible one is cut; the result is still far out of range.
        return int(text[:_LONGEST_NUMBER]) if text is not None and text.lstrip("-").isdecimal() else None

    def without_source_type(self) -> ConnectType:
        """Return the type that the connector chose, whatever the type in the source database."""
        kept = tuple((key, value) for key, value in self.parameters if key not in SOURCE_PARAMETERS)
        return replace(self, parameters=kept)

    @property
    def source_type(self) -> str | None:
        """Return the type in the source database, if the connector propagates it."""
        return self.parameter(SOURCE_TYPE)


def connect_type(schema: Mapping[str, Any]) -> ConnectType:
    """Return the type that a Kafka Connect schema in JSON declares."""
    parameters = schema.get("parameters") or {}
    kept = tuple((key, str(parameters[key])) for key in _TYPE_PARAMETERS if key in parameters)
    return ConnectType(str(schema.get("type")), schema.get("name"), kept)


def sends_other_types(source: object) -> bool:
    """Return whether the `source` of an envelope, by the name of its schema, is of another database than MySQL."""
    connector = _CONNECTOR.match(source) if isinstance(source, str) else None
    return connector is not None and connector[1] not in {"mysql", "mariadb"}


@lru_cache(maxsize=1024)
def row_fields(schema: bytes) -> tuple[SourceField, ...] | None:
    """Return the columns that an envelope's schema declares in `after`, else in `before`; None for a null schema."""
    try:
        declared = msgspec.json.decode(schema)
        if declared is None:
            return None
        members = {member.get("field"): member for member in declared["fields"]}
        row = members.get("after") or members["before"]
        others = sends_other_types((members.get("source") or {}).get("name"))
        return tuple(_field(column, has_other_types=others) for column in row["fields"])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise DecodeError(f"the schema of the record does not describe a row: {error!r}", reason=BAD_VALUE) from error


def _field(column: Mapping[str, Any], *, has_other_types: bool) -> SourceField:
    kind = connect_type(column)
    if has_other_types:
        kind = kind.without_source_type()
    # The doc of a geometry names its kind; any other doc is the comment of the column.
    doc = None if kind.carrier == "struct" else column.get("doc")
    return SourceField(str(column["field"]), str(kind), doc)


def present_fields(declared: tuple[SourceField, ...] | None, names: Sequence[str]) -> tuple[SourceField, ...]:
    """Return the declared columns that occur in any row, in declared order, then members that are not declared.

    Without a schema (None) these are the members in their order.
    """
    if declared is None:
        return tuple(SourceField(name) for name in names)
    known, occurring = {field.name for field in declared}, set(names)
    fields = [field for field in declared if field.name in occurring]
    return (*fields, *(SourceField(name) for name in names if name not in known))


def table_schema(
    name: TableName, keys: tuple[str, ...] | None, declared: tuple[SourceField, ...] | None, names: Sequence[str]
) -> SourceSchema:
    """Return the schema of rows with these members; `keys` is None if the messages say nothing about them."""
    dialect = "text" if declared is None else "debezium"
    return SourceSchema(dialect, *name, present_fields(declared, names), keys or (), states_no_key=keys == ())
