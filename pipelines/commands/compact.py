"""`penstock compact` and `penstock compact-database`: compaction as a separate job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import CommitConflict, ConfigError
from penstock.ingest.sync_actions import Flag, pairs
from penstock.pipelines.commands.arguments import Flags, parse
from penstock.pipelines.commands.execution import EXECUTION, executor_of
from penstock.pipelines.commands.output import answer
from penstock.pipelines.commands.table_commands import TABLE_COMMANDS
from penstock.pipelines.commands.target import (
    ON_TABLE,
    PARTITION,
    WAREHOUSE,
    catalog_of,
    chosen,
    millis,
    needed,
    partitions,
    table_of,
    text,
    warehouse_of,
    yes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.table.catalog.catalog import Catalog
    from penstock.table.operations.executor import Executor
    from penstock.table.operations.selection import Selection

_SHARED = (
    Flag(
        "compact-strategy",
        "full: compact everything; minor: only what is due (default: full, with --watch minor)",
        metavar="full|minor",
    ),
    Flag("partition-idle-time", "only partitions that got no rows for this time, for example 1 h", metavar="TIME"),
    Flag("table-conf", "option that overrides the table's option in this job; may be repeated", "pairs", "K=V"),
    Flag("watch", "keep watching: compact what other jobs write, until stopped (default: false)", "bool"),
    Flag("interval", "with --watch, how long to wait when nothing is due (default: 10 s)", metavar="TIME"),
    *EXECUTION,
)
_FLAGS = {
    "compact": (
        *ON_TABLE,
        PARTITION,
        Flag("where", "partitions to compact, as an SQL condition on the partition columns", metavar="SQL"),
        Flag("buckets", "buckets to compact: 0-9,20 (default: all)", metavar="LIST"),
        Flag("order-strategy", "rewrite an append table in this order", metavar="order|zorder|hilbert"),
        Flag("order-by", "columns to sort by", metavar="A,B"),
        *_SHARED,
    ),
    "compact-database": (
        *WAREHOUSE,
        Flag("including-databases", "databases, as a regular expression (default: .*)", metavar="REGEX"),
        Flag("including-tables", "tables as db.table, as a regular expression (default: .*)", metavar="REGEX"),
        Flag("excluding-tables", "tables to exclude; wins over the included ones", metavar="REGEX"),
        Flag(
            "mode",
            "divided: one table after the other, those found at the start; combined: all tables in one job, and with "
            "--watch also new ones (default: divided)",
            metavar="MODE",
        ),
        *_SHARED,
    ),
}
_INTERVAL_MILLIS = 10_000
# Flags that a standing compaction does not support, as in Paimon.
_BATCH_ONLY = ("order-strategy", "order-by", "partition-idle-time")


def command(name: str, words: list[str]) -> int:
    flags = parse(name, _FLAGS[name], words, TABLE_COMMANDS[name][1])
    _check_watch(flags)
    return _compact(flags) if name == "compact" else _compact_database(flags)


def _check_watch(flags: Flags) -> None:
    if not yes(flags, "watch"):
        if "interval" in flags:
            raise ConfigError("--interval needs --watch", hint="add --watch, or remove --interval")
        return
    refused = [name for name in _BATCH_ONLY if name in flags]
    if "compact-strategy" in flags and _full(flags):
        refused.append("compact-strategy full")
    if refused:
        raise ConfigError(f"--{refused[0]} cannot be used with --watch", hint="run it as a job that ends")


def _compact(flags: Flags) -> int:
    if "order-strategy" in flags or "order-by" in flags:
        return _sort(flags)
    if yes(flags, "watch"):
        name = table_of(flags).store.catalog_name or f"{needed(flags, 'database')}.{needed(flags, 'table')}"
        return _watch(flags, catalog_of(flags), lambda: [name], together=False, strict=True)
    table, full, only = table_of(flags), _full(flags), _selection(flags)
    with executor_of(flags, "compact") as executor:
        snapshots = table.compact(full, only=only, options=_options(flags), executor=executor)
    made = [snapshot.id for snapshot in snapshots]
    return answer(flags, {"snapshots": made}, f"compacted as snapshot {made[-1]}" if made else "nothing to compact")


def _sort(flags: Flags) -> int:
    if "partition-idle-time" in flags or _full(flags) is False:
        raise ConfigError(
            "sort compaction does not support 'partition-idle-time' or a minor strategy",
            hint="leave these flags out, or --order-strategy: a sort rewrites whole partitions",
        )
    columns = [name.strip() for name in (text(flags, "order-by") or "").split(",") if name.strip()]
    strategy = text(flags, "order-strategy") or "order"
    table, only = table_of(flags), _selection(flags)
    with executor_of(flags, "compact") as executor:
        snapshots = table.sort(columns, strategy, only=only, options=_options(flags), executor=executor)
    made = [snapshot.id for snapshot in snapshots]
    return answer(flags, {"snapshots": made}, f"sorted as snapshot {made[-1]}" if made else "nothing to sort")


def _selection(flags: Flags) -> Selection:
    from penstock.table.operations.selection import Selection, parse_buckets

    buckets = text(flags, "buckets")
    if "where" in flags and "partition" in flags:
        raise ConfigError("partition and where cannot be used together", hint="put the whole condition into --where")
    return Selection(
        partitions(flags) or None,
        text(flags, "where"),
        millis(flags, "partition-idle-time"),
        None if buckets is None else parse_buckets(buckets),
    )


def _options(flags: Flags) -> dict[str, str]:
    return pairs(flags.get("table-conf", ()))


def _compact_database(flags: Flags) -> int:
    catalog, combined = warehouse_of(flags), _combined(flags)
    if yes(flags, "watch"):
        found = _tables(flags, catalog)
        names = (lambda: _tables(flags, catalog)) if combined else (lambda: found)
        return _watch(flags, catalog, names, together=combined, strict=False)
    with executor_of(flags, "compact-database") as executor:
        done = (_all_together if combined else _one_by_one)(flags, catalog, executor)
    said = "\n".join(f"{name}  {f'snapshot {made[-1]}' if made else 'nothing to do'}" for name, made in done.items())
    return answer(flags, {"tables": done}, said or "no table matches the selection")


def _combined(flags: Flags) -> bool:
    mode = (text(flags, "mode") or "divided").strip().lower()
    if mode not in {"divided", "combined"}:
        raise ConfigError(f"--mode cannot be {mode!r}", hint="divided or combined")
    return mode == "combined"


def _tables(flags: Flags, catalog: Catalog) -> list[str]:
    databases = chosen(flags, catalog.databases(), "including-databases")
    names = [f"{database}.{table}" for database in databases for table in catalog.tables(database)]
    return chosen(flags, names, "including-tables", "excluding-tables")


def _one_by_one(flags: Flags, catalog: Catalog, executor: Executor) -> dict[str, list[int]]:
    """Compact one table after the other. Each commits by itself, so those before one that fails stay compacted."""
    full, only, options = _full(flags), _selection(flags), _options(flags)
    return {
        name: [
            snapshot.id for snapshot in catalog.table(name).compact(full, only=only, options=options, executor=executor)
        ]
        for name in _tables(flags, catalog)
    }


def _all_together(flags: Flags, catalog: Catalog, executor: Executor) -> dict[str, list[int]]:
    """Compact all tables in one job. An error of a table is raised once the others are compacted."""
    from penstock.table.maintenance.upkeep import after_compaction
    from penstock.table.operations.compaction_round import compact_round

    full, only, options = _full(flags), _selection(flags), _options(flags)
    stores = {name: catalog.store(name) for name in _tables(flags, catalog)}
    outcomes = compact_round(stores, executor, full=full, only=only, options=options)
    done: dict[str, list[int]] = {}
    failures = []
    for name, store in stores.items():
        outcome = outcomes.get(name)
        snapshots = outcome.snapshots if outcome else ()
        if outcome is not None and isinstance(outcome.error, CommitConflict):
            # Another job was faster. Alone the table is tried again.
            snapshots += tuple(catalog.table(name).compact(full, only=only, options=options, executor=executor))
        elif outcome is not None and outcome.error is not None:
            failures.append(outcome.error)
        if snapshots:
            after_compaction(store)
        done[name] = [snapshot.id for snapshot in snapshots]
    if failures:
        raise failures[0]
    return done


def _watch(flags: Flags, catalog: Catalog, names: Callable[[], Sequence[str]], *, together: bool, strict: bool) -> int:
    """Compact until a signal asks to stop."""
    from penstock.pipelines.driver.standing_compaction import StandingCompaction, stopped_by_signals
    from penstock.pipelines.monitor.logs import log_to_stderr

    log_to_stderr()
    wait, only, options = millis(flags, "interval"), _selection(flags), _options(flags)
    with executor_of(flags, "compaction") as executor:
        standing = StandingCompaction(catalog, names, executor, only, options, together=together, strict=strict)
        with stopped_by_signals(standing):
            standing.run((_INTERVAL_MILLIS if wait is None else wait) / 1000)
    made = standing.made
    return answer(
        flags, {"tables": made}, f"stopped after {sum(map(len, made.values()))} commits to {len(made)} tables"
    )


def _full(flags: Flags) -> bool:
    strategy = (text(flags, "compact-strategy") or "full").strip().lower()
    if strategy not in {"full", "minor"}:
        raise ConfigError(f"--compact-strategy cannot be {strategy!r}", hint="full or minor")
    return strategy == "full"
