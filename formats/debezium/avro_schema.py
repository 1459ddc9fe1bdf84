"""Avro schemas as Debezium registers them: the columns of a row, and their declared types.

The declared type of a column is its Avro schema as compact JSON: named types are written out where they are used, the
union with null is removed, and only properties that affect the type are kept, among them `connect.name` and
`connect.parameters`. `connect_type_of` returns the Kafka Connect type if the schema has one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from penstock.errors import DecodeError
from penstock.formats.change import BAD_VALUE, SourceField
from penstock.formats.debezium.avro_walk import Node, node_of
from penstock.formats.debezium.connect import (
    SOURCE_PARAMETERS,
    SOURCE_TYPE,
    ConnectType,
    connect_type,
    sends_other_types,
)

# Confluent's head of a message: a zero byte and the number of the schema.
HEAD_BYTES = 5
_SOURCE_COLUMN = "__debezium.source.column."
SOURCE_NAME = f"{_SOURCE_COLUMN}name"
PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_CARRIERS = {"int": "int32", "long": "int64", "fixed": "bytes", "enum": "string", "record": "struct"}
_KEPT = ("logicalType", "precision", "scale", "size", "connect.name")
_KEPT_PARAMETERS = (*SOURCE_PARAMETERS, "scale", "connect.decimal.precision", "length")
# Avro's logical types by Debezium's semantic name for the same type.
_LOGICAL_NAMES = {
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "timestamp-nanos": "io.debezium.time.NanoTimestamp",
    "local-timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-nanos": "io.debezium.time.NanoTimestamp",
    "decimal": "org.apache.kafka.connect.data.Decimal",
}
_NO_SCHEMA = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class AvroColumn:
    """One column: its member in the record, its name, and its schema without null and with named types written out."""

    member: str
    name: str
    schema: Mapping[str, Any]
    comment: str | None = None

    def without_source_type(self) -> AvroColumn:
        """Return the column with the type that the connector chose, whatever the type in the source database."""
        return replace(self, schema=_without_source_column(self.schema))

    def source_field(self) -> SourceField:
        """Return the column with its declared type as text."""
        return SourceField(self.name, json.dumps(self.schema, separators=(",", ":")), self.comment)


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """A schema that is ready for reading. `reading` has no logical types: their values are converted by column."""

    reading: Any
    whole: Mapping[str, Any]

    def row_columns(self) -> tuple[AvroColumn, ...]:
        """Return the columns of the row that this envelope contains in `after`, else in `before`."""
        members = {field["name"]: field["type"] for field in self.whole.get("fields", ())}
        rows = [members[name] for name in ("after", "before") if name in members]
        columns = columns_of(rows[0]) if rows else ()
        if sends_other_types(members.get("source", {}).get("connect.name")):
            return tuple(column.without_source_type() for column in columns)
        return columns


@dataclass(frozen=True, slots=True)
class Schema:
    """A registered schema, its columns, and the original names of columns that Avro does not allow.

    Messages are walked along `node`; None if they cannot be walked.
    """

    number: int
    record: RecordSchema
    columns: tuple[AvroColumn, ...]
    renamed: Mapping[str, str]
    node: Node | None

    @classmethod
    def of(cls, number: int, record: RecordSchema) -> Schema:
        """Return the schema with this number."""
        # The columns of an envelope are the fields of its row; the columns of a key are its own fields.
        columns = record.row_columns() or columns_of(record.whole)
        renamed = {column.member: column.name for column in columns if column.member != column.name}
        return cls(number, record, columns, renamed, node_of(record.reading))

    @property
    def has_distinct_names(self) -> bool:
        return len({column.name for column in self.columns}) == len(self.columns)

    def named(self, row: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return a row with the original column names."""
        if row is None or not self.renamed:
            return row
        return {self.renamed.get(member, member): value for member, value in row.items()}


def columns_of(record: Mapping[str, Any]) -> tuple[AvroColumn, ...]:
    """Return the columns of a resolved record schema."""
    return tuple(_column(field) for field in record.get("fields", ()))


def compile_schema(schema: Any) -> RecordSchema:
    """Compile a registered schema. DecodeError if it cannot be used, with the name of the column at fault if known."""
    import fastavro  # the types of columns are looked up here without it

    try:
        whole = _resolved(schema, {}, "", ())
        ready = RecordSchema(fastavro.parse_schema(_without_logical(schema)), whole)
        # Finds invalid names and types here, not at the first message.
        ready.row_columns()
        return ready
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, *_NO_SCHEMA) as error:
        raise DecodeError(f"the Avro schema cannot be used: {error!r}", reason=BAD_VALUE) from error


def _without_logical(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _without_logical(value) for key, value in schema.items() if key != "logicalType"}


def _resolved(schema: Any, named: dict[str, Any], namespace: str, path: tuple[str, ...]) -> dict[str, Any]:
    """Return `schema` with every named type written out, null removed, and only the properties that matter."""
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        if len(others) != 1:
            raise DecodeError(f"{'.'.join(path) or 'the record'} is a union of several types", reason=BAD_VALUE)
        return _resolved(others[0], named, namespace, path)
    if isinstance(schema, str):
        if schema in PRIMITIVES:
            return {"type": schema}
        known: dict[str, Any] | None = named.get(schema) or named.get(f"{namespace}.{schema}")
        if known is None:
            # A name is registered when its type is complete, so a type within itself is not found either.
            raise DecodeError(
                f"the type {schema} at {'.'.join(path) or 'the top level'} is unknown or recursive", reason=BAD_VALUE
            )
        return _without_source_column(known)
    kind = schema["type"]
    if not isinstance(kind, str):
        return _resolved(kind, named, namespace, path)
    found = {"type": kind} | {key: schema[key] for key in _KEPT if key in schema}
    if not all(isinstance(found.get(key, ""), str) for key in ("connect.name", "logicalType")):
        raise TypeError(f"{'.'.join(path)} has a type name that is not a string")
    parameters = schema.get("connect.parameters") or {}
    if kept := {key: str(parameters[key]) for key in (*_KEPT_PARAMETERS, SOURCE_NAME) if key in parameters}:
        found["connect.parameters"] = kept
    if kind in {"record", "fixed", "enum"}:
        return _resolved_name(schema, found, named, namespace, path)
    if kind in {"array", "map"}:
        side = "items" if kind == "array" else "values"
        found[side] = _resolved(schema[side], named, namespace, (*path, side))
        if kind == "array" and _takes_no_bytes(found[side]):
            # Its elements have no bytes, so that a message could claim any length and exhaust memory.
            raise DecodeError(f"{'.'.join(path)} is an array without an item type", reason=BAD_VALUE)
    elif kind not in PRIMITIVES:
        return _resolved(kind, named, namespace, path)
    return found


def _without_source_column(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without what it says of the source column: of a named type, only its definition says that."""
    parameters = {
        key: value for key, value in schema.get("connect.parameters", {}).items() if not key.startswith(_SOURCE_COLUMN)
    }
    found = {key: value for key, value in schema.items() if key != "connect.parameters"}
    return found | ({"connect.parameters": parameters} if parameters else {})


def _takes_no_bytes(schema: Mapping[str, Any]) -> bool:
    if schema["type"] == "record":
        return all(_takes_no_bytes(field["type"]) for field in schema["fields"])
    return schema["type"] == "null" or (schema["type"] == "fixed" and schema.get("size") == 0)


def _resolved_name(
    schema: Mapping[str, Any], found: dict[str, Any], named: dict[str, Any], namespace: str, path: tuple[str, ...]
) -> dict[str, Any]:
    name = schema["name"]
    own = name.rpartition(".")[0] if "." in name else schema.get("namespace", namespace)
    if found["type"] == "record":
        found["fields"] = [
            {
                "name": member["name"],
                "type": _resolved(member["type"], named, own, (*path, member["name"])),
                **({"doc": member["doc"]} if member.get("doc") else {}),
            }
            for member in schema["fields"]
        ]
    named[name if "." in name or not own else f"{own}.{name}"] = found
    return found


def _column(member: Mapping[str, Any]) -> AvroColumn:
    schema = dict(member["type"])
    parameters = dict(schema.get("connect.parameters", {}))
    # Avro allows fewer names than databases; the original name is among the parameters.
    name = parameters.pop(SOURCE_NAME, member["name"])
    if not isinstance(name, str) or not isinstance(member["name"], str):
        raise TypeError(f"{name!r} is not a valid column name")
    schema.pop("connect.parameters", None)
    if parameters:
        schema["connect.parameters"] = parameters
    return AvroColumn(member["name"], name, schema, member.get("doc"))


def connect_type_of(declared: str | Mapping[str, Any]) -> ConnectType | None:
    """Return the Kafka Connect type of a column's Avro schema, by its source type, semantic name or logical type."""
    schema = json.loads(declared) if isinstance(declared, str) else declared
    kind = schema["type"]
    name = schema.get("connect.name") or _LOGICAL_NAMES.get(schema.get("logicalType", ""))
    parameters = dict(schema.get("connect.parameters", {}))
    if kind == "record" and not str(name or "").startswith(("io.debezium.data.", "io.debezium.time.")):
        # This is the name of the record itself.
        name = None
    if name is None and SOURCE_TYPE not in parameters:
        return None
    if schema.get("logicalType") == "decimal":
        parameters.setdefault("scale", str(schema.get("scale", 0)))
        parameters.setdefault("connect.decimal.precision", str(schema.get("precision")))
    return connect_type({"type": _CARRIERS.get(kind, kind), "name": name, "parameters": parameters})
