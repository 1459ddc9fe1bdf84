"""Conversion between Paimon's types and the Arrow types of the public API.

Data files may use other Arrow units; the file formats convert them. An Arrow schema has no field ids: every field that
is converted from Arrow has the id NO_ID, nested members included.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from penstock import late_pandas
from penstock.errors import ConfigError
from penstock.table.values.types import (
    BYTES,
    STRING,
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    MultisetType,
    RowType,
    with_nullability,
)

NO_ID = -1

# from_arrow recognizes a VARIANT by exactly these two members, both NOT NULL.
VARIANT_STRUCT = pa.struct(
    [pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False)]
)
_PLAIN = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    # Java keeps TIME in milliseconds, whatever its precision.
    "TIME": pa.time32("ms"),
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "VARIANT": VARIANT_STRUCT,
}
# Unsigned integers and half floats are widened to the next Paimon type that can represent all their values.
_FROM_PLAIN = {
    pa.bool_(): AtomicType("BOOLEAN"),
    pa.int8(): AtomicType("TINYINT"),
    pa.uint8(): AtomicType("SMALLINT"),
    pa.int16(): AtomicType("SMALLINT"),
    pa.uint16(): AtomicType("INT"),
    pa.int32(): AtomicType("INT"),
    pa.uint32(): AtomicType("BIGINT"),
    pa.int64(): AtomicType("BIGINT"),
    pa.uint64(): AtomicType("DECIMAL", precision=20),
    pa.float16(): AtomicType("FLOAT"),
    pa.float32(): AtomicType("FLOAT"),
    pa.float64(): AtomicType("DOUBLE"),
    pa.date32(): AtomicType("DATE"),
    pa.date64(): AtomicType("DATE"),
    pa.string(): STRING,
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.binary(): BYTES,
    pa.large_binary(): BYTES,
    pa.binary_view(): BYTES,
}
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def timestamp_unit(precision: int) -> str:
    """Return the coarsest unit of Arrow that can represent timestamps of this precision."""
    return ("s", "ms", "us", "ns")[-(-precision // 3)]


def to_arrow(type_: DataType) -> pa.DataType:
    """Return the Arrow type of a column in memory."""
    if isinstance(type_, AtomicType) and (plain := _PLAIN.get(type_.root)) is not None:
        return plain
    match type_:
        case AtomicType("DECIMAL"):
            return pa.decimal128(type_.precision, type_.scale)
        case AtomicType("TIMESTAMP"):
            return _timestamp(type_.precision)
        case AtomicType("TIMESTAMP_LTZ"):
            return _timestamp(type_.precision, "UTC")
        case AtomicType(root):
            raise KeyError(root)
        case ArrayType(element):
            return pa.list_(pa.field("element", to_arrow(element), element.nullable))
        case MapType(key, value):
            # Keys of Arrow's maps are never null, so only the value has a nullability.
            return pa.map_(to_arrow(key), pa.field("value", to_arrow(value), value.nullable))
        case MultisetType(element):
            return pa.map_(to_arrow(element), pa.field("value", pa.int32(), nullable=False))
        case RowType(fields):
            return pa.struct([arrow_field(field) for field in fields])


def _timestamp(precision: int, zone: str | None = None) -> pa.DataType:
    unit = timestamp_unit(precision)
    if unit == "ns":
        late_pandas.needed()
    return pa.timestamp(unit, zone)


def arrow_field(field: Field) -> pa.Field:
    metadata = None if field.description is None else {"description": field.description}
    return pa.field(field.name, to_arrow(field.type), field.type.nullable, metadata)


def arrow_schema(fields: Iterable[Field]) -> pa.Schema:
    return pa.schema([arrow_field(field) for field in fields])


def from_arrow(arrow: pa.DataType, *, nullable: bool) -> DataType:
    """Return the Paimon type that can represent every value of `arrow`.

    A map whose values are NOT NULL int32 becomes a MAP, never a MULTISET.
    """
    return with_nullability(_from_arrow(arrow), nullable)


def _from_arrow(arrow: pa.DataType) -> DataType:
    plain = _FROM_PLAIN.get(arrow)
    if plain is not None:
        return plain
    if pa.types.is_timestamp(arrow):
        return AtomicType("TIMESTAMP_LTZ" if arrow.tz else "TIMESTAMP", precision=_DIGITS[arrow.unit])
    if pa.types.is_time(arrow):
        return AtomicType("TIME", precision=_DIGITS[arrow.unit])
    if pa.types.is_decimal(arrow) and arrow.precision <= 38 and 0 <= arrow.scale <= arrow.precision:
        return AtomicType("DECIMAL", precision=arrow.precision, scale=arrow.scale)
    if pa.types.is_fixed_size_binary(arrow):
        return AtomicType("BINARY", length=arrow.byte_width)
    # A dictionary is an encoding of Arrow. Paimon has no type for it.
    if pa.types.is_dictionary(arrow):
        return _from_arrow(arrow.value_type)
    if pa.types.is_map(arrow):
        return MapType(from_arrow(arrow.key_type, nullable=False), _member(arrow.item_field))
    if _is_list(arrow):
        return ArrayType(_member(arrow.value_field))
    # This check must precede the one for structs, because a VARIANT is a struct in Arrow.
    if arrow.equals(VARIANT_STRUCT):
        return AtomicType("VARIANT")
    if pa.types.is_struct(arrow):
        return RowType(tuple(_field(arrow.field(i)) for i in range(arrow.num_fields)))
    raise ConfigError(f"no Paimon type corresponds to Arrow's {arrow}", hint="cast the column first")


def with_variants(arrow: pa.DataType) -> pa.DataType:
    """Return the type of a column that an engine has read, which says of no member that it is never null.

    A struct with the two members of a VARIANT is one.
    """
    if pa.types.is_struct(arrow):
        fields = [field.with_type(with_variants(field.type)) for field in arrow.fields]
        members = [(field.name, field.type) for field in fields]
        is_variant = members == [(field.name, field.type) for field in VARIANT_STRUCT.fields]
        return VARIANT_STRUCT if is_variant else pa.struct(fields)
    if pa.types.is_list(arrow):
        return pa.list_(arrow.value_field.with_type(with_variants(arrow.value_type)))
    if pa.types.is_map(arrow):
        return pa.map_(arrow.key_type, arrow.item_field.with_type(with_variants(arrow.item_type)))
    return arrow


def is_number(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_decimal(arrow))


def _is_list(arrow: pa.DataType) -> bool:
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view)
    return any(kind(arrow) for kind in (*kinds, pa.types.is_large_list_view))


def _member(field: pa.Field) -> DataType:
    return from_arrow(field.type, nullable=field.nullable)


def _field(field: pa.Field) -> Field:
    description = (field.metadata or {}).get(b"description")
    try:
        type_ = from_arrow(field.type, nullable=field.nullable)
    except ConfigError as error:
        raise ConfigError(error.message, column=field.name, hint=error.hint) from error
    return Field(NO_ID, field.name, type_, None if description is None else description.decode())


def fields_from_arrow(schema: pa.Schema) -> tuple[Field, ...]:
    """Return the columns of an Arrow schema, which have no field ids yet."""
    return tuple(_field(field) for field in schema)
