"""Types declared by Kafka Connect schemas, as used by Debezium, and by Avro schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.formats.debezium.avro_schema import connect_type_of
from penstock.formats.debezium.avro_values import member_connect_type
from penstock.formats.debezium.connect import SOURCE_LENGTH, SOURCE_SCALE, ZONED_TIMESTAMP, ConnectType
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.types.mysql import mysql_type
from penstock.table.values.arrow_types import NO_ID
from penstock.table.values.types import BYTES, STRING, ArrayType, AtomicType, DataType, Field, MapType, RowType

_MOST_DIGITS = 38
_BINARIES = {"BINARY", "VARBINARY"}
_TIME = "io.debezium.time."
_DATA = "io.debezium.data."
_CONNECT = "org.apache.kafka.connect.data."

_CARRIERS: dict[str, DataType] = {
    "int8": AtomicType("TINYINT"),
    "int16": AtomicType("SMALLINT"),
    "int32": AtomicType("INT"),
    "int64": AtomicType("BIGINT"),
    "float": AtomicType("FLOAT"),
    "float32": AtomicType("FLOAT"),
    "double": AtomicType("DOUBLE"),
    "float64": AtomicType("DOUBLE"),
    "boolean": AtomicType("BOOLEAN"),
    "bytes": BYTES,
    "string": STRING,
}
_SEMANTIC: dict[str, DataType] = {
    f"{_TIME}Date": AtomicType("DATE"),
    f"{_TIME}Time": AtomicType("TIME", precision=3),
    f"{_TIME}MicroTime": AtomicType("TIME"),
    f"{_TIME}NanoTime": AtomicType("TIME", precision=3),
    f"{_TIME}Timestamp": AtomicType("TIMESTAMP", precision=3),
    f"{_TIME}MicroTimestamp": AtomicType("TIMESTAMP", precision=6),
    f"{_TIME}NanoTimestamp": AtomicType("TIMESTAMP", precision=9),
    ZONED_TIMESTAMP: AtomicType("TIMESTAMP", precision=6),
    f"{_TIME}ZonedTime": STRING,
    f"{_TIME}Interval": STRING,
    f"{_TIME}MicroDuration": AtomicType("BIGINT"),
    f"{_TIME}NanoDuration": AtomicType("BIGINT"),
    f"{_TIME}Year": AtomicType("INT"),
    f"{_TIME}IsoDate": AtomicType("DATE"),
    f"{_TIME}IsoTime": AtomicType("TIME", precision=3),
    f"{_TIME}IsoTimestamp": AtomicType("TIMESTAMP", precision=6),
    f"{_CONNECT}Date": AtomicType("DATE"),
    f"{_CONNECT}Time": AtomicType("TIME", precision=3),
    f"{_CONNECT}Timestamp": AtomicType("TIMESTAMP", precision=3),
    f"{_DATA}VariableScaleDecimal": STRING,
    f"{_DATA}FloatVector": ArrayType(AtomicType("FLOAT")),
    f"{_DATA}DoubleVector": ArrayType(AtomicType("DOUBLE")),
}


def debezium_type(declared: str, mapping: TypeMapping) -> DataType:
    """Return the Paimon type of a Kafka Connect schema."""
    kind = ConnectType.parse(declared)
    if kind.source_type is not None:
        return _propagated(kind, kind.source_type, mapping)
    name = kind.name or ""
    if name == f"{_CONNECT}Decimal":
        return _decimal(kind)
    if name == f"{_DATA}Bits":
        return AtomicType("BINARY", length=((kind.number("length") or 1) + 7) // 8)
    known = _SEMANTIC.get(name)
    if known is not None:
        is_time = isinstance(known, AtomicType) and known.root == "TIME"
        return STRING if is_time and mapping.time_to_string else known
    return _CARRIERS.get(kind.carrier, STRING)


def _propagated(kind: ConnectType, source: str, mapping: TypeMapping) -> DataType:
    """Return the type of a column with a propagated source type: the mapping of the database's own types decides."""
    length, scale = kind.parameter(SOURCE_LENGTH), kind.parameter(SOURCE_SCALE)
    size = (f"({length},{scale})" if scale else f"({length})") if length else ""
    head, _, rest = source.partition(" ")
    found = mysql_type(f"{head}{size} {rest}".strip(), mapping)
    # Bytes are texts, in base64 or in hexadecimal digits. The message does not say which, and a text in one of these
    # forms may also pass for the other.
    is_digits = kind.carrier == "string" and isinstance(found, AtomicType) and found.root in _BINARIES
    return STRING if is_digits else found


def _decimal(kind: ConnectType) -> DataType:
    scale = kind.number("scale") or 0
    precision = kind.number("connect.decimal.precision")
    if scale > _MOST_DIGITS:
        return STRING
    if precision is None:
        # Paimon assumes 20 digits without a fraction if the precision is not declared.
        return AtomicType("DECIMAL", precision=_MOST_DIGITS if scale else 20, scale=scale)
    if precision > _MOST_DIGITS or scale > precision:
        return STRING
    return AtomicType("DECIMAL", precision=precision, scale=scale)


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
            return RowType(
                tuple(Field(NO_ID, field["name"], _member(field["type"], mapping)) for field in schema["fields"])
            )
        case "array":
            return ArrayType(_member(schema["items"], mapping))
        case "map":
            return MapType(replace(STRING, nullable=False), _member(schema["values"], mapping))
        case plain:
            return _PLAIN[plain]
