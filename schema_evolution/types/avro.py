"""Types declared by Avro schemas, as registered by Debezium."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.formats.debezium.avro_schema import connect_type_of, member_connect_type
from penstock.schema_evolution.types.debezium import debezium_type
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.table.values.arrow_types import NO_ID
from penstock.table.values.types import BYTES, STRING, ArrayType, AtomicType, DataType, Field, MapType, RowType

_PLAIN: dict[str, DataType] = {
    "null": STRING,
    "boolean": AtomicType("BOOLEAN"),
    "int": AtomicType("INT"),
    "long": AtomicType("BIGINT"),
    "float": AtomicType("FLOAT"),
    "double": AtomicType("DOUBLE"),
    "bytes": BYTES,
    "fixed": BYTES,
    "string": STRING,
    "enum": STRING,
}
# Avro's own logical types that are more specific than the semantic names they would be read as.
_LOGICAL: dict[str, DataType] = {
    "time-micros": AtomicType("TIME", precision=6),
    "local-timestamp-millis": AtomicType("TIMESTAMP_LTZ", precision=3),
    "local-timestamp-micros": AtomicType("TIMESTAMP_LTZ", precision=6),
    "local-timestamp-nanos": AtomicType("TIMESTAMP_LTZ", precision=9),
}


def avro_type(declared: str, mapping: TypeMapping) -> DataType:
    """Return the Paimon type of an Avro schema in JSON."""
    schema = json.loads(declared)
    logical = None if "connect.name" in schema else _LOGICAL.get(schema.get("logicalType", ""))
    if logical is not None:
        is_time = isinstance(logical, AtomicType) and logical.root == "TIME"
        return STRING if is_time and mapping.time_to_string else logical
    kind = connect_type_of(schema)
    return _carried(schema, mapping) if kind is None else debezium_type(str(kind), mapping)


def _member(schema: Mapping[str, Any], mapping: TypeMapping) -> DataType:
    kind = member_connect_type(schema)
    return _carried(schema, mapping) if kind is None else debezium_type(str(kind), mapping)


def _carried(schema: Mapping[str, Any], mapping: TypeMapping) -> DataType:
    match schema["type"]:
        case "record":
            return RowType(tuple(Field(NO_ID, one["name"], _member(one["type"], mapping)) for one in schema["fields"]))
        case "array":
            return ArrayType(_member(schema["items"], mapping))
        case "map":
            return MapType(replace(STRING, nullable=False), _member(schema["values"], mapping))
        case plain:
            return _PLAIN[plain]
