"""The columns of a data file: which ones it has, their field ids, and their Arrow layout.

Rows in memory have the table's columns; tables with a primary key add `_SEQUENCE_NUMBER` and `_VALUE_KIND` in front.
Files repeat the key in front as `_KEY_<column>`. Nothing ever reads these columns, since the key is among the value
columns too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import pyarrow as pa

from penstock.table.errors import NullRefused
from penstock.table.files.relayout import relayout_column
from penstock.table.options.files import DATA_FILE_THIN_MODE
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.validation import KEY_PREFIX
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.types import (
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    MultisetType,
    RowType,
    with_nullability,
)

# These ids, and those of the system columns, are the ids that Java assigns.
_KEY_ID_BASE = 2**30 - 1
_ELEMENT_ID_BASE = 2**29 - 1
_ELEMENT_IDS_PER_FIELD = 1024
# Batches of fewer rows cost more than they save, unless the rows are so long that a batch of each run is too much.
_BATCH_BYTES, _LEAST_BATCH_ROWS, _MOST_BATCH_BYTES = 4 << 20, 256, 32 << 20

SEQUENCE_NUMBER = Field(2147483646, "_SEQUENCE_NUMBER", AtomicType("BIGINT", nullable=False))
VALUE_KIND = Field(2147483645, "_VALUE_KIND", AtomicType("TINYINT", nullable=False))
SYSTEM_FIELDS = (SEQUENCE_NUMBER, VALUE_KIND)

_ID_ATTRIBUTE = {"parquet": "PARQUET:field_id", "orc": "paimon.id"}


def row_fields(schema: TableSchema) -> tuple[Field, ...]:
    """Return the columns of rows in memory."""
    return (*SYSTEM_FIELDS, *schema.fields) if schema.primary_keys else schema.fields


@lru_cache(maxsize=512)
def file_fields(schema: TableSchema) -> tuple[Field, ...]:
    """Return the columns of a data file, in the file's order."""
    if schema.typed[DATA_FILE_THIN_MODE]:
        return row_fields(schema)
    keys = schema.select(schema.trimmed_primary_keys)
    return (*(_key_field(key) for key in keys), *row_fields(schema))


def _key_field(field: Field) -> Field:
    type_ = with_nullability(field.type, nullable=False)
    return Field(_KEY_ID_BASE + field.id, KEY_PREFIX + field.name, type_)


def source_of(field: Field) -> str:
    """Return the name of the in-memory column that a file's column is written from."""
    return field.name.removeprefix(KEY_PREFIX) if field.id >= _KEY_ID_BASE else field.name


@lru_cache(maxsize=512)
def has_nanosecond_columns(fields: tuple[Field, ...]) -> bool:
    """Return whether the type of one of these columns contains such a timestamp."""
    return any(has_nanoseconds(field.type) for field in fields)


def has_nanoseconds(type_: DataType) -> bool:
    """Return whether the type contains, at any depth, a timestamp with more than six fractional digits."""
    match type_:
        case AtomicType("TIMESTAMP" | "TIMESTAMP_LTZ"):
            return type_.precision > 6
        case ArrayType(element) | MultisetType(element):
            return has_nanoseconds(element)
        case MapType(key, value):
            return has_nanoseconds(key) or has_nanoseconds(value)
        case RowType(fields):
            return any(has_nanoseconds(member.type) for member in fields)
    return False


@lru_cache(maxsize=512)
def stored_schema(fields: tuple[Field, ...], file_format: str) -> pa.Schema:
    """Return the Arrow schema that a Parquet or ORC file is written with: its units, nullability and field ids."""
    return pa.schema([stored_field(field, file_format) for field in fields])


# Shared by the schemas of a table's files, which differ in the columns without nulls (`null_free`).
@lru_cache(maxsize=16_384)
def stored_field(field: Field, file_format: str) -> pa.Field:
    """Return the Arrow field of a column in a file, with its field id."""
    stored = _stored(field.type, file_format, field.id, 0)
    return pa.field(field.name, stored, field.type.nullable, _numbered(file_format, field.id))


def element_id(column: int, depth: int, sign: int = 1) -> int:
    """Return the field id of the elements of an ARRAY or MAP that is `depth` constructed types deep in a column.

    `sign` is -1 for the keys of a MAP: Java counts the ids of elements and values upward from a base, and the ids of
    keys downward.
    """
    return _ELEMENT_ID_BASE + sign * (_ELEMENT_IDS_PER_FIELD * column + depth)


def _stored(type_: DataType, file_format: str, column: int, depth: int) -> pa.DataType:
    def member(name: str, of: DataType, sign: int = 1) -> pa.Field:
        inner = _stored(of, file_format, column, depth + 1)
        return pa.field(name, inner, of.nullable, _numbered(file_format, element_id(column, depth + 1, sign)))

    match type_:
        case AtomicType():
            return _stored_atom(type_, file_format)
        case ArrayType(element):
            return pa.list_(member("element", element))
        case MapType(key, value):
            return pa.map_(member("key", with_nullability(key, nullable=False), -1), member("value", value))
        case MultisetType(element):
            count = AtomicType("INT", nullable=False)
            return pa.map_(member("key", with_nullability(element, nullable=False), -1), member("value", count))
        case RowType(fields):
            return pa.struct([stored_field(inner, file_format) for inner in fields])


def _stored_atom(type_: AtomicType, file_format: str) -> pa.DataType:
    match type_.root:
        # ORC has no type for times of day. Java writes the milliseconds as an INT.
        case "TIME" if file_format == "orc":
            return pa.int32()
        case "TIMESTAMP" | "TIMESTAMP_LTZ" if file_format == "parquet" and type_.precision == 0:
            return to_arrow(replace(type_, precision=3))  # Parquet has no unit for whole seconds
    return to_arrow(type_)


def _numbered(file_format: str, number: int) -> dict[str, str]:
    return {_ID_ATTRIBUTE[file_format]: str(number)}


def stored_rows(rows: pa.Table, fields: tuple[Field, ...], stored: pa.Schema) -> pa.Table:
    """Return rows in memory as the columns of a file. Copies only columns whose layout differs.

    NullRefused when a NOT NULL column contains a null.
    """
    columns = []
    for field, place in zip(fields, stored, strict=True):
        column = rows.column(source_of(field))
        # Checked for every format: the Avro encoder would write such a null as zero or as an empty text.
        if not place.nullable and column.null_count:
            raise NullRefused(
                f"column {source_of(field)} is NOT NULL, but a row contains null",
                column=source_of(field),
                hint="set a value in every row, also in deletes, or make the column nullable",
            )
        columns.append(relayout_column(column, place.type))
    return pa.Table.from_arrays(columns, schema=stored)


def fitting_rows(batch_rows: int, row_bytes: int) -> int:
    """Return the number of rows of a batch: fewer when rows are long, since a merge holds a batch per sorted run."""
    size = max(row_bytes, 1)
    least = min(_LEAST_BATCH_ROWS, max(_MOST_BATCH_BYTES // size, 1))
    return min(batch_rows, max(least, _BATCH_BYTES // size))
