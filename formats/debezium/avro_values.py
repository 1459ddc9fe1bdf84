"""Decoded Avro values, also nested ones, as values of Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.byte_buffers import at_every_byte
from penstock.formats.debezium.avro_schema import PRIMITIVES, AvroColumn, connect_type_of
from penstock.formats.debezium.connect import ZONED_TIMESTAMP, ConnectType
from penstock.formats.debezium.connect_values import COLUMN_SCALE, integer_type, reader, scaled_texts
from penstock.formats.faults import Faults
from penstock.formats.row_builder import Read, each

_DECIMAL = "org.apache.kafka.connect.data.Decimal"
# The default context would round to 28 digits.
_EXACT = Context(prec=1000)
_NESTED = frozenset({"record", "array", "map"})
# By the type of the values: the Connect types without a semantic name whose columns are the values as they are.
_UNCHANGED = {pa.bool_(): ("boolean",), pa.binary(): ("bytes",), pa.string(): ("string",)}
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


def value_reader(column: AvroColumn) -> Read:
    """Return the function that makes the column of its decoded values."""
    kind = connect_type_of(column.schema)
    if kind is not None:
        return reader(column.name, str(kind))
    if is_arrow_value(column.schema):
        whole = arrow_type(column.schema)
        return lambda values, _faults: pa.array(values, whole)
    problem = f"the value of column {column.name} does not fit {column.schema['type']}"
    return each(lambda value: arrow_value(value, column.schema), arrow_type(column.schema), problem)


def column_of_values(column: AvroColumn, values: pa.Array, faults: Faults) -> pa.Array:
    """Return the column that `value_reader` would make of these values, which have the type that Avro gives them."""
    kind = connect_type_of(column.schema)
    if kind is None and is_arrow_value(column.schema):
        return values
    found = None if kind is None else _whole_column(kind, values)
    # Types without a conversion of whole columns are rare; their values are converted one by one.
    return value_reader(column)(values.to_pylist(), faults) if found is None else found


def _whole_column(kind: ConnectType, values: pa.Array) -> pa.Array | None:
    """Return the column, or None if its values have to be converted one by one."""
    stored, name = values.type, kind.name or ""
    if not name and kind.carrier in _UNCHANGED.get(stored, ()):
        return values
    try:
        if stored == pa.int64() and (whole := integer_type(str(kind))) is not None:
            return (values.cast(pa.int32()) if whole == pa.date32() else values).cast(whole)
        if stored == pa.binary() and name == _DECIMAL:
            numbers, scale = _short_integers(values), kind.number("scale") or 0
            return None if numbers is None or not 0 <= scale <= COLUMN_SCALE else scaled_texts(numbers, scale)
        if stored == pa.string() and name == ZONED_TIMESTAMP:
            return values.cast(pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:
        pass  # the reader of single values names the value that does not fit
    return None


def _short_integers(values: pa.Array) -> pa.Array | None:
    """Return big-endian integers of one to eight bytes as numbers, None if any has another length."""
    _, offsets, content = values.buffers()
    ends = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    sizes, present = np.diff(ends), np.asarray(values.is_valid())
    if not len(sizes) or ((sizes < 1) & present).any() or sizes.max() > 8:
        return None
    data = np.append(np.frombuffer(content, np.uint8), np.zeros(8, np.uint8))
    # The first byte is the highest one. Moving it down drops the bytes of the next values, and repeats the sign.
    numbers = at_every_byte(data, "V8")[ends[:-1]].view(">i8").astype(np.int64)
    numbers >>= np.minimum(64 - 8 * sizes, 63)
    return pa.array(numbers, mask=~present)
