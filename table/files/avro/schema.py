"""The Avro schemas that Paimon uses in its data files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.table.errors import FormatUnknown
from penstock.table.values.types import ArrayType, AtomicType, DataType, Field, MapType, MultisetType, RowType

NAMESPACE = "org.apache.paimon.avro.generated"
_ROOT = f"{NAMESPACE}.record"
_PLAIN = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "CHAR": "string",
    "VARCHAR": "string",
    "BINARY": "bytes",
    "VARBINARY": "bytes",
}
# Paimon swaps the two logical types: its TIMESTAMP_LTZ uses `local-timestamp`, and its TIMESTAMP uses `timestamp`.
_TIMESTAMPS = {"TIMESTAMP": "timestamp", "TIMESTAMP_LTZ": "local-timestamp"}
# Nullable, although counts are not: that is the Avro type that Java writes.
COUNT = AtomicType("INT")


def record_schema(fields: Sequence[Field], name: str = _ROOT) -> dict[str, Any]:
    """Return the Avro record schema of `fields`."""
    members: list[dict[str, Any]] = []
    for field in fields:
        # Names of Avro records must differ, so Java derives the name of a nested record from its path.
        type_ = avro_type(field.type, f"{name}_{field.name}")
        members.append(
            {"name": field.name, "type": type_, "default": None}
            if field.type.nullable
            else {"name": field.name, "type": type_}
        )
    return {"type": "record", "name": name, "fields": members}


def avro_type(type_: DataType, name: str) -> Any:
    """Return the Avro schema of a type; a nullable type is a union with null."""
    plain = _not_null(type_, name)
    return ["null", plain] if type_.nullable else plain


def _not_null(type_: DataType, name: str) -> Any:
    match type_:
        case AtomicType():
            return _atom(type_, name)
        case ArrayType(element):
            return {"type": "array", "items": avro_type(element, name)}
        case MapType(key, value):
            return _map(key, value, name)
        case MultisetType(element):
            if not has_text_keys(element):  # Paimon for Java can neither read nor write it
                raise _refused("a MULTISET in an Avro file must be of text", name, "change the type to a MAP to INT")
            return _map(element, COUNT, name)
        case RowType(fields):
            return record_schema(fields, name)


def _atom(type_: AtomicType, name: str) -> Any:
    match type_.root:
        case "DECIMAL":
            return {"type": "bytes", "logicalType": "decimal", "precision": type_.precision, "scale": type_.scale}
        case "DATE":
            return {"type": "int", "logicalType": "date"}
        case "TIME":
            return {"type": "int", "logicalType": "time-millis"}
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            if type_.precision > 6:
                raise _refused(
                    f"Avro has no timestamps of {type_.precision} digits",
                    name,
                    "reduce its precision to 6 digits or fewer",
                )
            unit = "millis" if type_.precision <= 3 else "micros"
            return {"type": "long", "logicalType": f"{_TIMESTAMPS[type_.root]}-{unit}"}
        case "VARIANT":
            members = [{"name": "value", "type": "bytes"}, {"name": "metadata", "type": "bytes"}]
            return {"type": "record", "name": name, "fields": members}
    return _PLAIN[type_.root]


def _refused(limit: str, name: str, otherwise: str) -> FormatUnknown:
    column = name.removeprefix(f"{_ROOT}_")
    return FormatUnknown(f"Avro has {limit}", column=column, hint=f"write the table as Parquet, or {otherwise}")


def has_text_keys(key: DataType) -> bool:
    """Return whether map keys of this type are text, which is the only key type of an Avro map."""
    return isinstance(key, AtomicType) and key.root in ("CHAR", "VARCHAR")


def _map(key: DataType, value: DataType, name: str) -> Any:
    """Return an Avro map, or an array of key-value pairs where the keys are not text."""
    if has_text_keys(key):
        return {"type": "map", "values": avro_type(value, name)}
    members = [
        {"name": "key", "type": avro_type(key, f"{name}_key")},
        {"name": "value", "type": avro_type(value, f"{name}_value")},
    ]
    # By this logical type, Java distinguishes a MAP from an ARRAY of ROWs.
    return {"type": "array", "logicalType": "map", "items": {"type": "record", "name": name, "fields": members}}


def without_logical_types(schema: Any) -> Any:
    """Return the schema without logical types, which reads dates and decimals as plain integers and bytes."""
    if isinstance(schema, list):
        return [without_logical_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = ("logicalType", "precision", "scale")
    return {
        key: without_logical_types(value) if key in ("type", "items", "values", "fields") else value
        for key, value in schema.items()
        if key not in dropped
    }
