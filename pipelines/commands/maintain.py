"""Paimon's maintenance actions by their names and flags: snapshots, tags, branches, consumers, orphans, partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.errors import counted
from penstock.ingest.sync_actions import Flag, pairs
from penstock.pipelines.commands.arguments import Flags, parse
from penstock.pipelines.commands.execution import EXECUTION, executor_of
from penstock.pipelines.commands.output import answer
from penstock.pipelines.commands.partitions import drop_partition, expire_partitions, mark_partition_done
from penstock.pipelines.commands.table_commands import TABLE_COMMANDS
from penstock.pipelines.commands.tags import (
    RETAINED_FLAG,
    SNAPSHOT_FLAG,
    create_branch,
    create_tag,
    create_tag_from_timestamp,
    create_tag_from_watermark,
    delete_branch,
    delete_tag,
    expire_tags,
    fast_forward,
    rename_tag,
    replace_tag,
    rollback_to,
    rollback_to_timestamp,
)
from penstock.pipelines.commands.target import (
    DATABASE,
    NEEDED_PARTITION,
    ON_TABLE,
    WAREHOUSE,
    catalog_of,
    chosen,
    moment,
    needed,
    number,
    table_of,
    text,
    yes,
)
from penstock.pipelines.config.flags import without_effect


@dataclass(frozen=True, slots=True)
class Action:
    run: Callable[[Flags], int]
    flags: tuple[Flag, ...]


def command(name: str, words: list[str]) -> int:
    action = ACTIONS[name]
    return action.run(parse(name, action.flags, words, TABLE_COMMANDS[name][1]))


def expire_snapshots(flags: Flags) -> int:
    expired = table_of(flags).expire_snapshots(
        retain_max=number(flags, "retain-max"),
        retain_min=number(flags, "retain-min"),
        older_than=moment(flags, "older-than"),
        max_deletes=number(flags, "max-deletes"),
        # Paimon's flag has several options in one value, separated by commas.
        options=pairs(part for written in flags.get("options", ()) for part in written.split(",")),
    )
    facts = {
        "snapshots": expired.snapshots,
        "changelogs": expired.changelogs,
        "files_deleted": expired.swept.deleted,
        "files_failed": expired.swept.failed,
    }
    return answer(
        flags,
        facts,
        f"expired {counted(expired.snapshots, 'snapshot')}, deleted {counted(expired.swept.deleted, 'file')}",
    )


def expire_changelogs(flags: Flags) -> int:
    expired = table_of(flags).expire_changelogs(
        retain_max=number(flags, "retain-max"),
        retain_min=number(flags, "retain-min"),
        older_than=moment(flags, "older-than"),
        max_deletes=number(flags, "max-deletes"),
        delete_all=yes(flags, "delete-all"),
    )
    facts = {"changelogs": expired.changelogs, "files_deleted": expired.swept.deleted}
    return answer(
        flags,
        facts,
        f"expired {counted(expired.changelogs, 'changelog')}, deleted {counted(expired.swept.deleted, 'file')}",
    )


def reset_consumer(flags: Flags) -> int:
    name, following = needed(flags, "consumer-id"), number(flags, "next-snapshot")
    table = table_of(flags)
    known = name in table.consumers
    table.reset_consumer(name, following)
    gone = f"deleted consumer {name}" if known else f"there is no consumer {name!r}"
    said = gone if following is None else f"consumer {name} continues at snapshot {following}"
    return answer(flags, {"consumer": name, "next_snapshot": following}, said)


def clear_consumers(flags: Flags) -> int:
    table = table_of(flags)
    gone = chosen(flags, table.consumers, "including-consumers", "excluding-consumers")
    for name in gone:
        table.reset_consumer(name)
    return answer(flags, {"cleared": gone}, f"deleted {', '.join(gone) or 'no consumers'}")


def remove_orphan_files(flags: Flags) -> int:
    """Remove orphan files of one table, or of all tables of the database if no table is named."""
    catalog, database = catalog_of(flags), needed(flags, "database")
    named = text(flags, "table")
    names = catalog.tables(database) if named in {None, "*"} else [str(named)]
    dry, older_than = yes(flags, "dry-run"), moment(flags, "older-than")
    tables = [catalog.table(f"{database}.{name}") for name in names]
    with executor_of(flags, "remove-orphan-files", waits=True) as executor:
        orphans = [
            orphan
            for table in tables
            for orphan in table.remove_orphan_files(dry_run=dry, older_than=older_than, executor=executor)
        ]
    size = sum(orphan.size for orphan in orphans)
    facts = {"files": len(orphans), "bytes": size, "deleted": not dry, "paths": [orphan.path for orphan in orphans]}
    listed = "\n".join(orphan.path for orphan in orphans) + "\n" if dry and orphans else ""
    kept = " (not deleted)" if dry else ", deleted"
    return answer(flags, facts, f"{listed}{counted(len(orphans), 'orphan file')}, {counted(size, 'byte')}{kept}")


def _tag(*more: Flag, flag: str = "tag-name") -> tuple[Flag, ...]:
    return (*ON_TABLE, Flag(flag, "name of the tag", metavar="NAME", required=True), *more)


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
            Flag("options", "options that override the table's: a=b,c=d", "list", "K=V,..."),
        ),
    ),
    "create-tag": Action(create_tag, _tag(SNAPSHOT_FLAG, RETAINED_FLAG)),
    "create-tag-from-timestamp": Action(
        create_tag_from_timestamp,
        _tag(Flag("timestamp", f"the time: {_OLDER}", metavar="TIME", required=True), RETAINED_FLAG, flag="tag"),
    ),
    "create-tag-from-watermark": Action(
        create_tag_from_watermark,
        _tag(
            Flag("watermark", "the time in epoch milliseconds", metavar="N", required=True), RETAINED_FLAG, flag="tag"
        ),
    ),
    "replace-tag": Action(replace_tag, _tag(SNAPSHOT_FLAG, RETAINED_FLAG)),
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
            *EXECUTION,
            *without_effect("mode", "batch-table-processing", "batch-size"),
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
