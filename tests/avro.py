"""Avro messages as Debezium's Avro converter writes them: schemas in Connect's spelling, Confluent's wire format."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import fastavro

_PRIMITIVES = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}


def optional(kind: Any) -> list[Any]:
    return ["null", kind]


def envelope(*fields: Mapping[str, Any]) -> dict[str, Any]:
    """As Debezium registers it: `after` names the type that `before` declares."""
    row = {"type": "record", "name": "Value", "fields": list(fields)}
    names = [{"name": "db", "type": "string"}, {"name": "table", "type": "string"}]
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "s.d.t",
        "fields": [
            {"name": "before", "type": optional(row), "default": None},
            {"name": "after", "type": optional("Value"), "default": None},
            {"name": "source", "type": {"type": "record", "name": "Source", "fields": names}},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": optional("long"), "default": None},
        ],
    }


def message(number: int, schema: Any, record: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return struct.pack(">bI", 0, number) + out.getvalue()


def change(number: int, schema: Any, operation: str, before: Any, after: Any) -> bytes:
    source = {"db": "d", "table": "t"}
    return message(number, schema, {"before": before, "after": after, "source": source, "op": operation, "ts_ms": 9})


def converted(schema: Mapping[str, Any], known: set[str] | None = None, place: str = "Top") -> Any:
    """The Avro schema that the converter registers for a Connect schema: names once, null first, semantics kept."""
    known = set() if known is None else known
    kind, name = schema["type"], schema.get("name")
    made: dict[str, Any]
    if kind == "struct":
        own = (name or place).replace("-", "_")
        if own in known:
            made = own  # type: ignore[assignment]
        else:
            known.add(own)
            fields = [
                {"name": item["field"], "type": converted(item, known, f"{place}_{item['field']}")}
                for item in schema["fields"]
            ]
            made = {"type": "record", "name": own, "fields": fields}
    elif kind == "array":
        made = {"type": "array", "items": converted(schema["items"], known, f"{place}_item")}
    else:
        made = {"type": _PRIMITIVES[kind]}
        if kind in {"int8", "int16"}:
            made["connect.type"] = kind
    if isinstance(made, dict):
        made |= {"connect.name": name} if name else {}
        made |= {"connect.parameters": schema["parameters"]} if schema.get("parameters") else {}
        if name == "org.apache.kafka.connect.data.Decimal":
            precision = int(schema["parameters"].get("connect.decimal.precision", 64))
            made |= {"logicalType": "decimal", "precision": precision, "scale": int(schema["parameters"]["scale"])}
    return optional(made) if schema.get("optional") else made


def value_of(schema: Mapping[str, Any], value: Any) -> Any:
    """A payload of the JSON converter as what Avro carries: bytes are bytes, decimals their unscaled bytes."""
    if value is None:
        return None
    match schema["type"]:
        case "struct":
            return {entry["field"]: value_of(entry, value.get(entry["field"])) for entry in schema["fields"]}
        case "array":
            return [value_of(schema["items"], item) for item in value]
        case "bytes":
            return base64.b64decode(value)
    return value


def without_logical(schema: Any) -> Any:
    """Return the schema without logical types, with which values are encoded: a decimal as its bytes."""
    if isinstance(schema, list):
        return [without_logical(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without_logical(value) for key, value in schema.items() if key != "logicalType"}
