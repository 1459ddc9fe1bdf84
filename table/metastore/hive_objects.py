"""The descriptions of tables and databases in a Hive metastore, as Java Paimon's HiveCatalog writes them."""

from __future__ import annotations

import copy
import getpass
import re
import time
from collections.abc import Iterable
from typing import Any

from pymetastore.hive_metastore import ttypes

from penstock.table.options.definition import METASTORE_PARTITIONED_TABLE, METASTORE_TAG_TO_PARTITION
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import ArrayType, AtomicType, DataType, Field, MapType, MultisetType, RowType

INPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonInputFormat"
_OUTPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonOutputFormat"
_SERDE = "org.apache.paimon.hive.PaimonSerDe"
# For tables whose own readers do not use Hive's formats.
_ANY_INPUT_FORMAT = "org.apache.hadoop.mapred.FileInputFormat"
_ANY_OUTPUT_FORMAT = "org.apache.hadoop.mapred.FileOutputFormat"
_ANY_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
# Hive names these for tables without files.
_VIEW_INPUT_FORMAT = "org.apache.hadoop.mapred.SequenceFileInputFormat"
_VIEW_OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"
_VIEW_SERDE = "org.apache.hadoop.hive.serde2.MetadataTypedColumnsetSerDe"
_HANDLER = "org.apache.paimon.hive.PaimonStorageHandler"
# The greatest lengths that Hive allows.
_LONGEST = {"CHAR": 255, "VARCHAR": 65535}
# Hive has no type of times of day; Java declares them as string.
_SIMPLE = {"TIME": "string", "BINARY": "binary", "VARBINARY": "binary", "TIMESTAMP": "timestamp"}
_SIMPLE |= {"TIMESTAMP_LTZ": "timestamp", "VARIANT": "struct<value:binary,metadata:binary>"}
_DERIVED = frozenset({"partition", "primary-key", "bucket-key", "comment"})


def hive_type(type_: DataType) -> str:
    """Return the Hive type in which Java shows a column."""
    match type_:
        case AtomicType("DECIMAL"):
            return f"decimal({type_.precision},{type_.scale})"
        case AtomicType("CHAR" | "VARCHAR" as root):
            return f"{root.lower()}({type_.length})" if type_.length <= _LONGEST[root] else "string"
        case AtomicType(root):
            return _SIMPLE.get(root, root.lower())
        case ArrayType(element):
            return f"array<{hive_type(element)}>"
        case MultisetType(element):
            return f"map<{hive_type(element)},int>"
        case MapType(key, value):
            return f"map<{hive_type(key)},{hive_type(value)}>"
        case RowType(fields):
            return f"struct<{','.join(f'{field.name}:{hive_type(field.type)}' for field in fields)}>"


def new_table(database: str, table: str, location: str, schema: TableSchema, *, external: bool = False) -> Any:
    """Return the description of a managed table, or of an external one, whose files stay when it is dropped."""
    described = _table(database, table, location, _parameters(schema))
    keys = partition_columns(schema)
    # Partition columns are ordinary columns for the metastore unless it has the partitions themselves.
    described.sd.cols = [column for column in columns(schema) if column.name not in keys]
    described.sd.inputFormat, described.sd.outputFormat = INPUT_FORMAT, _OUTPUT_FORMAT
    described.sd.serdeInfo.serializationLib = _SERDE
    described.partitionKeys = [_partition_column(schema, name) for name in keys]
    described.tableType = "MANAGED_TABLE"
    if external:
        described.tableType, described.parameters["EXTERNAL"] = "EXTERNAL_TABLE", "TRUE"
    return described


def new_iceberg_table(database: str, table: str, location: str, schema: TableSchema, parameters: dict[str, str]) -> Any:
    """Return the description of an external table that Iceberg's readers find; Java Paimon writes the same."""
    described = _table(database, table, location, parameters)
    described.sd.cols = columns(schema)
    described.sd.inputFormat, described.sd.outputFormat = _ANY_INPUT_FORMAT, _ANY_OUTPUT_FORMAT
    described.sd.serdeInfo.serializationLib = _ANY_SERDE
    described.tableType = "EXTERNAL_TABLE"
    return described


def new_view(
    database: str,
    view: str,
    query: str,
    columns: Iterable[tuple[str, DataType, str | None]],
    parameters: dict[str, str],
) -> Any:
    """Return the description of a view as Java Paimon writes it: the text of its query, and no files."""
    described = _table(database, view, None, parameters)
    described.sd.cols = [ttypes.FieldSchema(name=name, type=hive_type(type_), comment=c) for name, type_, c in columns]
    described.sd.inputFormat, described.sd.outputFormat = _VIEW_INPUT_FORMAT, _VIEW_OUTPUT_FORMAT
    described.sd.serdeInfo.serializationLib = _VIEW_SERDE
    described.viewOriginalText = described.viewExpandedText = query
    described.tableType = "VIRTUAL_VIEW"
    return described


def _table(database: str, table: str, location: str | None, parameters: dict[str, str]) -> Any:
    now = int(time.time())  # for people: nothing depends on it
    storage = ttypes.StorageDescriptor(
        location=location,
        compressed=False,
        numBuckets=0,
        serdeInfo=ttypes.SerDeInfo(parameters={}),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )
    return ttypes.Table(
        tableName=table,
        dbName=database,
        owner=getpass.getuser(),
        createTime=now,
        lastAccessTime=now,
        retention=2147483647,
        sd=storage,
        partitionKeys=[],
        parameters=parameters,
    )


def partition_columns(schema: TableSchema) -> tuple[str, ...]:
    """Return the columns by which the metastore divides a table: partition columns, the column of tags, or none."""
    shown = schema.typed[METASTORE_PARTITIONED_TABLE]
    if schema.partition_keys and shown:
        return schema.partition_keys
    of_tags = schema.typed[METASTORE_TAG_TO_PARTITION]
    return (of_tags,) if of_tags else ()


def shows_tags(schema: TableSchema) -> bool:
    """Return whether the metastore shows the tags of a table as its partitions."""
    return bool(schema.typed[METASTORE_TAG_TO_PARTITION])


def _partition_column(schema: TableSchema, name: str) -> Any:
    return ttypes.FieldSchema(name=name, type="string") if shows_tags(schema) else _column(schema.field(name))


def new_partition(described: Any, folder: str, values: list[str]) -> Any:
    """Return the description of a partition of a table, in a folder such as `dt=a/hour=1`."""
    now = int(time.time())  # for people: nothing depends on it
    storage = copy.copy(described.sd)
    storage.location = f"{described.sd.location.rstrip('/')}/{folder}"
    return ttypes.Partition(
        values=values,
        dbName=described.dbName,
        tableName=described.tableName,
        createTime=now,
        lastAccessTime=now,
        sd=storage,
        parameters={},
    )


def update(described: Any, schema: TableSchema, former: Iterable[str]) -> bool:
    """Change the description of a table to match its schema, and return whether it differed.

    Parameters that other programs added are kept; parameters of `former` options, which the table no longer has, are
    removed.
    """
    own = _DERIVED.union(former)
    kept = {key: text for key, text in (described.parameters or {}).items() if key not in own}
    before = (described.sd.cols, dict(described.parameters or {}))
    keys = {key.name for key in described.partitionKeys or ()}
    described.sd.cols = [column for column in columns(schema) if column.name not in keys]
    described.parameters = kept | _parameters(schema)
    return bool(before != (described.sd.cols, described.parameters))


def columns(schema: TableSchema) -> list[Any]:
    """Return the columns of a table in Hive's types."""
    return [_column(field) for field in schema.fields]


def _column(field: Field) -> Any:
    return ttypes.FieldSchema(name=field.name, type=hive_type(field.type), comment=field.description)


def _parameters(schema: TableSchema) -> dict[str, str]:
    parameters = schema.options | {"table_type": "PAIMON", "storage_handler": _HANDLER}
    if schema.partition_keys:
        parameters["partition"] = ",".join(schema.partition_keys)
    if schema.primary_keys:
        parameters["primary-key"] = ",".join(schema.primary_keys)
        # As Java does, also when the bucket key only follows from the primary key.
        parameters.setdefault("bucket-key", ",".join(schema.trimmed_primary_keys))
    if schema.comment:
        parameters["comment"] = schema.comment
    return parameters


def is_paimon(described: Any) -> bool:
    """Return whether a table is one of Paimon; Java examines the input format as well."""
    return bool(described.sd and described.sd.inputFormat == INPUT_FORMAT)


def view_type(text: str) -> str:
    """Return the type of a column of a view, as Hive writes it, as the text of a type of Paimon."""
    members = re.sub(r"(?<=[<,])([^<>,:()]+):", r"`\1` ", text)
    return re.sub(r"(?<!`)\bbinary\b(?!`)", "bytes", re.sub(r"\bstruct<", "row<", members))


def is_view(described: Any) -> bool:
    """Return whether a table of the metastore is a view."""
    return bool(described.tableType == "VIRTUAL_VIEW")


def is_external(described: Any) -> bool:
    """Return whether dropping the table keeps its files.

    Hive 4 turns managed tables into external ones, and marks them: their files are deleted with them, unless
    `external.table.purge` was changed.
    """
    parameters = {key: text.upper() for key, text in (described.parameters or {}).items()}
    if parameters.get("TRANSLATED_TO_EXTERNAL") == "TRUE" and parameters.get("external.table.purge") != "FALSE":
        return False
    return bool(described.tableType == "EXTERNAL_TABLE" or parameters.get("EXTERNAL") == "TRUE")


def new_database(name: str, location: str, properties: dict[str, str]) -> Any:
    """Return the description of a database; the property `comment` is its description."""
    parameters = dict(properties)
    comment = parameters.pop("comment", None)
    return ttypes.Database(name=name, description=comment, locationUri=location, parameters=parameters)
