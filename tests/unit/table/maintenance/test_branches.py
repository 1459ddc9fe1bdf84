"""Branches: how they begin, what is refused, and main after a fast-forward."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import CommitConflict, ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.errors import BranchMissing, SnapshotMissing, TagMissing
from penstock.table.handle import Table
from penstock.table.maintenance import branches
from penstock.table.maintenance.branches import create_branch, delete_branch, fast_forward
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from penstock.table.maintenance.tag_deletion import delete_tag
from penstock.table.maintenance.tags import create_tag, tag_files
from penstock.table.meta.snapshot_files import HintedFolder
from penstock.table.meta.store import branch_names
from penstock.table.operations.executor import OwnProcess
from penstock.table.schema.changes import AddColumn, evolve
from tests.orphans import remove_orphans
from tests.unit.table.maintenance.tables import (
    LATE,
    check_whole,
    golden,
    names,
    orphans,
    put,
    put_snapshot,
    write,
)
from tests.unit.table.tables import content, new_table, rows


def test_a_branch_from_a_tag_begins_with_its_snapshot() -> None:
    store = golden("layout_data_dir")
    evolve(store.schemas, [AddColumn("later", "INT")], True, now=1)
    create_tag(store, "t", 3)
    create_branch(store, "dev", "t")
    branch = store.on_branch("dev")
    assert branch_names(store) == ["dev"]
    assert branch.snapshots.ids() == [3]
    assert branch.schemas.ids() == [0]
    assert names(branch, 3) == names(store, 3)
    assert tag_files(branch).names() == ["t"]
    check_whole(store)


def test_writers_find_the_snapshot_of_a_new_branch_that_a_listing_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    store = golden("layout_data_dir")
    create_tag(store, "t", 3)
    create_branch(store, "dev", "t")
    monkeypatch.setattr(HintedFolder, "numbers", lambda self: [])
    assert store.on_branch("dev").snapshots.latest_id() == 3


def test_a_branch_of_an_expired_snapshot_is_created_from_its_tag() -> None:
    store = golden("layout_data_dir")
    create_tag(store, "t", 3)
    expire_snapshots(store, retain_max=1, protect_users=0)
    create_branch(store, "dev", "t")
    delete_tag(store, "t")
    check_whole(store)
    assert orphans(store) == set()


def test_an_empty_branch_has_all_schemas_and_no_snapshot() -> None:
    store = golden("layout_data_dir")
    evolve(store.schemas, [AddColumn("later", "INT")], True, now=1)
    create_branch(store, "dev")
    assert store.on_branch("dev").schemas.ids() == [0, 1]
    assert store.on_branch("dev").snapshots.ids() == []
    with pytest.raises(ConfigError, match="no snapshot to fast-forward to"):
        fast_forward(store, "dev")


@pytest.mark.parametrize("name", ["main", "", "7", "a/b"])
def test_invalid_branch_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot (name|be the name of) a branch"):
        create_branch(golden("layout_data_dir"), name)


def test_branches_are_created_once_and_deleted_once() -> None:
    store = golden("branches")
    with pytest.raises(ConfigError, match="already"):
        create_branch(store, "dev")
    with pytest.raises(TagMissing):
        create_branch(store, "new", "nothing")
    delete_branch(store, "dev")
    assert branch_names(store) == ["empty"]
    with pytest.raises(BranchMissing, match="branches are empty"):
        delete_branch(store, "dev")
    with pytest.raises(BranchMissing):
        fast_forward(store, "dev")
    check_whole(store)
    remove_orphans(store, older_than=LATE, executor=OwnProcess())
    check_whole(store)


def test_the_fallback_branch_cannot_be_deleted() -> None:
    store = golden("branches")
    newest = store.schema()
    store.schemas.create(replace(newest, id=newest.id + 1, options={**newest.options, "scan.fallback-branch": "dev"}))
    with pytest.raises(ConfigError, match="fallback branch"):
        delete_branch(store, "dev")


def test_fast_forward_replaces_main_by_the_branch() -> None:
    store = golden("branches")
    branch = store.on_branch("dev")
    wanted = {number: names(branch, number) for number in branch.snapshots.ids()}
    put_snapshot(store, store.snapshots.latest_id() or 0, 3)
    evolve(branch.schemas, [AddColumn("theirs", "INT")], True, now=1)
    evolve(store.schemas, [AddColumn("ours", "INT")], True, now=2)
    evolve(store.schemas, [AddColumn("ours too", "INT")], True, now=3)
    fast_forward(store, "dev")
    assert {number: names(store, number) for number in store.snapshots.ids()} == wanted
    assert store.schemas.ids() == [0, 1]
    assert store.schema().names[-1] == "theirs"
    check_whole(store)
    remove_orphans(store, older_than=LATE, executor=OwnProcess())
    check_whole(store)


@pytest.mark.parametrize("moment", ["_newest_shared", "_undone"])
def test_fast_forward_leaves_main_alone_if_the_branch_is_deleted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    table = new_table(tmp_path)
    for number in (1, 2):
        with table.writer() as writer:
            writer.write(rows(table, (number, "a", None)))
            writer.commit()
        if number == 1:
            table.create_tag("start")
            table.create_branch("b", "start")
    before = getattr(branches, moment)

    def deleting(*arguments: object) -> object:
        found = before(*arguments)
        delete_branch(table.store, "b")
        return found

    monkeypatch.setattr(branches, moment, deleting)
    with pytest.raises((CommitConflict, ConfigError)):
        table.fast_forward("b")
    assert table.count() == 2
    assert [snapshot.id for snapshot in table.snapshots] == [1, 2]


def test_fast_forward_drops_snapshots_and_tags_that_the_branch_lacks(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"write-only": "true"})
    write(table, 1)
    table.create_tag("x")
    branch = table.create_branch("b", "x")
    for number in range(3):
        write(table, 100 + number)
    table.create_tag("own")
    table.reset_consumer("reader", 5)
    for number in range(8):
        write(branch, 10 + number)
    branch.expire_snapshots(retain_max=1, older_than=LATE)
    table.fast_forward("b")
    assert [snapshot.id for snapshot in table.snapshots] == [9]
    assert table.tags == {"x": 1}
    assert table.consumers == {"reader": 2}
    assert content(table) == content(branch)
    with pytest.raises(SnapshotMissing, match="4 has expired"):
        table.scan(snapshot=4).to_arrow()
    table.reset_consumer("reader")
    for number in range(3):
        write(table, 200 + number)
    table.expire_snapshots(retain_max=1, older_than=LATE)
    assert [snapshot.id for snapshot in table.snapshots] == [12]
    remove_orphans(table.store, older_than=LATE, executor=OwnProcess())
    check_whole(table.store)


def left_after_fast_forward(table: Table, ours: int, theirs: int, kept: int) -> list[int]:
    """Return the snapshots of main: both have that many after the first one, and the branch has the newest left."""
    write(table, 1)
    table.create_tag("x")
    branch = table.create_branch("b", "x")
    for number in range(ours):
        write(table, 100 + number)
    for number in range(theirs):
        write(branch, 10 + number)
    branch.expire_snapshots(retain_max=kept, retain_min=kept, older_than=LATE)
    table.fast_forward("b")
    return [snapshot.id for snapshot in table.snapshots]


@pytest.mark.parametrize(
    ("ours", "theirs", "kept", "left"),
    [
        (0, 2, 1, [3]),  # who has read main's snapshot 1 finds a gap
        (0, 2, 2, [1, 2, 3]),
        (1, 3, 2, [4]),  # snapshot 3 of the branch would seem to follow main's 2
        (1, 3, 3, [1, 2, 3, 4]),
        (3, 6, 4, [6, 7]),  # and 4 its 3, for a stream that is behind
        (1, 5, 2, [5, 6]),
    ],
)
def test_no_stream_of_main_continues_in_a_branch_whose_beginning_has_expired(
    tmp_path: Path, ours: int, theirs: int, kept: int, left: list[int]
) -> None:
    table = new_table(tmp_path, options={"write-only": "true"})
    assert left_after_fast_forward(table, ours, theirs, kept) == left


@pytest.mark.parametrize(("ours", "theirs", "kept"), [(1, 2, 1), (3, 3, 1), (3, 4, 2)])
def test_a_branch_without_snapshots_that_leave_a_gap_is_refused(
    tmp_path: Path, ours: int, theirs: int, kept: int
) -> None:
    table = new_table(tmp_path, options={"write-only": "true"})
    with pytest.raises(ConfigError, match="the first snapshots of the branch have expired") as caught:
        left_after_fast_forward(table, ours, theirs, kept)
    assert f"until it has snapshot {ours + 3}" in (caught.value.hint or "")
    assert [snapshot.id for snapshot in table.snapshots] == list(range(1, ours + 2))
    branch = Table(table.store.on_branch("b"))
    while branch.snapshots[-1].id < ours + 3:
        write(branch, 50 + branch.snapshots[-1].id)
    table.fast_forward("b")
    assert content(table) == content(branch)
    assert [snapshot.id for snapshot in table.snapshots] == [ours + 3]


def test_fast_forward_refuses_tags_that_may_not_be_in_the_branch(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    write(table, 1)
    table.create_tag("x")
    branch = table.create_branch("b", "x")
    for number in range(3):
        write(branch, number)
    branch.delete_tag("x")
    branch.expire_snapshots(retain_max=1, older_than=LATE)
    with pytest.raises(ConfigError, match=r"the start of the branch is unknown[\s\S]*tags: x"):
        table.fast_forward("b")
    assert [snapshot.id for snapshot in table.snapshots] == [1]
    table.delete_tag("x")
    table.fast_forward("b")
    assert [snapshot.id for snapshot in table.snapshots] == [4]


def test_fast_forward_copies_all_schemas_of_the_branch(tmp_path: Path) -> None:
    """Live files may be of a version between the branch's beginning and its first snapshot that is left."""
    catalog = Catalog(tmp_path)
    catalog.create_database("d")
    table = catalog.create_table("d.t", [("k", "INT NOT NULL"), ("v", "INT")], ["k"], options={"bucket": "1"})
    put(table, k=1, v=1)
    table.create_tag("x")
    branch = table.create_branch("b", "x")
    catalog.alter_table("d.t", [AddColumn("main", "INT")])
    catalog.alter_table("d.t$branch_b", [AddColumn("first", "INT")])
    put(branch.refresh(), k=2, v=2, first=22)
    catalog.alter_table("d.t$branch_b", [AddColumn("second", "INT")])
    put(branch.refresh(), k=3, v=3, first=33, second=333)
    branch.expire_snapshots(retain_max=1, older_than=LATE)
    wanted = content(branch.refresh())
    table.fast_forward("b")
    assert content(table) == wanted
    assert content(catalog.table("d.t")) == wanted


def test_a_branch_that_has_expired_brings_no_changelogs_after_a_gap(tmp_path: Path) -> None:
    """The files of a tag in the gap were deleted with the last changelog before it."""
    options = {"changelog.num-retained.min": "20", "changelog.num-retained.max": "20", "write-only": "true"}
    table = new_table(tmp_path, options=options)
    write(table, 1)
    write(table, 2)
    table.create_tag("x")
    branch = table.create_branch("b", "x")
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=LATE)
    write(table, 3)
    write(branch, 4)
    branch.create_tag("in the gap")
    write(branch, 5)
    branch.compact(full=True)
    branch.expire_snapshots(retain_max=1, retain_min=1, older_than=LATE)
    assert (table.store.snapshots.changelogs.numbers(), branch.store.snapshots.changelogs.numbers()) == ([1], [2, 3, 4])
    table.fast_forward("b")
    delete_branch(table.store, "b")
    assert (table.store.snapshots.changelogs.numbers(), table.store.snapshots.ids()) == ([], [5])
    assert table.scan(tag="in the gap").to_arrow().num_rows == 3
    check_whole(table.store)
