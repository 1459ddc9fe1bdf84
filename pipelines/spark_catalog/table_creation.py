"""CREATE TABLE, CREATE TABLE LIKE and REPLACE TABLE of Spark, with what Spark's parser made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql.types import StructType

from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.spark_catalog.column_types import new_column, table_options
from penstock.pipelines.spark_catalog.request import Request
from penstock.storage.open import is_object_store
from penstock.table.catalog.replacement import name_beside, state_of, take_name
from penstock.table.options.definition import PATH, PRIMARY_KEY
from penstock.table.sql.ddl.definitions import copied_column

PROVIDERS = {"penstock", "paimon"}
_BYTES = "UTF8_BINARY"  # the collation of texts that are compared by their bytes


def create_table(request: Request) -> None:
    """Run CREATE TABLE. With LOCATION and without columns, the table in that folder gets a name."""
    _create(request, request.whole_table())


def create_staged(request: Request) -> str:
    """Run the first part of CREATE TABLE AS: create the table, and return its name.

    The name is another one until all rows are committed: a driver that dies leaves no table that looks complete. Not in
    object stores, where a rename would copy all files.
    """
    name = request.whole_table()
    _refuse_location(request)
    other = is_object_store(request.catalog.warehouse) or request.catalog.table_exists(name)
    new = name if other else name_beside(name, "new")
    _create(request, new)
    return new.partition(".")[2]


def name_staged(request: Request) -> None:
    """Run the last part of CREATE TABLE AS: give the table its name."""
    new = f"{request.database}.{request.given['new']}"
    try:
        request.catalog.rename_table(new, request.whole_table())
    except (OSError, PenstockError):
        request.catalog.drop_table(new)
        raise


def create_replacement(request: Request) -> dict[str, str]:
    """Run the first part of REPLACE TABLE: create the new table beside the old one.

    Return its name, and the state of the old one, which the last part compares.
    """
    name = request.whole_table()
    _refuse_location(request)
    new, since = name_beside(name, "new"), state_of(request.catalog, name)
    _create(request, new)
    return {"name": new.partition(".")[2], "since": since}


def replace_table(request: Request) -> None:
    """Run the last part of REPLACE TABLE: give the new table the name of the old one, which is dropped."""
    new = f"{request.database}.{request.given['new']}"
    take_name(request.catalog, new, request.whole_table(), str(request.given["since"]))


def _create(request: Request, name: str) -> None:
    properties = request.texts("properties")
    _check_new(properties, has_row_format=request.given.get("row_format", False))
    options = table_options(properties) | _path(properties)
    keys = tuple(request.given["keys"])
    named = key_columns(options.get(PRIMARY_KEY.key, ""))
    if keys and named:
        if set(keys) != named:
            raise ConfigError("PRIMARY KEY and the property primary-key differ", hint="remove one of the two")
        del options[PRIMARY_KEY.key]
    schema = StructType.fromJson(json.loads(request.given["schema"]))
    request.catalog.create_table(
        name,
        [new_column(field) for field in schema.fields],
        keys,
        [_partition_column(text) for text in request.given["partitions"]],
        options,
        properties.get("comment"),
    )


def _check_new(properties: Mapping[str, str], *, has_row_format: bool = False) -> None:
    provider = properties.get("provider", "penstock").lower()
    if provider not in PROVIDERS:
        raise ConfigError(
            f"the catalog contains only Paimon tables, not USING {provider}",
            hint='remove USING, or write .format("paimon"); for other formats use spark_catalog',
        )
    if properties.get("external") == "true" and "location" not in properties:
        raise ConfigError(
            "CREATE EXTERNAL TABLE needs LOCATION: DROP TABLE would delete the rows of a table without it",
            hint="remove EXTERNAL; or, with metastore=hive, add LOCATION",
        )
    collation = properties.get("collation", _BYTES)
    if collation.upper() != _BYTES:
        raise ConfigError(
            f"the texts of a table have no collation {collation}",
            hint="remove DEFAULT COLLATION, and compare lower(a) = lower(b) in queries",
        )
    # Spark passes the OPTIONS of a statement twice, the second time with the prefix "option.", but those of a table of
    # Hive once.
    options = {name.removeprefix("option."): name for name in properties if name.startswith("option.")}
    hive = [name for name in properties if name.startswith("hive.")]
    hive += [name for key, name in options.items() if key not in properties]
    if hive or has_row_format:
        clause = f": {hive[0]} = {properties[hive[0]]!r}" if hive else ""
        raise ConfigError(
            f"STORED AS and ROW FORMAT are for tables of Hive{clause}",
            hint="TBLPROPERTIES ('file.format' = 'parquet') sets the format of data files; orc and avro are possible",
        )


def _path(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the option of a table that has its location from Spark. The catalog refuses it if it chooses locations."""
    return {PATH.key: properties["location"]} if "location" in properties else {}


def _refuse_location(request: Request) -> None:
    """Refuse LOCATION where rows are written into a new table, which may take the place of another one."""
    location = request.texts("properties").get("location")
    if location is not None:
        raise ConfigError(
            "LOCATION is not possible with AS SELECT and with REPLACE",
            location=location,
            hint="remove LOCATION; or, with metastore=hive, CREATE TABLE with LOCATION first, and then INSERT",
        )


def _partition_column(text: str) -> str:
    """Return the column of an identity transform as Spark describes it."""
    if "(" in text:
        raise ConfigError(
            f"tables are not partitioned by {text}", hint="partition by a column, computed when rows are written"
        )
    return text.strip("`")


def create_table_like(request: Request) -> None:
    """Run CREATE TABLE LIKE another table of the catalog."""
    like = request.catalog.table(str(request.given["like"])).definition
    properties = request.texts("properties")
    _check_new(properties)
    # The path is that of the other table, and two tables must not share a folder.
    options = {key: value for key, value in like.options.items() if key != PATH.key}
    options |= table_options(properties) | _path(properties)
    request.catalog.create_table(
        request.whole_table(),
        [copied_column(column) for column in like.fields],
        like.primary_keys,
        like.partition_keys,
        options,
        properties.get("comment") or like.comment,
    )


def key_columns(text: str) -> set[str]:
    """Return the columns of a property that names a key."""
    return {part.strip() for part in text.split(",") if part.strip()}
