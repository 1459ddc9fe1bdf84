"""Paimon's actions that rewrite rows: delete, rescale, clone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.ingest.sync_actions import Flag, pairs
from penstock.pipelines.commands.arguments import Flags, parse
from penstock.pipelines.commands.execution import EXECUTION, also, executor_of
from penstock.pipelines.commands.output import answer, committed
from penstock.pipelines.commands.table_commands import TABLE_COMMANDS
from penstock.pipelines.commands.target import (
    ON_TABLE,
    PARTITION,
    WAREHOUSE,
    catalog_of,
    chosen,
    needed,
    number,
    partitions,
    table_of,
    text,
    yes,
)

if TYPE_CHECKING:
    from penstock.table.catalog.catalog import Catalog
    from penstock.table.handle import Table
    from penstock.table.meta.snapshot import Snapshot

_SOURCE_AND_TARGET = (
    *WAREHOUSE,
    Flag("database", "database to clone from (default: all)", metavar="NAME"),
    Flag("table", "table to clone (default: all tables of the database)", metavar="NAME"),
    Flag("target-warehouse", "warehouse to clone to", metavar="PATH"),
    Flag("target-catalog-conf", "option of the target catalog; may be repeated", "pairs", "K=V"),
    Flag("target-database", "target database (default: the same name)", metavar="NAME"),
    Flag("target-table", "target table (default: the same name)", metavar="NAME"),
)
_FLAGS = {
    "copy-files": (*_SOURCE_AND_TARGET, *EXECUTION),
    "delete": (
        *ON_TABLE,
        Flag("where", "rows to select, as an SQL condition", metavar="SQL", required=True),
        Flag(
            "source-sql",
            "a statement to run first, which creates a view that the condition uses; may be repeated",
            "texts",
            "SQL",
        ),
        *EXECUTION,
        *also("sink-parallelism"),
    ),
    "rescale": (
        *ON_TABLE,
        Flag("bucket-num", "the new number of buckets (default: the table's option)", metavar="N"),
        PARTITION,
        *EXECUTION,
        *also("scan-parallelism", "sink-parallelism"),
    ),
    "clone": (
        *_SOURCE_AND_TARGET,
        Flag("target-table-conf", "option of the new tables; may be repeated", "pairs", "K=V"),
        Flag("where", "rows to select, as an SQL condition", metavar="SQL"),
        Flag("included-tables", "tables as db.table, as a regular expression (default: .*)", metavar="REGEX"),
        Flag("excluded-tables", "tables to exclude; wins over the included ones", metavar="REGEX"),
        Flag("meta-only", "do not copy rows (default: false)", "bool"),
        Flag("prefer-file-format", "file format of the new tables: parquet, orc or avro", metavar="NAME"),
        Flag("clone-from", "paimon; use Spark to read other formats (default: paimon)", metavar="NAME"),
        Flag("clone-if-exists", "overwrite an existing table that has the same columns (default: false)", "bool"),
        *EXECUTION,
    ),
}


def command(name: str, words: list[str]) -> int:
    flags = parse(name, _FLAGS[name], words, TABLE_COMMANDS[name][1])
    run = {
        "delete": _delete,
        "rescale": _rescale,
        "clone": _clone,
        "copy-files": _copy_files,
    }[name]
    return run(flags)


def _delete(flags: Flags) -> int:
    where = needed(flags, "where")
    if "source-sql" not in flags:
        table = table_of(flags)
        with executor_of(flags, "delete") as executor:
            return committed(flags, _ids(table.delete(where, executor)), "no row matches the condition")
    refused = [name for name in ("master", "spark-conf", "parallelism", "sink-parallelism") if name in flags]
    if refused:
        raise ConfigError(
            f"--{refused[0]} cannot be used with --source-sql: DuckDB runs its statements in this process",
            hint="delete with Spark SQL: DELETE FROM lake.db.t WHERE ... in a registered catalog",
        )
    from penstock.table.sql.dml.merge_into import delete_by_query

    name = f"{needed(flags, 'database')}.{needed(flags, 'table')}"
    made = delete_by_query(catalog_of(flags), name, where, flags["source-sql"])
    return committed(flags, _ids(made), "no row matches the condition")


def _rescale(flags: Flags) -> int:
    """Rescale the table, or the single partition that the command needs for a partitioned one, as in Paimon."""
    table, specs = table_of(flags), partitions(flags)
    if table.partition_keys and len(specs) != 1:
        raise ConfigError("select the partition to rescale", table=table.name, hint="--partition dt=2026-01-31")
    buckets = number(flags, "bucket-num")
    with executor_of(flags, "rescale") as executor:
        snapshots = table.rescale(buckets, specs[0] if specs else None, executor)
    return committed(flags, _ids(snapshots), "the table is empty", _other_option(table, buckets))


def _other_option(table: Table, buckets: int | None) -> str:
    """Return a note if the table's option has another number. With bucket = -2 each partition has its own."""
    option = table.options.get("bucket")
    if buckets is None or option in {str(buckets), "-2"}:
        return ""
    return f"\nthe table's option is still bucket = {option}: writers are refused until it is {buckets}"


def _ids(snapshots: Sequence[Snapshot]) -> list[int]:
    return [snapshot.id for snapshot in snapshots]


def _clone(flags: Flags) -> int:
    """Clone one table after the other. Those before one that fails remain."""
    from penstock.table.catalog.clone import clone_table

    source = catalog_of(flags)
    conf, target = _options(flags), _target(flags, source)
    cloned = {}
    with executor_of(flags, "clone") as executor:
        for name in _names(flags, source):
            cloned[name] = _target_name(flags, name)
            clone_table(
                source.table(name),
                target,
                cloned[name],
                where=text(flags, "where"),
                options=conf,
                into_existing=yes(flags, "clone-if-exists"),
                rows=not yes(flags, "meta-only"),
                executor=executor,
            )
    said = "\n".join(f"{name}  ->  {new}" for name, new in cloned.items())
    return answer(flags, {"tables": cloned, "warehouse": target.warehouse}, said or "no table matches the selection")


def _target_name(flags: Flags, name: str) -> str:
    database, _, table = name.partition(".")
    return f"{text(flags, 'target-database') or database}.{text(flags, 'target-table') or table}"


def _target(flags: Flags, source: Catalog) -> Catalog:
    """Return the catalog of the copies: the source's catalog, unless another warehouse or catalog is given."""
    from penstock.storage.open import one_place
    from penstock.table.catalog.catalog import Catalog

    options = pairs(flags.get("target-catalog-conf", ()))
    given, named = text(flags, "target-warehouse"), options.pop("warehouse", None)
    warehouse = one_place("--target-warehouse", given, "--target-catalog-conf", named)
    return Catalog(warehouse or source.warehouse, options) if warehouse or options else source


def _options(flags: Flags) -> dict[str, str]:
    if (text(flags, "clone-from") or "paimon").lower() != "paimon":
        raise ConfigError(
            f"tables of {text(flags, 'clone-from')} cannot be cloned: Penstock does not read their metastore",
            hint='read the tables with Spark and write them with  df.write.format("penstock")',
        )
    preferred = text(flags, "prefer-file-format")
    return {**({"file.format": preferred} if preferred else {}), **pairs(flags.get("target-table-conf", ()))}


def _copy_files(flags: Flags) -> int:
    """Copy the tables file by file, without reading their rows."""
    from penstock.table.catalog.clone import copy_table

    source = catalog_of(flags)
    target, copied = _target(flags, source), {}
    with executor_of(flags, "copy-files", waits=True) as executor:
        for name in _names(flags, source):
            copied[name] = _target_name(flags, name)
            copy_table(source.table(name), target, copied[name], executor)
    said = "\n".join(f"{name}  ->  {new}" for name, new in copied.items())
    return answer(flags, {"tables": copied, "warehouse": target.warehouse}, said or "no table matches the selection")


def _names(flags: Flags, source: Catalog) -> list[str]:
    database, table = text(flags, "database"), text(flags, "table")
    if table is not None:
        return [f"{needed(flags, 'database')}.{table}"]
    if "target-table" in flags:
        raise ConfigError(
            "--target-table names one table, but several tables would be cloned", hint="select one with --table"
        )
    names = [
        f"{own_database}.{name}"
        for own_database in ([database] if database else source.databases())
        for name in source.tables(own_database)
    ]
    return chosen(flags, names, "included-tables", "excluded-tables")
