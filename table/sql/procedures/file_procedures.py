"""The procedures of partitions, and those that put files, statistics and entries of other catalogs in order."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.options.iceberg import ICEBERG_STORAGE
from penstock.table.options.partitions import PARTITION_DEFAULT_NAME
from penstock.table.schema.changes import UpdateColumnDefault
from penstock.table.sql.procedures.procedure import Arguments, Procedure, snapshot_texts, table_of

_EXPIRY = {
    "expiration_time": "partition.expiration-time",
    "timestamp_formatter": "partition.timestamp-formatter",
    "timestamp_pattern": "partition.timestamp-pattern",
    "expire_strategy": "partition.expiration-strategy",
    "max_expires": "partition.expiration-max-num",
}


def _partition_texts(table: Table, partitions: Sequence[dict[str, object]]) -> list[str]:
    null = table.definition.typed[PARTITION_DEFAULT_NAME]
    return [
        ",".join(f"{name}={null if value is None else value}" for name, value in partition.items())
        for partition in partitions
    ]


def _expire_partitions(catalog: Catalog, given: Arguments) -> list[str]:
    """Drop partitions that are too old; arguments override the table's options of the same meaning."""
    options = given.options("options")
    options |= {option: given.texts[name] for name, option in _EXPIRY.items() if name in given.texts}
    table = table_of(catalog, given)
    return _partition_texts(table, table.expire_partitions(options)) or ["no partition has expired"]


def _drop_partition(catalog: Catalog, given: Arguments) -> list[str]:
    made = table_of(catalog, given).drop_partitions(given.partitions("partitions") or [])
    texts = snapshot_texts(made, "no such partition")
    # A snapshot without changes is committed too, as in Paimon.
    return texts if any(snapshot.delta_record_count for snapshot in made) else [*texts, "these partitions had no rows"]


def _mark_partition_done(catalog: Catalog, given: Arguments) -> list[str]:
    table = table_of(catalog, given)
    return _partition_texts(table, table.mark_partitions_done(given.partitions("partitions") or []))


def _remove_orphan_files(catalog: Catalog, given: Arguments) -> list[str]:
    older_than, dry_run = given.moment("older_than"), given.flag("dry_run")
    return [
        orphan.path
        for table in _tables(catalog, given)
        for orphan in table.remove_orphan_files(dry_run=dry_run, older_than=older_than, executor=given.executor)
    ]


def _remove_unexisting_files(catalog: Catalog, given: Arguments) -> list[str]:
    dry_run = given.flag("dry_run")
    return [path for table in _tables(catalog, given) for path in table.remove_unexisting_files(dry_run=dry_run).paths]


def _tables(catalog: Catalog, given: Arguments) -> list[Table]:
    """Return the table that is named, or all tables of a database: `shop.*`."""
    database, _, name = given.needed("table").partition(".")
    if name != "*":
        return [table_of(catalog, given)]
    return [catalog.table(f"{database}.{table}") for table in catalog.tables(database)]


def _remove_unexisting_manifests(catalog: Catalog, given: Arguments) -> list[str]:
    return list(table_of(catalog, given).remove_unexisting_manifests(dry_run=given.flag("dry_run")).paths)


def _analyze(catalog: Catalog, given: Arguments) -> list[str]:
    made = table_of(catalog, given).analyze(given.names("columns") or None, given.executor)
    return snapshot_texts([made] if made else [], "the table is empty")


def _alter_column_default_value(catalog: Catalog, given: Arguments) -> None:
    change = UpdateColumnDefault(given.needed("column"), given.needed("default_value"))
    catalog.alter_table(given.needed("table"), [change])


def _repair(catalog: Catalog, given: Arguments) -> list[str]:
    return [f"{table.name}: {table.outcome}" for table in catalog.repair(given.text("database_or_table"))]


def publish_iceberg(table: Table) -> int | None:
    """Write the Iceberg metadata of a table, and return the snapshot that it contains; None without a snapshot."""
    published = table.publish_iceberg()
    if published is None and table.options.get(ICEBERG_STORAGE.key, "disabled") == "disabled":
        raise ConfigError(
            "the table has no Iceberg metadata",
            table=table.name,
            hint=f"set its option first: {ICEBERG_STORAGE.key} = table-location",
        )
    return published


def _publish_iceberg(catalog: Catalog, given: Arguments) -> str | None:
    published = publish_iceberg(table_of(catalog, given))
    return None if published is None else f"snapshot {published}"


FILE_PROCEDURES = {
    "expire_partitions": Procedure(("table", *_EXPIRY, "options"), 1, _expire_partitions),
    "drop_partition": Procedure(("table", "partitions"), 2, _drop_partition),
    "mark_partition_done": Procedure(("table", "partitions"), 2, _mark_partition_done),
    "remove_orphan_files": Procedure(
        ("table", "older_than", "dry_run"), 1, _remove_orphan_files, unused=("parallelism", "mode")
    ),
    "remove_unexisting_files": Procedure(("table", "dry_run"), 1, _remove_unexisting_files, unused=("parallelism",)),
    "remove_unexisting_manifests": Procedure(("table", "dry_run"), 1, _remove_unexisting_manifests),
    "analyze": Procedure(("table", "columns"), 1, _analyze),
    "alter_column_default_value": Procedure(("table", "column", "default_value"), 3, _alter_column_default_value),
    "repair": Procedure(("database_or_table",), 0, _repair, {"table": "database_or_table"}),
    "publish_iceberg": Procedure(("table",), 1, _publish_iceberg),
}
