"""Validation of schemas by Paimon's own rules for columns, keys and buckets, before any other code uses them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from penstock.errors import ConfigError, did_you_mean
from penstock.table.options.buckets import BUCKET, BUCKET_FUNCTION_TYPE, BUCKET_KEY, LARGEST_BUCKET_COUNT
from penstock.table.options.changelogs import CHANGELOG_FILE_FORMAT
from penstock.table.options.files import FILE_FORMAT, FILE_FORMAT_PER_LEVEL
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.option_rules import check_options
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.type_text import written
from penstock.table.values.arguments import checked_text
from penstock.table.values.cast_rules import CastFailed
from penstock.table.values.casts import cast_array
from penstock.table.values.names import LONGEST_NEW
from penstock.table.values.partition_text import escaped
from penstock.table.values.types import (
    STRING,
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    MultisetType,
    RowType,
)


class UnusableName(ConfigError):
    """A name that Paimon does not allow for a table or column."""


# Paimon adds columns of these names to data files and system tables.
RESERVED = ("_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID")
KEY_PREFIX = "_KEY_"


def check_schema(schema: TableSchema, before: TableSchema | None = None) -> None:
    """Raise ConfigError for the first rule that the schema breaks; `before` is the version that is changed."""
    if not schema.fields:
        raise ConfigError("a table needs at least one column", hint="name a column with its type")
    _check_texts(schema)
    check_members(schema.fields)
    reserved = [repr(name) for name in schema.names if name in RESERVED or name.startswith(KEY_PREFIX)]
    if reserved:
        subject = f"name {reserved[0]} of a column is" if len(reserved) == 1 else f"names {', '.join(reserved)} are"
        raise UnusableName(f"the {subject} reserved", hint=f"so are {', '.join(RESERVED)} and {KEY_PREFIX}...")
    _check_keys(schema, schema.partition_keys, "partition key")
    _check_folders(schema)
    _check_keys(schema, schema.primary_keys, "primary key")
    if schema.primary_keys and set(schema.primary_keys) <= set(schema.partition_keys):
        raise ConfigError(
            "the primary key consists of partition columns only: each partition could contain only one row",
            primary_key=", ".join(schema.primary_keys),
            partition=", ".join(schema.partition_keys),
            hint="add a column to the primary key that is not a partition column",
        )
    _check_buckets(schema)
    _check_formats(schema)
    check_options(schema, before)


def _check_texts(schema: TableSchema) -> None:
    """Raise ConfigError for a value that is not a text, or not one that the file of the schema can contain."""
    _check_text(schema.comment, "the comment of the table")
    for key, value in schema.options.items():
        _check_text(key, "the name of an option")
        _check_text(value, f"the option {key!a}")
    for field in schema.fields:
        _check_text(field.name, "the name of a column")
        _check_text(field.description, f"the comment of the column {field.name!a}")
        _check_text(field.default, f"the default of the column {field.name!a}")


def _check_text(text: object, subject: str) -> None:
    if text is not None and text != "":
        checked_text(text, subject)


def check_members(fields: Iterable[Field]) -> None:
    """Raise ConfigError when a column or nested member has an empty name or the name of one of its siblings."""
    seen: set[str] = set()
    for field in fields:
        if not field.name.strip():
            raise ConfigError("a column has no name", hint="name the column")
        if field.name in seen:
            raise ConfigError(
                f"the name {field.name!r} is used twice",
                hint="rename one of the columns",
            )
        seen.add(field.name)
        _check_inside(field.type)


def _check_inside(type_: DataType) -> None:
    match type_:
        case ArrayType(inner) | MultisetType(inner):
            _check_inside(inner)
        case MapType(key, value):
            _check_inside(key)
            _check_inside(value)
        case RowType(fields):
            check_members(fields)


def check_columns(schema: TableSchema, names: Iterable[str], subject: str) -> None:
    """Raise ConfigError when one of the names is not a column."""
    for name in names:
        if name not in schema.names:
            hint = did_you_mean(name, schema.names, f"columns are {', '.join(schema.names)}")
            raise ConfigError(f"the {subject} names {name!r}, which is not a column", hint=hint)


def check_default(field: Field) -> None:
    """Raise ConfigError when the column's default cannot be cast to its type."""
    if field.default is None:
        return
    try:
        # Writes cast the default in the same way, and would fail on every row that needs it.
        cast_array(pa.array([field.default]), STRING, field.type)
    except (CastFailed, ConfigError) as reason:
        raise ConfigError(
            f"{field.default!r} cannot be the default of {written(field.type)}",
            column=field.name,
            hint="write a constant that the column's type can store",
        ) from reason


def _check_folders(schema: TableSchema) -> None:
    """Raise ConfigError if the name of a partition column leaves no room for a value in the name of a folder."""
    long = next((key for key in schema.partition_keys if len(escaped(key).encode()) > LONGEST_NEW), None)
    if long is not None:
        raise UnusableName(
            f"the name of the partition column {long[:80]!r} is too long for the name of a folder",
            hint=f"a name has {LONGEST_NEW} bytes at most, where characters with a meaning in paths count as three",
        )


def _check_keys(schema: TableSchema, keys: tuple[str, ...], subject: str) -> None:
    check_columns(schema, keys, subject)
    for key in keys:
        if keys.count(key) > 1:
            raise ConfigError(f"the {subject} names {key!r} twice", hint="name it once")
        type_ = schema.field(key).type
        if not isinstance(type_, AtomicType) or type_.root == "VARIANT":
            raise ConfigError(
                f"a column of this type cannot be in a {subject}",
                column=key,
                type=written(type_),
                hint="choose a column of another type; nested values have no order",
            )


def _check_buckets(schema: TableSchema) -> None:
    options = schema.typed
    bucket, keys = options[BUCKET], options[BUCKET_KEY]
    if bucket < -2 or bucket == 0 or bucket > LARGEST_BUCKET_COUNT:
        raise ConfigError(
            f"bucket = {bucket} is not a number of buckets", hint="use n > 0, -1 (dynamic) or -2 (postpone)"
        )
    if bucket == -2 and not schema.primary_keys:
        raise ConfigError("bucket = -2 (postpone) needs a primary key", hint="add a primary key, or leave bucket out")
    if bucket == -1 and keys:
        raise ConfigError(
            "a bucket-key has no effect with bucket = -1", hint="remove bucket-key, or set bucket to a number"
        )
    if bucket > 0 and not schema.primary_keys and not keys:
        raise ConfigError(
            "a table without a primary key needs a bucket-key to have buckets", hint="set bucket-key, or bucket = -1"
        )
    _check_keys(schema, keys, "bucket-key")
    for key in keys:
        if schema.primary_keys and key not in schema.primary_keys:
            raise ConfigError(
                "the bucket-key must be part of the primary key",
                column=key,
                hint=f"choose from {', '.join(schema.trimmed_primary_keys)}",
            )
    _check_bucket_function(schema, options, keys)


def _check_bucket_function(schema: TableSchema, options: TableOptions, keys: tuple[str, ...]) -> None:
    if options[BUCKET_FUNCTION_TYPE] == "default":
        return
    columns = schema.select(keys or (schema.trimmed_primary_keys if schema.primary_keys else ()))
    if [column.type.root for column in columns if isinstance(column.type, AtomicType)] not in (["INT"], ["BIGINT"]):
        raise ConfigError(
            "bucket-function.type = mod needs a bucket key of a single INT or BIGINT column",
            bucket_key=", ".join(column.name for column in columns) or None,
            hint="set bucket-key to one INT or BIGINT column, or reset bucket-function.type",
        )


def _check_formats(schema: TableSchema) -> None:
    options = schema.typed
    # A column must fit every format that any file of the table may have.
    levels = map(FILE_FORMAT.kind.parse, options[FILE_FORMAT_PER_LEVEL].values())
    formats = {options[FILE_FORMAT], *levels, options[CHANGELOG_FILE_FORMAT]}
    for column in schema.fields:
        for type_ in _atoms(column.type):
            if type_.root == "VARIANT" and formats & {"orc", "avro"}:
                raise ConfigError(
                    "VARIANT is supported in parquet files only",
                    column=column.name,
                    hint="set file.format = parquet, also for levels and changelog files",
                )
            if type_.root.startswith("TIMESTAMP") and type_.precision > 6 and "avro" in formats:
                raise ConfigError(
                    "avro files support timestamps of at most six digits",
                    column=column.name,
                    type=written(type_),
                    hint="declare TIMESTAMP(6), or use parquet or orc files",
                )


def _atoms(type_: DataType) -> Iterable[AtomicType]:
    match type_:
        case AtomicType():
            yield type_
        case ArrayType(inner) | MultisetType(inner):
            yield from _atoms(inner)
        case MapType(key, value):
            yield from _atoms(key)
            yield from _atoms(value)
        case RowType(fields):
            for field in fields:
                yield from _atoms(field.type)
