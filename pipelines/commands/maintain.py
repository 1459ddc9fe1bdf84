"""Paimon's maintenance actions by their names and flags: snapshots, tags, branches, consumers, orphans, partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.pipelines.commands.arguments import Given, parse
from penstock.pipelines.commands.output import answer
from penstock.pipelines.commands.table_commands import TABLE_COMMANDS
from penstock.pipelines.commands.target import (
    DATABASE,
    NEEDED_PARTITION,
    ON_TABLE,
    WAREHOUSE,
    catalog_of,
    chosen,
    millis,
    moment,
    needed,
    number,
    partitions,
    table_of,
    text,
    yes,
)
from penstock.pipelines.config.actions import Flag, without_effect
from penstock.pipelines.config.pairs import pairs

if TYPE_CHECKING:
    from penstock.table.handle import Table
    from penstock.table.maintenance.rollback import Undone


@dataclass(frozen=True, slots=True)
class Action:
    run: Callable[[Given], int]
    flags: tuple[Flag, ...]


def command(name: str, words: list[str]) -> int:
    action = ACTIONS[name]
    return action.run(parse(name, action.flags, words, TABLE_COMMANDS[name][1]))


def expire_snapshots(given: Given) -> int:
    expired = table_of(given).expire_snapshots(
        retain_max=number(given, "retain-max"),
        retain_min=number(given, "retain-min"),
        older_than=moment(given, "older-than"),
        max_deletes=number(given, "max-deletes"),
        options=pairs(one for written in given.get("options", ()) for one in written.split(",")),
    )
    facts = {
        "snapshots": expired.snapshots,
        "changelogs": expired.changelogs,
        "files_deleted": expired.swept.deleted,
        "files_failed": expired.swept.failed,
    }
    return answer(given, facts, f"expired {expired.snapshots} snapshots, deleted {expired.swept.deleted} files")


def expire_changelogs(given: Given) -> int:
    expired = table_of(given).expire_changelogs(
        retain_max=number(given, "retain-max"),
        retain_min=number(given, "retain-min"),
        older_than=moment(given, "older-than"),
        max_deletes=number(given, "max-deletes"),
        delete_all=yes(given, "delete-all"),
    )
    facts = {"changelogs": expired.changelogs, "files_deleted": expired.swept.deleted}
    return answer(given, facts, f"expired {expired.changelogs} changelogs, deleted {expired.swept.deleted} files")


def mark_partition_done(given: Given) -> int:
    marked = table_of(given).mark_partitions_done(partitions(given))
    return answer(given, {"partitions": marked}, f"marked {len(marked)} partitions as done")


def create_tag(given: Given) -> int:
    table, name = table_of(given), needed(given, "tag-name")
    table.create_tag(name, number(given, "snapshot"), retain_millis=millis(given, "time-retained"))
    return _tagged(given, name)


def create_tag_from_timestamp(given: Given) -> int:
    name = needed(given, "tag")
    retained = millis(given, "time-retained")
    table_of(given).create_tag(name, timestamp=moment(given, "timestamp"), retain_millis=retained)
    return _tagged(given, name)


def create_tag_from_watermark(given: Given) -> int:
    name = needed(given, "tag")
    retained = millis(given, "time-retained")
    table_of(given).create_tag(name, watermark=number(given, "watermark"), retain_millis=retained)
    return _tagged(given, name)


def replace_tag(given: Given) -> int:
    name = needed(given, "tag-name")
    table_of(given).replace_tag(name, number(given, "snapshot"), retain_millis=millis(given, "time-retained"))
    return _tagged(given, name)


def _tagged(given: Given, name: str) -> int:
    snapshot = table_of(given).tags[name]
    return answer(given, {"tag": name, "snapshot": snapshot}, f"tag {name} refers to snapshot {snapshot}")


def rename_tag(given: Given) -> int:
    table_of(given).rename_tag(needed(given, "tag-name"), needed(given, "target-tag-name"))
    return _tagged(given, needed(given, "target-tag-name"))


def delete_tag(given: Given) -> int:
    """A list of names parted by commas, as Paimon takes it; all are looked up before the first goes."""
    table = table_of(given)
    names = [name.strip() for name in needed(given, "tag-name").split(",") if name.strip()]
    missing = [name for name in names if name not in table.tags]
    if missing:
        raise ConfigError(f"tag {missing[0]!r} does not exist", table=table.name, tags=", ".join(table.tags) or "none")
    for name in names:
        table.delete_tag(name)
    return answer(given, {"deleted": names}, f"deleted {', '.join(names)}")


def expire_tags(given: Given) -> int:
    gone = table_of(given).expire_tags(older_than=moment(given, "older-than"))
    return answer(given, {"expired": gone}, f"expired {', '.join(gone) or 'no tags'}")


def create_branch(given: Given) -> int:
    table, name = table_of(given), needed(given, "branch-name")
    there = name in table.branches
    if not (there and yes(given, "ignore-if-exists")):
        table.create_branch(name, text(given, "tag-name"))
    return answer(
        given, {"branch": name, "created": not there}, f"branch {name} {'existed already' if there else 'created'}"
    )


def delete_branch(given: Given) -> int:
    table = table_of(given)
    names = [name.strip() for name in needed(given, "branch-name").split(",") if name.strip()]
    for name in names:
        table.delete_branch(name)
    return answer(given, {"deleted": names}, f"deleted {', '.join(names)}")


def fast_forward(given: Given) -> int:
    table, name = table_of(given), needed(given, "branch-name")
    undone = table.fast_forward(name)
    latest = table.latest_snapshot
    snapshot = latest.id if latest else None
    line = _with_undone(f"main was fast-forwarded to branch {name}, at snapshot {snapshot}", undone)
    return answer(given, {"branch": name, "snapshot": snapshot, **_removed(undone)}, line)


def rollback_to(given: Given) -> int:
    """A tag of that name comes first; else a number is a snapshot."""
    table, version = table_of(given), needed(given, "version")
    return _rolled_back(given, table, version if version in table.tags or not version.isdigit() else int(version))


def rollback_to_timestamp(given: Given) -> int:
    at = moment(given, "timestamp")
    assert at is not None
    return _rolled_back(given, table_of(given), at)


def _rolled_back(given: Given, table: Table, target: int | str | datetime) -> int:
    undone = table.undone_by_rollback(target)
    snapshot = table.rollback_to(target)
    line = _with_undone(f"snapshot {snapshot.id} is the latest again", undone)
    return answer(given, {"snapshot": snapshot.id, **_removed(undone)}, line)


def _with_undone(line: str, undone: Undone) -> str:
    return f"{line}; {undone}" if undone else line


def _removed(undone: Undone) -> dict[str, object]:
    return {
        "removed_snapshots": list(undone.snapshots),
        "removed_tags": list(undone.tags),
        "consumers_set_back": dict(undone.consumers),
    }


def reset_consumer(given: Given) -> int:
    name, following = needed(given, "consumer-id"), number(given, "next-snapshot")
    table_of(given).reset_consumer(name, following)
    said = f"deleted consumer {name}" if following is None else f"consumer {name} continues at snapshot {following}"
    return answer(given, {"consumer": name, "next_snapshot": following}, said)


def clear_consumers(given: Given) -> int:
    table = table_of(given)
    gone = chosen(given, table.consumers, "including-consumers", "excluding-consumers")
    for name in gone:
        table.reset_consumer(name)
    return answer(given, {"cleared": gone}, f"deleted {', '.join(gone) or 'no consumers'}")


def remove_orphan_files(given: Given) -> int:
    """Of one table, or of all tables of the database when none is named."""
    catalog, database = catalog_of(given), needed(given, "database")
    named = text(given, "table")
    names = catalog.tables(database) if named in {None, "*"} else [str(named)]
    dry, older_than = yes(given, "dry-run"), moment(given, "older-than")
    found = [
        orphan
        for name in names
        for orphan in catalog.table(f"{database}.{name}").remove_orphan_files(dry_run=dry, older_than=older_than)
    ]
    size = sum(orphan.size for orphan in found)
    facts = {"files": len(found), "bytes": size, "deleted": not dry, "paths": [orphan.path for orphan in found]}
    listed = "\n".join(orphan.path for orphan in found) + "\n" if dry and found else ""
    return answer(
        given, facts, f"{listed}{len(found)} orphan files, {size} bytes{' (not deleted)' if dry else ', deleted'}"
    )


def drop_partition(given: Given) -> int:
    specs = partitions(given)
    snapshots = table_of(given).drop_partitions(specs)
    taken = [snapshot.id for snapshot in snapshots]
    return answer(given, {"partitions": specs, "snapshots": taken}, f"dropped by snapshot {', '.join(map(str, taken))}")


def expire_partitions(given: Given) -> int:
    """Flags stand for the table's options of these names, where they are given."""
    options = pairs(given.get("table-conf", ()))
    options |= {option: given[flag][-1] for flag, option in _EXPIRY.items() if flag in given}
    gone = table_of(given).expire_partitions(options)
    return answer(given, {"partitions": gone}, f"dropped {len(gone)} partitions")


_EXPIRY = {
    "expiration-time": "partition.expiration-time",
    "timestamp-formatter": "partition.timestamp-formatter",
    "timestamp-pattern": "partition.timestamp-pattern",
    "expire-strategy": "partition.expiration-strategy",
    "max-expires": "partition.expiration-max-num",
}


def _tag(*more: Flag, flag: str = "tag-name") -> tuple[Flag, ...]:
    return (*ON_TABLE, Flag(flag, "name of the tag", metavar="NAME", required=True), *more)


_SNAPSHOT = Flag("snapshot", "id of the snapshot (default: the latest)", metavar="N")
_RETAINED = Flag("time-retained", "how long the tag is kept, for example 7 d (default: forever)", metavar="TIME")
_BRANCH = Flag("branch-name", "name of the branch", metavar="NAME", required=True)
_OLDER = "'2026-01-31 12:00:00' in this machine's time zone, or epoch milliseconds"

ACTIONS = {
    "expire-snapshots": Action(
        expire_snapshots,
        (
            *ON_TABLE,
            Flag("retain-max", "maximum number of snapshots to keep", metavar="N"),
            Flag("retain-min", "minimum number of snapshots to keep", metavar="N"),
            Flag("older-than", f"keep snapshots younger than this: {_OLDER}", metavar="TIME"),
            Flag("max-deletes", "maximum number of snapshots to expire", metavar="N"),
            Flag("options", "options that override the table's: a=b,c=d", metavar="K=V,..."),
        ),
    ),
    "create-tag": Action(create_tag, _tag(_SNAPSHOT, _RETAINED)),
    "create-tag-from-timestamp": Action(
        create_tag_from_timestamp,
        _tag(Flag("timestamp", f"the time: {_OLDER}", metavar="TIME", required=True), _RETAINED, flag="tag"),
    ),
    "create-tag-from-watermark": Action(
        create_tag_from_watermark,
        _tag(Flag("watermark", "the time in epoch milliseconds", metavar="N", required=True), _RETAINED, flag="tag"),
    ),
    "replace-tag": Action(replace_tag, _tag(_SNAPSHOT, _RETAINED)),
    "rename-tag": Action(
        rename_tag,
        _tag(Flag("target-tag-name", "the new name", metavar="NAME", required=True)),
    ),
    "delete-tag": Action(delete_tag, _tag()),
    "expire-tags": Action(
        expire_tags,
        (*ON_TABLE, Flag("older-than", f"also tags created before: {_OLDER}", metavar="TIME")),
    ),
    "create-branch": Action(
        create_branch,
        (
            *ON_TABLE,
            _BRANCH,
            Flag("tag-name", "tag to create the branch from", metavar="NAME"),
            Flag("ignore-if-exists", "do nothing if it exists already (default: false)", "bool"),
        ),
    ),
    "delete-branch": Action(delete_branch, (*ON_TABLE, _BRANCH)),
    "fast-forward": Action(fast_forward, (*ON_TABLE, _BRANCH)),
    "rollback-to": Action(
        rollback_to,
        (*ON_TABLE, Flag("version", "id of a snapshot, or name of a tag", metavar="ID|TAG", required=True)),
    ),
    "rollback-to-timestamp": Action(
        rollback_to_timestamp,
        (*ON_TABLE, Flag("timestamp", f"the time: {_OLDER}", metavar="TIME", required=True)),
    ),
    "reset-consumer": Action(
        reset_consumer,
        (
            *ON_TABLE,
            Flag("consumer-id", "name of the consumer", metavar="NAME", required=True),
            Flag("next-snapshot", "snapshot to continue at; without it the consumer is deleted", metavar="N"),
        ),
    ),
    "clear-consumers": Action(
        clear_consumers,
        (
            *ON_TABLE,
            Flag("including-consumers", "consumers, as a regular expression (default: .*)", metavar="REGEX"),
            Flag("excluding-consumers", "which not", metavar="REGEX"),
        ),
    ),
    "remove-orphan-files": Action(
        remove_orphan_files,
        (
            *WAREHOUSE,
            DATABASE,
            Flag("table", "table of the database; all tables if it is * or absent", metavar="NAME"),
            Flag("older-than", f"only files older than: {_OLDER} (default: 1 day ago)", metavar="TIME"),
            Flag("dry-run", "only list the files (default: false)", "bool"),
            *without_effect("parallelism", "mode", "batch-table-processing", "batch-size"),
        ),
    ),
    "expire-partitions": Action(
        expire_partitions,
        (
            *ON_TABLE,
            Flag("expiration-time", "how long partitions are kept: 30 d (default: the table's option)", metavar="TIME"),
            Flag("timestamp-formatter", "format of the time in partition values: yyyyMMdd", metavar="PATTERN"),
            Flag("timestamp-pattern", "how the time is built from columns: '$dt $hour:00:00'", metavar="PATTERN"),
            Flag("expire-strategy", "values-time or update-time (default: values-time)", metavar="NAME"),
            Flag("max-expires", "maximum number of partitions to expire (default: 100)", metavar="N"),
            Flag("table-conf", "option that overrides the table's option in this job; may be repeated", "pairs", "K=V"),
        ),
    ),
    "drop-partition": Action(drop_partition, (*ON_TABLE, NEEDED_PARTITION)),
    "expire-changelogs": Action(
        expire_changelogs,
        (
            *ON_TABLE,
            Flag("retain-max", "maximum number of changelogs and snapshots to keep", metavar="N"),
            Flag("retain-min", "minimum number of changelogs and snapshots to keep", metavar="N"),
            Flag("older-than", f"keep changelogs younger than this: {_OLDER}", metavar="TIME"),
            Flag("max-deletes", "maximum number of changelogs to expire", metavar="N"),
            Flag("delete-all", "delete all changelogs whose snapshots have expired (default: false)", "bool"),
        ),
    ),
    "mark-partition-done": Action(mark_partition_done, (*ON_TABLE, NEEDED_PARTITION)),
}
