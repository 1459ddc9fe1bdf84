"""The tables of the database `sys` in Spark, which describe the whole catalog: `lake.sys.all_table_options`."""

from __future__ import annotations

from typing import Any

from penstock.pipelines.spark_catalog.request import Request
from penstock.pipelines.spark_source.spark_options import CATALOG_TABLE, GLOBAL_TABLE
from penstock.pipelines.spark_source.table_place import CatalogTable
from penstock.pipelines.spark_source.table_read import spark_schema
from penstock.table.sql.queries.global_tables import global_schema, is_global


def names_global(request: Request) -> bool:
    """Return whether a request names such a table, and the catalog has no table of this name."""
    place = request.database, str(request.given["table"])
    return is_global(place) and not request.catalog.table_exists(request.base_name)


def describe_global(request: Request) -> dict[str, Any]:
    """Return the description of such a table for Spark."""
    table = str(request.given["table"])
    read = {CATALOG_TABLE.key: CatalogTable(request.settings, request.name).text(), GLOBAL_TABLE.key: table}
    schema = spark_schema(global_schema(table)).json()
    return {"kind": "system", "read": read, "schema": schema, "rows": None, "properties": {}}
