"""`penstock tables` and `penstock show`: the contents of a warehouse and of a table, read from metadata alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.ingest.sync_actions import Flag
from penstock.pipelines.commands.arguments import Flags, parse_with_word
from penstock.pipelines.commands.output import answer, print_facts, print_rows, wants_json
from penstock.pipelines.commands.table_commands import TABLE_COMMANDS
from penstock.pipelines.commands.target import READING, catalog_of, needed, number, text, warehouse_of

if TYPE_CHECKING:
    from penstock.table.handle import Table
    from penstock.table.meta.snapshot import Snapshot

_SNAPSHOTS = Flag("snapshots", "number of the newest snapshots to show (default: 5)", metavar="N")
_DATABASE = Flag("database", "only tables of this database", metavar="NAME")
_NAMED = (
    Flag("database", "with --table: the same as database.table", metavar="NAME"),
    Flag("table", "table of the database", metavar="NAME"),
)


def command(name: str, words: list[str]) -> int:
    does = TABLE_COMMANDS[name][1]
    if name == "tables":
        word, flags = parse_with_word(
            name, (*READING, _DATABASE), words, does, "WAREHOUSE", "folder or URL of the warehouse"
        )
        return _tables(flags if word is None else {**flags, "warehouse": [*flags.get("warehouse", ()), word]})
    word, flags = parse_with_word(
        name, (*READING, *_NAMED, _SNAPSHOTS), words, does, "TABLE", "database.table, or the table's folder"
    )
    return _show(_opened(_named(word, flags), flags), flags)


def _named(word: str | None, flags: Flags) -> str:
    """Return the table that the word names, or that --database and --table name as with the other commands."""
    names = [flag.name for flag in _NAMED if flag.name in flags]
    if word is None and len(names) == len(_NAMED):
        return f"{needed(flags, 'database')}.{needed(flags, 'table')}"
    if word is not None and names:
        raise ConfigError(
            f"both {word} and --{names[0]} name the table", hint="penstock show database.table --warehouse PATH"
        )
    if names:
        missing = next(flag.name for flag in _NAMED if flag.name not in flags)
        raise ConfigError(f"--{names[0]} is given without --{missing}", hint=f"add  --{missing} NAME")
    if word is None:
        raise ConfigError("no table is given", hint="penstock show database.table --warehouse PATH")
    return word


def _tables(flags: Flags) -> int:
    catalog = warehouse_of(flags)
    only = text(flags, "database")
    names = [
        f"{database}.{table}"
        for database in ([only] if only else catalog.databases())
        for table in catalog.tables(database)
    ]
    described = [_summary(name, catalog.table(name)) for name in names]
    if wants_json(flags):
        return answer(flags, {"tables": described})
    if not described:
        print(f"there are no tables in {catalog.warehouse}")
        return 0
    columns = ("table", "records", "snapshot", "committed", "schema", "keys", "partitions")
    print_rows(columns, ([row[column] for column in columns] for row in described))
    return 0


def _summary(name: str, table: Table) -> dict[str, object]:
    """Return the line of a table. `records` are counted in its files before merging: at least as many as its rows."""
    latest = table.latest_snapshot
    return {
        "table": name,
        "records": latest.total_record_count if latest else 0,
        "snapshot": latest.id if latest else None,
        "committed": _at(latest) if latest else None,
        "schema": table.schema_id,
        "keys": ", ".join(table.primary_keys),
        "partitions": ", ".join(table.partition_keys),
    }


def _opened(word: str, flags: Flags) -> Table:
    from penstock.table.catalog.path_tables import open_table
    from penstock.table.handle import Table
    from penstock.table.meta.store import TableMissing

    if not flags.keys() & {"warehouse", "catalog-conf", "pipeline"}:
        try:
            # Without a warehouse the word is the path of the table's folder.
            return open_table(word)
        except TableMissing as missing:
            if "/" not in word:
                missing.hint = f"the warehouse of {word} is missing: add  --warehouse PATH"
            raise
    table = catalog_of(flags).table(word)
    if not isinstance(table, Table):
        raise ConfigError(f"{word} is a system table", hint=f"read it with  penstock sql 'select * from {word}'")
    return table


def _show(table: Table, flags: Flags) -> int:
    from penstock.table.schema.type_text import written

    facts = _facts(table)
    columns: list[dict[str, object]] = [
        {"column": field.name, "type": written(field.type), "comment": field.description}
        for field in table.definition.fields
    ]
    snapshots = [_snapshot(snapshot) for snapshot in table.snapshots[-(number(flags, "snapshots", least=1) or 5) :]]
    levels = _levels(table)
    if wants_json(flags):
        named = {"columns": columns, "options": table.options, "snapshots": snapshots, "levels": levels}
        return answer(flags, {**facts, **named, "tags": table.tags, "branches": table.branches})
    print_facts({name: value for name, value in facts.items() if value not in (None, "")})
    _section("columns", columns)
    _section("options", [{"option": name, "value": value} for name, value in sorted(table.options.items())])
    _section("snapshots", snapshots)
    _section("files", levels)
    _section("tags", [{"tag": name, "snapshot": snapshot} for name, snapshot in table.tags.items()])
    _section("branches", [{"branch": name} for name in table.branches])
    return 0


def _section(title: str, rows: list[dict[str, object]]) -> None:
    if rows:
        print(f"\n{title}")
        print_rows(list(rows[0]), ([*row.values()] for row in rows))


def _facts(table: Table) -> dict[str, object]:
    return {
        "table": table.name,
        "path": table.path,
        "comment": table.comment,
        "primary_keys": ", ".join(table.primary_keys),
        "partition_keys": ", ".join(table.partition_keys),
        "buckets": f"{table.bucket_mode}, bucket = {table.options.get('bucket', '-1')}",
        "schema": table.schema_id,
    }


def _snapshot(snapshot: Snapshot) -> dict[str, object]:
    return {
        "snapshot": snapshot.id,
        "kind": str(snapshot.commit_kind),
        "committed": _at(snapshot),
        "records": snapshot.total_record_count,
        "added": snapshot.delta_record_count,
        "user": snapshot.commit_user,
        "schema": snapshot.schema_id,
    }


def _at(snapshot: Snapshot) -> str:
    return datetime.fromtimestamp(snapshot.time_millis / 1000, UTC).isoformat(timespec="seconds")


def _levels(table: Table) -> list[dict[str, object]]:
    """Return the live files by level, with their rows and bytes, and the largest number of files in one bucket."""
    from penstock.table.meta.live import live_entries

    latest = table.latest_snapshot
    found: dict[int, list[int]] = {}
    buckets: dict[tuple[int, bytes, int], int] = {}
    for entry in live_entries(table.store, latest) if latest else ():
        level = entry.file.level
        counts = found.setdefault(level, [0, 0, 0])
        place = level, entry.partition, entry.bucket
        buckets[place] = buckets.get(place, 0) + 1
        for index, more in enumerate((1, entry.file.row_count, entry.file.size)):
            counts[index] += more
    most = {level: max(count for place, count in buckets.items() if place[0] == level) for level in found}
    return [
        {"level": level, "files": files, "rows": rows, "bytes": size, "most_in_a_bucket": most[level]}
        for level, (files, rows, size) in sorted(found.items())
    ]
