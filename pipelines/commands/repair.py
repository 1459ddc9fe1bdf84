"""Paimon's actions that put metadata in order: repair, compact-manifest, remove-unexisting-files and others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import counted
from penstock.ingest.sync_actions import Flag, pairs
from penstock.pipelines.commands.arguments import Flags, parse
from penstock.pipelines.commands.output import answer
from penstock.pipelines.commands.table_commands import TABLE_COMMANDS
from penstock.pipelines.commands.target import (
    ON_TABLE,
    PARTITION,
    WAREHOUSE,
    catalog_of,
    partitions,
    table_of,
    text,
    yes,
)
from penstock.pipelines.config.flags import without_effect

if TYPE_CHECKING:
    from penstock.table.operations.repair import RepairResult

_DRY = Flag("dry-run", "only print what would be done (default: false)", "bool")
_FLAGS = {
    "repair": (
        *WAREHOUSE,
        Flag(
            "identifier",
            "a database or a table, or several separated by commas (default: all databases)",
            metavar="DATABASE[.TABLE]",
        ),
    ),
    "publish-iceberg": ON_TABLE,
    "compact-manifest": (
        *ON_TABLE,
        _DRY,
        Flag("options", "options that override the table's: a=b,c=d", "list", "K=V,..."),
    ),
    "remove-unexisting-files": (*ON_TABLE, PARTITION, _DRY, *without_effect("parallelism")),
    "remove-unexisting-manifests": (*ON_TABLE, _DRY),
}


def command(name: str, words: list[str]) -> int:
    flags = parse(name, _FLAGS[name], words, TABLE_COMMANDS[name][1])
    if name == "repair":
        return _repair(flags)
    if name == "publish-iceberg":
        return _publish_iceberg(flags)
    table, dry = table_of(flags), yes(flags, "dry-run")
    match name:
        case "compact-manifest":
            options = pairs(part for written in flags.get("options", ()) for part in written.split(","))
            return _answer_paths(flags, table.compact_manifests(dry_run=dry, options=options), "manifests to merge")
        case "remove-unexisting-files":
            done = table.remove_unexisting_files(partitions(flags) or None, dry_run=dry)
            return _answer_paths(flags, done, "data files do not exist")
        case _:
            return _answer_paths(flags, table.remove_unexisting_manifests(dry_run=dry), "manifests do not exist")


def _repair(flags: Flags) -> int:
    repaired = catalog_of(flags).repair(text(flags, "identifier"))
    facts = [{"table": table.name, "outcome": table.outcome} for table in repaired]
    listed = "".join(f"{table.name}  {table.outcome}\n" for table in repaired if table.outcome != "unchanged")
    return answer(flags, {"tables": facts}, f"{listed}{counted(len(repaired), 'table')} compared with the metastore")


def _publish_iceberg(flags: Flags) -> int:
    from penstock.table.sql.procedures.file_procedures import publish_iceberg

    table = table_of(flags)
    published = publish_iceberg(table)
    sentence = f"the Iceberg metadata of {table.name} contains snapshot {published}"
    nothing = f"{table.name} has no snapshot; its Iceberg metadata is written with the first commit"
    return answer(flags, {"table": table.name, "snapshot": published}, sentence if published else nothing)


def _answer_paths(flags: Flags, healed: RepairResult, noun: str) -> int:
    snapshot = healed.snapshot.id if healed.snapshot is not None else None
    listed = "".join(f"{path}\n" for path in healed.paths)
    end = f"; snapshot {snapshot} no longer refers to them" if snapshot is not None else ""
    facts = {"paths": list(healed.paths), "snapshot": snapshot}
    return answer(flags, facts, f"{listed}{len(healed.paths)} {noun}{end}")
