"""The procedures that rewrite files: compact, compact_database, compact_manifest, rescale."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.operations.selection import Selection, parse_buckets
from penstock.table.sql.procedures.procedure import Arguments, Procedure, snapshot_texts, table_of

_NOTHING = "nothing to compact"
_STRATEGIES = ("full", "minor")
_ORDERS = ("none", "order", "zorder", "hilbert")


def _compact(catalog: Catalog, given: Arguments) -> list[str]:
    table, only, options = table_of(catalog, given), _selection(given), given.options("options")
    full = given.one_of("compact_strategy", _STRATEGIES) == "full"
    order = given.one_of("order_strategy", _ORDERS)
    columns = given.names("order_by")
    if order == "none":
        if columns:
            raise ConfigError("order_by needs an order_strategy", hint=f"choices are {', '.join(_ORDERS[1:])}")
        return snapshot_texts(table.compact(full, only=only, options=options, executor=given.executor), _NOTHING)
    if only.idle_millis is not None or not full:
        raise ConfigError(
            "a sort does not support partition_idle_time or a minor strategy",
            hint="leave these arguments out, or order_strategy: a sort rewrites whole partitions",
        )
    return snapshot_texts(
        table.sort(columns, order, only=only, options=options, executor=given.executor), "nothing to sort"
    )


def _selection(given: Arguments) -> Selection:
    if given.text("where") is not None and given.text("partitions") is not None:
        raise ConfigError("partitions and where cannot be used together", hint="put the whole condition into where")
    buckets = given.text("buckets")
    return Selection(
        given.partitions("partitions"),
        given.text("where"),
        given.millis("partition_idle_time"),
        None if buckets is None else parse_buckets(buckets),
    )


def _compact_database(catalog: Catalog, given: Arguments) -> list[str]:
    """Compact one table after the other. Those before one that fails stay compacted."""
    # Both modes of Paimon compact the same tables; they differ in the Flink jobs that do it.
    given.one_of("mode", ("combined", "divided"))
    full = given.one_of("compact_strategy", _STRATEGIES) == "full"
    only, options = Selection(idle_millis=given.millis("partition_idle_time")), given.options("table_options")
    done = []
    for name in _tables(catalog, given):
        made = snapshot_texts(
            catalog.table(name).compact(full, only=only, options=options, executor=given.executor), _NOTHING
        )
        done += [f"{name}: {text}" for text in made]
    return done or ["no table matches the selection"]


def _tables(catalog: Catalog, given: Arguments) -> list[str]:
    """Return the tables whose full names match the regular expressions."""
    databases, included = given.expression("including_databases"), given.expression("including_tables")
    excluded = given.expression("excluding_tables")
    chosen = [name for name in catalog.databases() if databases is None or databases.fullmatch(name)]
    names = [f"{database}.{table}" for database in chosen for table in catalog.tables(database)]
    return [
        name
        for name in names
        if (included is None or included.fullmatch(name)) and not (excluded is not None and excluded.fullmatch(name))
    ]


def _compact_manifest(catalog: Catalog, given: Arguments) -> list[str]:
    done = table_of(catalog, given).compact_manifests(dry_run=given.flag("dry_run"), options=given.options("options"))
    if done.snapshot is not None:
        return [f"snapshot {done.snapshot.id}"]
    return list(done.paths) or ["nothing to merge"]


def _rescale(catalog: Catalog, given: Arguments) -> list[str]:
    table = table_of(catalog, given)
    partitions: Sequence[dict[str, object] | None] = given.partitions("partition") or [None]
    made = [
        snapshot for spec in partitions for snapshot in table.rescale(given.number("bucket_num"), spec, given.executor)
    ]
    return snapshot_texts(made, "no rows to rewrite")


COMPACTION_PROCEDURES = {
    "compact": Procedure(
        (
            "table",
            "partitions",
            "order_strategy",
            "order_by",
            "options",
            "where",
            "partition_idle_time",
            "compact_strategy",
            "buckets",
        ),
        1,
        _compact,
    ),
    "compact_database": Procedure(
        (
            "including_databases",
            "mode",
            "including_tables",
            "excluding_tables",
            "table_options",
            "partition_idle_time",
            "compact_strategy",
        ),
        0,
        _compact_database,
        {"options": "table_options"},
    ),
    "compact_manifest": Procedure(("table", "options", "dry_run"), 1, _compact_manifest),
    "rescale": Procedure(
        ("table", "bucket_num", "partition"),
        1,
        _rescale,
        {"partitions": "partition"},
        unused=("scan_parallelism", "sink_parallelism"),
    ),
}
