"""`penstock compact` and `penstock compact-database`: compaction as a job of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.ingest.sync_actions import Flag, pairs
from penstock.pipelines.commands.arguments import Given, parse
from penstock.pipelines.commands.execution import EXECUTION, executor_of
from penstock.pipelines.commands.output import answer
from penstock.pipelines.commands.table_commands import TABLE_COMMANDS
from penstock.pipelines.commands.target import (
    ON_TABLE,
    PARTITION,
    WAREHOUSE,
    chosen,
    millis,
    partitions,
    table_of,
    text,
    warehouse_of,
)

if TYPE_CHECKING:
    from penstock.table.operations.selection import Selection

_SHARED = (
    Flag("compact-strategy", "full: compact everything; minor: only what is due (default: full)", metavar="full|minor"),
    Flag("partition-idle-time", "only partitions that got no rows for this time, for example 1 h", metavar="TIME"),
    Flag("table-conf", "option that overrides the table's option in this job; may be repeated", "pairs", "K=V"),
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
        Flag("mode", "divided or combined; both have the same effect", metavar="MODE"),
        *_SHARED,
    ),
}


def command(name: str, words: list[str]) -> int:
    given = parse(name, _FLAGS[name], words, TABLE_COMMANDS[name][1])
    return _compact(given) if name == "compact" else _compact_database(given)


def _compact(given: Given) -> int:
    if "order-strategy" in given or "order-by" in given:
        return _sort(given)
    table, full, only = table_of(given), _full(given), _selection(given)
    with executor_of(given, "compact") as executor:
        snapshots = table.compact(full, only=only, options=_options(given), executor=executor)
    made = [snapshot.id for snapshot in snapshots]
    return answer(given, {"snapshots": made}, f"compacted as snapshot {made[-1]}" if made else "nothing to compact")


def _sort(given: Given) -> int:
    if "partition-idle-time" in given or _full(given) is False:
        raise ConfigError("sort compaction does not support 'partition-idle-time' or a minor strategy")
    columns = [name.strip() for name in (text(given, "order-by") or "").split(",") if name.strip()]
    strategy = text(given, "order-strategy") or "order"
    table, only = table_of(given), _selection(given)
    with executor_of(given, "compact") as executor:
        snapshots = table.sort(columns, strategy, only=only, options=_options(given), executor=executor)
    made = [snapshot.id for snapshot in snapshots]
    return answer(given, {"snapshots": made}, f"sorted as snapshot {made[-1]}" if made else "nothing to sort")


def _selection(given: Given) -> Selection:
    from penstock.table.operations.selection import Selection, parse_buckets

    buckets = text(given, "buckets")
    if "where" in given and "partition" in given:
        raise ConfigError("partition and where cannot be used together", hint="put the whole condition into --where")
    return Selection(
        partitions(given) or None,
        text(given, "where"),
        millis(given, "partition-idle-time"),
        None if buckets is None else parse_buckets(buckets),
    )


def _options(given: Given) -> dict[str, str]:
    return pairs(given.get("table-conf", ()))


def _compact_database(given: Given) -> int:
    """Compact one table after the other. Each commits by itself, so those before one that fails stay compacted."""
    catalog = warehouse_of(given)
    mode = (text(given, "mode") or "divided").strip().lower()
    if mode not in {"divided", "combined"}:
        raise ConfigError(f"--mode cannot be {mode!r}", hint="divided or combined")
    done = {}
    databases = chosen(given, catalog.databases(), "including-databases")
    names = [f"{database}.{table}" for database in databases for table in catalog.tables(database)]
    full, only, options = _full(given), _selection(given), _options(given)
    with executor_of(given, "compact-database") as executor:
        for name in chosen(given, names, "including-tables", "excluding-tables"):
            snapshots = catalog.table(name).compact(full, only=only, options=options, executor=executor)
            done[name] = [snapshot.id for snapshot in snapshots]
    said = "\n".join(f"{name}  {f'snapshot {made[-1]}' if made else 'nothing to do'}" for name, made in done.items())
    return answer(given, {"tables": done}, said or "no table matches the selection")


def _full(given: Given) -> bool:
    strategy = (text(given, "compact-strategy") or "full").strip().lower()
    if strategy not in {"full", "minor"}:
        raise ConfigError(f"--compact-strategy cannot be {strategy!r}", hint="full or minor")
    return strategy == "full"
