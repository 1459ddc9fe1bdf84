"""Decoded Avro values, also nested ones, as values of Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from penstock.formats.debezium.avro_schema import PRIMITIVES, connect_type_of
from penstock.formats.debezium.connect import ConnectType

_DECIMAL = "org.apache.kafka.connect.data.Decimal"
# The default context would round to 28 digits.
_EXACT = Context(prec=1000)
_NESTED = frozenset({"record", "array", "map"})
_MEMBER_UNITS = {
    "io.debezium.time.Date": pa.date32(),
    "io.debezium.time.Timestamp": pa.timestamp("ms"),
    "io.debezium.time.MicroTimestamp": pa.timestamp("us"),
    "io.debezium.time.NanoTimestamp": pa.timestamp("ns"),
    "org.apache.kafka.connect.data.Date": pa.date32(),
    "org.apache.kafka.connect.data.Timestamp": pa.timestamp("ms"),
}


def member_connect_type(schema: Mapping[str, Any]) -> ConnectType | None:
    """Return the Connect type of a value within records, arrays and maps; None if it is read by its Avro type.

    Only dates, timestamps and decimals are interpreted there.
    """
    kind = connect_type_of(schema)
    return kind if kind is not None and (kind.name in _MEMBER_UNITS or kind.name == _DECIMAL) else None


def arrow_type(schema: Mapping[str, Any]) -> pa.DataType:
    """Return the Arrow type for values in their Avro representation, nested ones included."""
    member = member_connect_type(schema)
    if member is not None:
        return _MEMBER_UNITS.get(str(member.name), pa.string())
    kind = schema["type"]
    if kind == "record":
        return pa.struct([(field["name"], arrow_type(field["type"])) for field in schema["fields"]])
    if kind == "array":
        return pa.list_(arrow_type(schema["items"]))
    if kind == "map":
        return pa.map_(pa.string(), arrow_type(schema["values"]))
    return PRIMITIVES[kind]


def is_arrow_value(schema: Mapping[str, Any]) -> bool:
    """Return whether pyarrow accepts all values of this schema as they are, so that `arrow_value` would change none."""
    member = member_connect_type(schema)
    return schema["type"] not in _NESTED if member is None else member.name != _DECIMAL


def arrow_value(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a value in the form that pyarrow accepts: maps as pairs, at any depth."""
    if value is None:
        return None
    member = member_connect_type(schema)
    if member is not None:
        return value if member.name != _DECIMAL else _plain(value, member.number("scale") or 0)
    match schema["type"]:
        case "record":
            return {field["name"]: arrow_value(value[field["name"]], field["type"]) for field in schema["fields"]}
        case "array":
            return [arrow_value(item, schema["items"]) for item in value]
        case "map":
            return [(key, arrow_value(item, schema["values"])) for key, item in value.items()]
    return value


def _plain(value: bytes, scale: int) -> str:
    return format(Decimal(int.from_bytes(value, signed=True)).scaleb(-scale, _EXACT), "f")
