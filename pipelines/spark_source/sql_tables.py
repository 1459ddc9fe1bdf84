"""Tables that have a name in SQL: `CREATE TABLE orders USING penstock LOCATION '/warehouse/shop.db/orders'`.

Spark asks for the columns once, when the name is created, and stores them. Readers and writers of later statements
receive these columns but no options, so the options that identify the table are stored in the metadata of a column.

A writer receives the columns of the query, whose metadata may come from another table that was read, or from a file
once written from one: used without a check, `INSERT INTO a SELECT * FROM b` would write into b. Therefore the column
also carries Spark's own marker for a declared type. Spark removes this marker where it casts the columns of a query to
those of the table it writes to, and keeps it on columns that are passed through.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from penstock.errors import ConfigError
from penstock.pipelines.spark.versions import Feature
from penstock.pipelines.spark_source.spark_options import OWN
from penstock.table.options.catalog import find

KEY = "penstock.name"
_READ_ONLY = "penstock.table"  # in names created by older versions, which may still be in a metastore
_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
# Types that Spark can read back from their text.
_PLAIN: tuple[type[DataType], ...] = (
    StringType,
    IntegerType,
    LongType,
    ShortType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    BinaryType,
)
_BY_CATALOG = 'penstock.register(spark, catalog="lake", warehouse="/warehouse")'
_BY_PATH = "CREATE TEMPORARY VIEW v USING penstock OPTIONS (path '/warehouse/db.db/t'), then INSERT INTO v"


@dataclass(frozen=True, slots=True)
class NamedTable:
    """The content of a column's metadata: the options that identify the table, and the columns it had."""

    options: Mapping[str, str]
    columns: tuple[str, ...]
    passes_through: bool

    @classmethod
    def of(cls, schema: StructType) -> NamedTable | None:
        for field in schema.fields:
            metadata = field.metadata or {}
            text = metadata.get(KEY)
            if text is not None:
                kept = json.loads(text)
                options = {str(name): str(value) for name, value in kept["options"].items()}
                fitted = type(field.dataType) in _PLAIN and _DECLARED not in metadata
                return cls(options, tuple(kept["columns"]), passes_through=not fitted)
            if _READ_ONLY in metadata:
                options = {str(name): str(value) for name, value in json.loads(metadata[_READ_ONLY]).items()}
                return cls(options, _columns(schema), passes_through=True)
        return None


def remembered(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the columns for Spark's catalog, with the options that identify their table.

    Unchanged if no name is being created.
    """
    if not {"provider", "location"} <= options.keys() or not schema.fields:
        return schema
    kept = {name: value for name, value in options.items() if _is_of_reads(name) or "${" in value}
    # The marker for a declared type is a text of a type, so a column with a plain type is chosen if there is one.
    place = next((at for at, field in enumerate(schema.fields) if type(field.dataType) in _PLAIN), 0)
    fields = list(schema.fields)
    fields[place] = _marked(fields[place], json.dumps({"options": kept, "columns": _columns(schema)}))
    return StructType(fields)


def _marked(field: StructField, text: str) -> StructField:
    metadata = {**(field.metadata or {}), KEY: text}
    if type(field.dataType) in _PLAIN:
        metadata[_DECLARED] = str(field.dataType.simpleString())
    return StructField(field.name, field.dataType, field.nullable, metadata)


def _columns(schema: StructType) -> tuple[str, ...]:
    return tuple(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)


def _is_of_reads(name: str) -> bool:
    """Return whether the option concerns reads.

    Credentials of stores do not: in the catalog everyone could read them, so only references to them are kept.
    """
    return name in OWN or find(name) is not None


def read_options(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the options of a read. If it uses a table name, they override the options stored with the name."""
    own = dict(options)
    if own.get("path"):
        return own
    named = NamedTable.of(schema)
    if named is None:
        raise ConfigError(
            "no table is given. A name that was created by CREATE TABLE with columns, or lost a column by ALTER TABLE, "
            "has no table: Spark does not pass these statements on",
            option="path",
            hint='.load("/warehouse/db.db/t"); in SQL  CREATE TABLE t USING penstock LOCATION '
            "'/warehouse/db.db/t'  without columns, for a table that exists. Create tables in a catalog:  "
            f"{_BY_CATALOG}; CREATE TABLE lake.db.t (...)",
        )
    _refuse_altered(named, schema)
    return {**named.options, **own}


def write_options(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the options of a write.

    If it uses a table name, they override the options stored with the name, provided that the name certainly belongs to
    the target.
    """
    own = dict(options)
    if own.get("path"):
        return own
    Feature.NAMED_WRITES.require()
    named = NamedTable.of(schema)
    if named is None or named.passes_through:
        raise ConfigError(
            "Spark does not report which table this statement writes to; nothing was written. A name that was created "
            "by CREATE TABLE with columns has no table: Spark does not pass this statement on",
            hint=f"create tables in a catalog, where all statements and saveAsTable work:  {_BY_CATALOG}; "
            f"CREATE TABLE lake.db.t (...). For a table that exists:  {_BY_PATH}; or  "
            "df.write.format('penstock').mode('append').save('/warehouse/db.db/t'). INSERT INTO a name works without a "
            "list of columns if the columns of the SELECT have other names than the table's",
        )
    _refuse_altered(named, schema)
    return {**named.options, **own}


def _refuse_altered(named: NamedTable, schema: StructType) -> None:
    columns = _columns(schema)
    # Sorted, because a query may list the columns in another order.
    if sorted(columns) != sorted(named.columns):
        raise ConfigError(
            "Spark's ALTER TABLE changed the columns in Spark's catalog, but not the table",
            table=named.options.get("path"),
            of_the_name=", ".join(columns),
            of_the_table=", ".join(named.columns),
            hint="recreate the entry in Spark's catalog with DROP TABLE and CREATE TABLE ... USING penstock "
            f"LOCATION; alter the table itself in a catalog:  {_BY_CATALOG}; ALTER TABLE lake.db.t ...",
        )
