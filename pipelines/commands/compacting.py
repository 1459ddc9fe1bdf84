"""`penstock compact` and `penstock compact-database`: compaction as a job of its own."""

from __future__ import annotations

import re

from penstock.errors import ConfigError
from penstock.pipelines.commands.arguments import Given, parse
from penstock.pipelines.commands.printing import answer
from penstock.pipelines.commands.table_commands import TABLE_COMMANDS
from penstock.pipelines.commands.target import ON_TABLE, PARTITION, WAREHOUSE, catalog_of, partitions, table_of, text
from penstock.pipelines.spec.actions import Flag

_STRATEGY = Flag("compact-strategy", "full: everything; minor: what is due (full)", metavar="full|minor")
_FLAGS = {
    "compact": (*ON_TABLE, PARTITION, _STRATEGY),
    "compact-database": (
        *WAREHOUSE,
        Flag("including-databases", "databases, a regular expression (.*)", metavar="REGEX"),
        Flag("including-tables", "tables as db.table, a regular expression (.*)", metavar="REGEX"),
        Flag("excluding-tables", "tables to leave out; wins", metavar="REGEX"),
        Flag("mode", "divided or combined; both work the same here", metavar="MODE"),
        _STRATEGY,
    ),
}


def command(name: str, words: list[str]) -> int:
    given = parse(name, _FLAGS[name], words, TABLE_COMMANDS[name][1])
    return _compact(given) if name == "compact" else _compact_database(given)


def _compact(given: Given) -> int:
    snapshots = table_of(given).compact(full=_full(given), partitions=partitions(given) or None)
    made = [snapshot.id for snapshot in snapshots]
    return answer(given, {"snapshots": made}, f"compacted as snapshot {made[-1]}" if made else "nothing to compact")


def _compact_database(given: Given) -> int:
    """One table after the other; each commits by itself, so what is done stays done when a later one fails."""
    catalog = catalog_of(given)
    databases, wanted = text(given, "including-databases") or ".*", text(given, "including-tables") or ".*"
    spared = text(given, "excluding-tables")
    done = {}
    for database in (name for name in catalog.databases() if re.fullmatch(databases, name)):
        for name in (f"{database}.{table}" for table in catalog.tables(database)):
            if re.fullmatch(wanted, name) and not (spared and re.fullmatch(spared, name)):
                snapshots = catalog.table(name).compact(full=_full(given))
                done[name] = [snapshot.id for snapshot in snapshots]
    said = "\n".join(f"{name}  {f'snapshot {made[-1]}' if made else 'nothing to do'}" for name, made in done.items())
    return answer(given, {"tables": done}, said or "no table matches")


def _full(given: Given) -> bool:
    strategy = text(given, "compact-strategy") or "full"
    if strategy not in {"full", "minor"}:
        raise ConfigError(f"--compact-strategy cannot be {strategy!r}", hint="full or minor")
    return strategy == "full"
