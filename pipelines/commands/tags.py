"""The commands that create, move and delete tags and branches, and that roll a table back."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from penstock.ingest.sync_actions import Flag
from penstock.pipelines.commands.arguments import Given
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
    """Delete the tags of a list, separated by commas as in Paimon; a missing tag is reported, and no error."""
    from penstock.table.maintenance.tag_deletion import delete_tags  # imports Arrow, which --help does not need

    table = table_of(given)
    names = list(dict.fromkeys(name.strip() for name in needed(given, "tag-name").split(",") if name.strip()))
    there = set(table.tags)
    known = [name for name in names if name in there]
    delete_tags(table.store, known)
    missing = [name for name in names if name not in known]
    lines = [f"deleted {', '.join(known)}"] if known else []
    lines += [f"there is no tag {name!r}" for name in missing]
    return answer(given, {"deleted": known, "missing": missing}, "\n".join(lines))


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
    """Roll back to the tag of this name, or if there is no such tag and it is a number, to this snapshot."""
    table, version = table_of(given), needed(given, "version")
    return _rolled_back(given, table, version if version in table.tags or not version.isdecimal() else int(version))


def rollback_to_timestamp(given: Given) -> int:
    at = moment(given, "timestamp")
    assert at is not None
    return _rolled_back(given, table_of(given), at)


def _rolled_back(given: Given, table: Table, target: int | str | datetime) -> int:
    # Before the rollback, which deletes the snapshots and tags that are listed here.
    undone = table.undone_by_rollback(target)
    snapshot = table.rollback_to(target)
    line = _with_undone(f"snapshot {snapshot.id} is the latest again", undone)
    return answer(given, {"snapshot": snapshot.id, **_removed(undone)}, line)


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
