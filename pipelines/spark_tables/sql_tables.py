"""Tables that SQL knows by a name: `CREATE TABLE orders USING penstock LOCATION '/warehouse/shop.db/orders'`.

Spark asks for the columns once, when the name is made, and keeps them. To the readers and writers of later statements
it hands these columns and no options, so what names the table travels in the first column's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from penstock.errors import ConfigError
from penstock.pipelines.spark_tables.place import OWN
from penstock.table.schema.option_catalog import find

KEY = "penstock.table"


def remembered(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The columns for Spark's catalog, with what names their table; as they are where no name is being made."""
    if not {"provider", "location"} <= options.keys() or not schema.fields:
        return schema
    kept = {name: value for name, value in options.items() if _is_of_reads(name) or "${" in value}
    first, *others = schema.fields
    metadata = {**(first.metadata or {}), KEY: json.dumps(kept)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def _is_of_reads(name: str) -> bool:
    """Keys of stores are not: they would stand in the catalog for all to read, so only references to them are kept."""
    return name in OWN or find(name) is not None


def options_of(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Those of the read or write; where it goes by a name, those of the name below them."""
    given = dict(options)
    if given.get("path"):
        return given
    for field in schema.fields:
        told = (field.metadata or {}).get(KEY)
        if told is not None:
            return {str(name): str(value) for name, value in json.loads(told).items()} | given
    raise ConfigError(
        "no table is named",
        option="path",
        hint=".load(\"/warehouse/db.db/t\"); in SQL  CREATE TABLE t USING penstock LOCATION '/warehouse/db.db/t'"
        "  without columns",
    )
