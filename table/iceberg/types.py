"""The columns of a table as an Iceberg schema, and the rules for tables that Iceberg metadata can describe."""

from __future__ import annotations

from typing import Any

from penstock.errors import ConfigError
from penstock.table.files.columns import element_id
from penstock.table.files.encoding import encoding_of
from penstock.table.iceberg.avro_files import avro_codec
from penstock.table.options.changelogs import DELETION_VECTORS_BITMAP64, DELETION_VECTORS_ENABLED
from penstock.table.options.compaction import NUM_LEVELS, NUM_SORTED_RUN_COMPACTION_TRIGGER
from penstock.table.options.iceberg import ICEBERG_FORMAT_VERSION, ICEBERG_REST_URI, ICEBERG_STORAGE, ICEBERG_URI
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import ArrayType, AtomicType, DataType, Field, MapType, RowType, type_json

_PLAIN = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DATE": "date",
    "CHAR": "string",
    "VARCHAR": "string",
    "BINARY": "binary",
    "VARBINARY": "binary",
}
_TIMES = {"TIMESTAMP": "timestamp", "TIMESTAMP_LTZ": "timestamptz"}


def is_enabled(schema: TableSchema) -> bool:
    """Return whether Iceberg metadata is written for the table."""
    return schema.typed[ICEBERG_STORAGE] != "disabled"


def shown_level(schema: TableSchema) -> int:
    """Return the lowest level whose files Iceberg shows, which is the same in Java.

    Iceberg does not merge rows of one key. So for a table with keys it shows the files that a compaction wrote to the
    top level, or with deletion vectors to any level above 0.
    """
    if not schema.primary_keys:
        return 0
    options = schema.typed
    if options[DELETION_VECTORS_ENABLED]:
        return 1
    return options.get(NUM_LEVELS, options[NUM_SORTED_RUN_COMPACTION_TRIGGER] + 1) - 1


def check_shown_level(schema: TableSchema, before: TableSchema) -> None:
    """Raise ConfigError for another number of levels of a table whose files Iceberg shows.

    Files on the former top level would stay in the metadata beside those that replace them, or the metadata would have
    files of two levels, with two rows of one key.
    """
    old, new = shown_level(before), shown_level(schema)
    vectors = before.typed[DELETION_VECTORS_ENABLED] or schema.typed[DELETION_VECTORS_ENABLED]
    if before.primary_keys and is_enabled(before) and is_enabled(schema) and not vectors and old != new:
        raise ConfigError(
            f"the number of levels cannot change from {old + 1} to {new + 1} while Iceberg metadata is written: its"
            " readers would see old rows beside new ones",
            option=NUM_LEVELS.key,
            hint=f"set num-levels = {old + 1} in the same statement, which leaves other options free",
        )


def check_iceberg(schema: TableSchema) -> None:
    """Raise ConfigError for a table whose Iceberg metadata would be refused or misread."""
    options = schema.typed
    storage = options[ICEBERG_STORAGE]
    if storage == "disabled":
        return
    if storage == "rest-catalog" and options[ICEBERG_REST_URI] is None:
        raise ConfigError(
            "metadata.iceberg.storage = rest-catalog needs metadata.iceberg.rest.uri",
            hint="set the address of the Iceberg REST catalog, for example https://host/path, without the version v1",
        )
    if storage == "hive-catalog" and options[ICEBERG_URI] is None:
        raise ConfigError(
            "metadata.iceberg.storage = hive-catalog needs metadata.iceberg.uri",
            hint="set the address of the metastore, for example thrift://host:9083; hive-site.xml is not read",
        )
    if options[DELETION_VECTORS_ENABLED] and not (
        options[DELETION_VECTORS_BITMAP64] and options[ICEBERG_FORMAT_VERSION] == 3
    ):
        raise ConfigError(
            "Iceberg readers would show deleted rows of a table with deletion vectors",
            hint="set metadata.iceberg.format-version = 3 and deletion-vectors.bitmap64 = true",
        )
    written = encoding_of(options, shown_level(schema)).format
    if written != "parquet":
        raise ConfigError(
            f"Iceberg metadata needs Parquet files, not {written}",
            hint="set file.format = parquet, or by file.format.per.level for the levels above 0",
        )
    avro_codec(options)
    for column in schema.select(schema.partition_keys):
        if isinstance(column.type, AtomicType) and column.type.root == "DECIMAL":
            # Iceberg's specification and Java Paimon encode them in different ways, each of which the other misreads.
            raise ConfigError(
                "a table with Iceberg metadata cannot be partitioned by a DECIMAL column",
                column=column.name,
                hint="partition by an integer or a text",
            )
    iceberg_schema(schema)


def iceberg_schema(schema: TableSchema) -> dict[str, Any]:
    """Return the schema version in the form of metadata.json. Columns have the ids of the table's columns.

    Raise ConfigError for a column whose type Iceberg does not have.
    """
    version = schema.typed[ICEBERG_FORMAT_VERSION]
    fields = [_field(field, version, field.name) for field in schema.fields]
    return {"type": "struct", "schema-id": schema.id, "fields": fields}


def _field(field: Field, version: int, path: str) -> dict[str, Any]:
    node: dict[str, Any] = {
        "id": field.id,
        "name": field.name,
        "required": not field.type.nullable,
        "type": _type(field.type, version, path, field.id, 0),
    }
    return node if field.description is None else {**node, "doc": field.description}


def _type(type_: DataType, version: int, path: str, column: int, depth: int) -> Any:
    def inside(of: DataType, name: str) -> Any:
        return _type(of, version, f"{path}.{name}", column, depth + 1)

    match type_:
        case AtomicType():
            return _atom(type_, path)
        case ArrayType(element):
            return {
                "type": "list",
                "element-id": element_id(column, depth + 1),
                "element-required": not element.nullable,
                "element": inside(element, "element"),
            }
        case MapType(key, value):
            return {
                "type": "map",
                "key-id": element_id(column, depth + 1, -1),
                "key": inside(key, "key"),
                "value-id": element_id(column, depth + 1),
                "value-required": not value.nullable,
                "value": inside(value, "value"),
            }
        case RowType(fields):
            return {"type": "struct", "fields": [_field(field, version, f"{path}.{field.name}") for field in fields]}
    raise _unknown(type_, path)


def _atom(type_: AtomicType, path: str) -> str:
    plain = _PLAIN.get(type_.root)
    if plain is not None:
        return plain
    if type_.root == "DECIMAL":
        return f"decimal({type_.precision}, {type_.scale})"
    # Parquet files have milliseconds for fewer digits and INT96 for more. Iceberg's readers expect microseconds.
    if type_.root in _TIMES and 4 <= type_.precision <= 6:
        return _TIMES[type_.root]
    raise _unknown(type_, path)


def _unknown(type_: DataType, path: str) -> ConfigError:
    return ConfigError(
        "Iceberg has no such type",
        column=path,
        type=type_json(type_),
        hint="declare times as TIMESTAMP(6); TIME, VARIANT and MULTISET cannot be in a table with"
        " metadata.iceberg.storage",
    )


def highest_id(node: Any) -> int:
    """Return the highest id in an Iceberg schema or type, also of nested fields."""
    match node:
        case {"type": "struct", "fields": fields}:
            return max((max(field["id"], highest_id(field["type"])) for field in fields), default=0)
        case {"type": "list", "element-id": own, "element": element}:
            return max(int(own), highest_id(element))
        case {"type": "map", "value-id": own, "key": key, "value": value}:
            return max(int(own), highest_id(key), highest_id(value))
    return 0
