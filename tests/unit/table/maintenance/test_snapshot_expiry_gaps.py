"""Expiry of snapshots and changelogs over gaps that rollbacks and fast-forwards leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import TableCorrupt
from penstock.table.errors import SnapshotMissing
from penstock.table.meta.snapshot import snapshot_json
from penstock.table.operations.executor import OwnProcess
from tests.orphans import remove_orphans
from tests.unit.table.maintenance.tables import (
    LATE,
    check_whole,
    write,
)
from tests.unit.table.tables import content, new_table


@pytest.mark.parametrize("options", [{}, {"changelog.num-retained.max": "3", "changelog.num-retained.min": "1"}])
@pytest.mark.parametrize("came_back", ["rollback", "branch"])
def test_expiry_continues_after_a_restored_snapshot_without_changelog(
    tmp_path: Path, came_back: str, options: dict[str, str]
) -> None:
    keep_one = {"snapshot.num-retained.max": "1", "snapshot.num-retained.min": "1", "snapshot.time-retained": "1 ms"}
    options = {"changelog-producer": "input", "write-only": "true", **keep_one, **options}
    table = new_table(tmp_path, options=options)
    write(table, 1)
    table.create_tag("keep", 1)
    for number in range(6):
        write(table, number)
        table.expire_snapshots(older_than=LATE)
    assert [snapshot.id for snapshot in table.snapshots] == [7]
    line = table.create_branch("b", "keep") if came_back == "branch" else table
    if came_back == "rollback":
        table.rollback_to("keep")
    with pytest.raises(SnapshotMissing, match=r"changelog of snapshot 1 has expired"):
        line.changes(0, 1)
    with pytest.raises(SnapshotMissing, match=r"changelog of snapshot 1 has expired"):
        next(line.follow(until=1))
    for number in range(4):
        write(line, 100 + number)
        write(table, 200 + number)
    for item in (line, table):
        item.expire_snapshots(older_than=LATE)
        assert len(item.snapshots) == 1
    remove_orphans(table.store, older_than=LATE, executor=OwnProcess())
    table.delete_tag("keep")
    check_whole(table.store)
    assert remove_orphans(table.store, older_than=LATE, executor=OwnProcess()).deleted == 0


def test_a_lost_changelog_is_not_reported_as_expired(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"changelog-producer": "input"})
    for number in range(4):
        write(table, number)
    lost = table.snapshots[2].changelog_manifest_list
    assert lost is not None
    table.store.storage.delete(table.store.paths.manifest(lost))
    with pytest.raises(TableCorrupt, match="a manifest is missing"):
        remove_orphans(table.store, older_than=LATE, executor=OwnProcess())
    with pytest.raises(TableCorrupt, match="a manifest is missing"):
        table.changes(2, 3)


def test_expiry_continues_over_a_gap_of_a_java_fast_forward(tmp_path: Path) -> None:
    """Main's own snapshots 2 to 4 took files away that are live in the branch's 9."""
    table = new_table(tmp_path, options={"bucket": "1"})
    write(table, 1)
    table.create_tag("x")
    branch = table.create_branch("b", "x")
    write(table, 2)
    table.compact()
    table.create_tag("own")
    for number in range(8):
        write(branch, 1000 + number)
    wanted = content(branch)
    branch.expire_snapshots(retain_max=1, older_than=LATE)
    left = branch.snapshots[0]
    table.store.storage.write(table.store.paths.snapshot(left.id), snapshot_json(left))
    table.store.snapshots.folder.write_latest(left.id)
    table.delete_branch("b")
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=LATE)
    assert [snapshot.id for snapshot in table.snapshots] == [left.id]
    assert content(table) == wanted
    check_whole(table.store)


def test_files_behind_a_gap_of_a_java_fast_forward_are_no_orphans(tmp_path: Path) -> None:
    """The branch's snapshots 2 to 7 added them, and its 8 is the first one that is left."""
    table = new_table(tmp_path, options={"bucket": "1", "write-only": "true"})
    write(table, 1)
    table.create_tag("x")
    branch = table.create_branch("b", "x")
    write(table, 2)
    for number in range(7):
        write(branch, 1000 + number)
    wanted = content(branch)
    branch.expire_snapshots(retain_max=1, older_than=LATE)
    left = branch.snapshots[0]
    assert [left] == branch.snapshots
    table.store.storage.write(table.store.paths.snapshot(left.id), snapshot_json(left))
    table.store.snapshots.folder.write_latest(left.id)
    table.delete_branch("b")
    remove_orphans(table.store, older_than=LATE, executor=OwnProcess())
    assert content(table) == wanted
