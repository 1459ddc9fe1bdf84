"""The description of a table, with all that Spark needs to plan a statement on it."""

from __future__ import annotations

from typing import Any

from penstock.pipelines.spark_catalog.column_types import described_columns
from penstock.pipelines.spark_catalog.request import Request
from penstock.pipelines.spark_catalog.session_reads import session_reads
from penstock.pipelines.spark_catalog.view_statements import refuse_view_of
from penstock.pipelines.spark_source.keyed_changes import spread_by_bucket
from penstock.pipelines.spark_source.spark_options import CATALOG_TABLE, PLANNED_SNAPSHOT, travel_options
from penstock.pipelines.spark_source.table_place import CatalogTable, TablePlace
from penstock.pipelines.spark_source.table_read import TableRead, spark_schema
from penstock.row_kinds import ROWKIND
from penstock.table.catalog.base import parse_name
from penstock.table.handle import Table
from penstock.table.meta.store import TableMissing
from penstock.table.operations.row_changes import old_values_of_updates
from penstock.table.options.definition import PRIMARY_KEY
from penstock.table.system.tables import followed_options


def describe(request: Request) -> dict[str, Any] | None:
    """Return the description of a table, branch or system table; None if it does not exist."""
    base, branch, system = parse_name(request.name)
    if not request.catalog.table_exists(base):
        if request.given.get("table_only") or base != request.name:
            refuse_view_of(request)
        return None
    try:
        table = request.catalog.table(base if branch is None else f"{base}$branch_{branch}")
    except TableMissing:
        return None
    path = table.path + "".join(f"${part}" for part in (branch and f"branch_{branch}", system) if part)
    read = {CATALOG_TABLE.key: CatalogTable(request.settings, base).text(), **request.texts("read"), "path": path}
    given = request.texts("session"), str(request.given["catalog"]), request.database, base.partition(".")[2]
    session = session_reads(*given, request.catalog.table_exists)
    if request.given.get("newest"):
        session = {}
    if system is not None:
        session = followed_options(system, session)
    # A statement that names a snapshot reads that one, whatever the session has set.
    named = travel_options(read)
    session = {name: text for name, text in session.items() if name not in (travel_options(session) if named else read)}
    read = {**session, **read}
    if system is not None:
        return _system_table(read)
    place = TablePlace.of(read)
    # The option `branch` of a read wins over the branch in the name.
    if place.branch not in {branch, None}:
        table = request.catalog.table(f"{base}$branch_{place.branch}" if place.branch != "main" else base)
    return _table(table, read, place, kept=request.catalog.backend.keeps_files(base))


def _system_table(read: dict[str, str]) -> dict[str, Any]:
    schema = spark_schema(TableRead.of(TablePlace.of(read)).schema)
    return {"kind": "system", "read": read, "schema": schema.json(), "rows": None, "properties": {}}


def _table(table: Table, read: dict[str, str], place: TablePlace, *, kept: bool) -> dict[str, Any]:
    whole = TableRead.of(place)
    scan = whole.scan(table.store)
    latest = table.latest_snapshot
    if not scan.travel.travels and scan.between is None:
        # The statement reads this snapshot wherever it mentions the table, and its commit finds later ones.
        read |= {PLANNED_SNAPSHOT.key: str(latest.id if latest else 0)}
    schema = scan.table_schema()
    columns = described_columns(schema.fields)
    # A read that shows row kinds has one column more than the table, in front.
    if whole.schema.names[0] == ROWKIND and ROWKIND not in schema.names:
        columns = spark_schema(whole.schema)
    return {
        "kind": "keyed" if schema.primary_keys else "append",
        "read": read,
        "schema": columns.json(),
        "keys": schema.primary_keys,
        "partitions": schema.partition_keys,
        "spread": spread_by_bucket(table.store),
        "old": old_values_of_updates(schema),
        "properties": _properties(table, managed=not kept),
        # Records of all files before merging. Spark uses the number only as an estimate.
        "rows": None if latest is None else latest.total_record_count,
    }


def _properties(table: Table, *, managed: bool) -> dict[str, str]:
    # The path is the location, and not a property: what SHOW CREATE TABLE prints can then be run for another table.
    properties = {name: text for name, text in table.options.items() if name != "path"}
    if table.primary_keys:
        properties[PRIMARY_KEY.key] = ",".join(table.primary_keys)
    properties |= {"provider": "penstock", "location": table.path, "is_managed_location": str(managed).lower()}
    if not managed:
        properties["external"] = "true"
    if table.comment:
        properties["comment"] = table.comment
    return properties
