"""The commands that create, move and delete tags and branches, and that roll a table back."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from penstock.ingest.sync_actions import Flag
from penstock.pipelines.commands.arguments import Flags
from penstock.pipelines.commands.output import answer
from penstock.pipelines.commands.target import (
    millis,
    moment,
    needed,
    number,
    table_of,
    text,
    yes,
)

if TYPE_CHECKING:
    from penstock.table.handle import Table
    from penstock.table.maintenance.rollback import RollbackResult


def create_tag(flags: Flags) -> int:
    table, name = table_of(flags), needed(flags, "tag-name")
    table.create_tag(name, number(flags, "snapshot"), retain_millis=millis(flags, "time-retained"))
    return _tagged(flags, name)


def create_tag_from_timestamp(flags: Flags) -> int:
    name = needed(flags, "tag")
    retained = millis(flags, "time-retained")
    table_of(flags).create_tag(name, timestamp=moment(flags, "timestamp"), retain_millis=retained)
    return _tagged(flags, name)


def create_tag_from_watermark(flags: Flags) -> int:
    name = needed(flags, "tag")
    retained = millis(flags, "time-retained")
    table_of(flags).create_tag(name, watermark=number(flags, "watermark"), retain_millis=retained)
    return _tagged(flags, name)


def replace_tag(flags: Flags) -> int:
    name = needed(flags, "tag-name")
    table_of(flags).replace_tag(name, number(flags, "snapshot"), retain_millis=millis(flags, "time-retained"))
    return _tagged(flags, name)


def _tagged(flags: Flags, name: str) -> int:
    snapshot = table_of(flags).tags[name]
    return answer(flags, {"tag": name, "snapshot": snapshot}, f"tag {name} refers to snapshot {snapshot}")


def rename_tag(flags: Flags) -> int:
    table_of(flags).rename_tag(needed(flags, "tag-name"), needed(flags, "target-tag-name"))
    return _tagged(flags, needed(flags, "target-tag-name"))


def delete_tag(flags: Flags) -> int:
    """Delete the tags of a list, separated by commas as in Paimon; a missing tag is reported, and no error."""
    from penstock.table.maintenance.tag_deletion import delete_tags  # imports Arrow, which --help does not need

    table = table_of(flags)
    names = list(dict.fromkeys(name.strip() for name in needed(flags, "tag-name").split(",") if name.strip()))
    there = set(table.tags)
    known = [name for name in names if name in there]
    delete_tags(table.store, known)
    missing = [name for name in names if name not in known]
    lines = [f"deleted {', '.join(known)}"] if known else []
    lines += [f"there is no tag {name!r}" for name in missing]
    return answer(flags, {"deleted": known, "missing": missing}, "\n".join(lines))


def expire_tags(flags: Flags) -> int:
    gone = table_of(flags).expire_tags(older_than=moment(flags, "older-than"))
    return answer(flags, {"expired": gone}, f"expired {', '.join(gone) or 'no tags'}")


def create_branch(flags: Flags) -> int:
    table, name = table_of(flags), needed(flags, "branch-name")
    there = name in table.branches
    if not (there and yes(flags, "ignore-if-exists")):
        table.create_branch(name, text(flags, "tag-name"))
    return answer(
        flags, {"branch": name, "created": not there}, f"branch {name} {'existed already' if there else 'created'}"
    )


def delete_branch(flags: Flags) -> int:
    table = table_of(flags)
    names = [name.strip() for name in needed(flags, "branch-name").split(",") if name.strip()]
    for name in names:
        table.delete_branch(name)
    return answer(flags, {"deleted": names}, f"deleted {', '.join(names)}")


def fast_forward(flags: Flags) -> int:
    table, name = table_of(flags), needed(flags, "branch-name")
    undone = table.fast_forward(name)
    latest = table.latest_snapshot
    snapshot = latest.id if latest else None
    line = _with_undone(f"main was fast-forwarded to branch {name}, at snapshot {snapshot}", undone)
    return answer(flags, {"branch": name, "snapshot": snapshot, **_removed(undone)}, line)


def rollback_to(flags: Flags) -> int:
    """Roll back to the tag of this name, or if there is no such tag and it is a number, to this snapshot."""
    table, version = table_of(flags), needed(flags, "version")
    return _rolled_back(flags, table, version if version in table.tags or not version.isdecimal() else int(version))


def rollback_to_timestamp(flags: Flags) -> int:
    at = moment(flags, "timestamp")
    assert at is not None
    return _rolled_back(flags, table_of(flags), at)


def _rolled_back(flags: Flags, table: Table, target: int | str | datetime) -> int:
    # Before the rollback, which deletes the snapshots and tags that are listed here.
    undone = table.undone_by_rollback(target)
    snapshot = table.rollback_to(target)
    line = _with_undone(f"snapshot {snapshot.id} is the latest again", undone)
    return answer(flags, {"snapshot": snapshot.id, **_removed(undone)}, line)


def _with_undone(line: str, undone: RollbackResult) -> str:
    return f"{line}; {undone}" if undone else line


def _removed(undone: RollbackResult) -> dict[str, object]:
    return {
        "removed_snapshots": list(undone.snapshots),
        "removed_tags": list(undone.tags),
        "consumers_set_back": dict(undone.consumers),
    }


SNAPSHOT_FLAG = Flag("snapshot", "id of the snapshot (default: the latest)", metavar="N")
RETAINED_FLAG = Flag("time-retained", "how long the tag is kept, for example 7 d (default: forever)", metavar="TIME")
