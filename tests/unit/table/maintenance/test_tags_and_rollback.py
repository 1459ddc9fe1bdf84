"""Tags and rollback, what a crash leaves of them and of branches, and expiry over gaps."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from _pytest.logging import LogCaptureFixture

from penstock.errors import ConfigError, StoreError, TableCorrupt
from penstock.storage.environment import seeded
from penstock.table.catalog.catalog import Catalog
from penstock.table.commit.completion import CommittedFiles, find_committed
from penstock.table.errors import SnapshotMissing, TagMissing
from penstock.table.handle import Table
from penstock.table.maintenance.branches import create_branch, fast_forward
from penstock.table.maintenance.rollback import rollback_to
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from penstock.table.maintenance.tag_deletion import delete_tag, delete_tags, expire_tags
from penstock.table.maintenance.tags import create_tag, replace_tag, tag_files
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import Snapshot, snapshot_json
from penstock.table.meta.snapshot_files import SnapshotFiles
from penstock.table.meta.store import TableStore
from penstock.table.operations import prepared_commits
from penstock.table.operations.executor import OwnProcess
from penstock.table.schema.changes import AddColumn, SetOption, evolve
from penstock.table.schema.schema_files import SchemaFiles
from penstock.table.schema.table_schema import TableSchema
from tests.orphans import remove_orphans
from tests.simulation.store import Died, Disk, Fault, StoreFailure, at
from tests.unit.table.maintenance.tables import (
    LATE,
    check_whole,
    disk_of,
    files,
    golden,
    names,
    open_table,
    orphans,
    put,
    put_snapshot,
    write,
)
from tests.unit.table.tables import content, new_table, rows

HOUR = 3_600_000


# tags


def test_a_tag_is_of_the_latest_snapshot_unless_another_is_named() -> None:
    store = golden("layout_data_dir")
    assert create_tag(store, "latest").snapshot == store.snapshots.get(6)
    assert create_tag(store, "third", 3).snapshot == store.snapshots.get(3)
    assert tag_files(store).names() == ["latest", "third"]
    check_whole(store)


def test_invalid_tags_are_refused() -> None:
    store = golden("layout_data_dir")
    create_tag(store, "a", 2)
    with pytest.raises(ConfigError, match=r"already[\s\S]*snapshot: 2"):
        create_tag(store, "a", 3)
    with pytest.raises(SnapshotMissing, match="9 does not exist"):
        create_tag(store, "b", 9)
    with pytest.raises(SnapshotMissing, match="no snapshot to tag"):
        create_tag(golden("empty_table"), "b")
    with pytest.raises(TagMissing):
        delete_tag(store, "b")


def test_tags_expire_after_their_time() -> None:
    store = golden("layout_data_dir")
    evolve(store.schemas, [SetOption("tag.default-time-retained", "2 h")], True, now=1)
    create_tag(store, "short", 2, retain_millis=1)
    create_tag(store, "long", 2, retain_millis=HOUR)
    assert create_tag(store, "by option", 2).retained_nanos == 2 * HOUR * 1_000_000
    store.ambient.now_millis()
    assert expire_tags(store) == ["short"]
    assert tag_files(store).names() == ["by option", "long"]


def test_files_are_deleted_with_the_last_tag_that_needs_them() -> None:
    store = golden("layout_data_dir")
    create_tag(store, "a", 2)
    create_tag(store, "b", 2)
    create_tag(store, "c", 4)
    expire_snapshots(store, retain_max=1, protect_users=0)
    held = files(store)
    delete_tag(store, "a")
    assert files(store) == held - {"tag/tag-a"}
    for name in ("b", "c"):
        delete_tag(store, name)
        check_whole(store)
        assert orphans(store) == set()


@pytest.mark.parametrize("case", ["layout_data_dir", "changelog_decoupled", "levels_partial", "dv_pk", "tags_expired"])
@pytest.mark.parametrize("most_files", [0, 100])
def test_tags_deleted_together_leave_no_orphans(case: str, most_files: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.table.maintenance.tag_deletion.MOST_FILES", most_files)
    store = golden(case)
    for number in store.snapshots.ids():
        create_tag(store, f"a{number}", number)
    create_tag(store, "again", store.snapshots.ids()[0])
    create_tag(store, "stays", store.snapshots.ids()[1])
    before = tag_files(store).names()
    expire_snapshots(store, retain_max=1, protect_users=0)
    gone = [name for name in before if name != "stays"]
    delete_tags(store, [*gone, "missing", *gone])
    assert tag_files(store).names() == ["stays"]
    check_whole(store)
    assert orphans(store) == set()


def test_tags_that_are_deleted_together_are_read_twice() -> None:
    """They were all read two to four times for each tag that expired: 200 of 3,000 took more than a minute."""
    store = golden("layout_data_dir")
    for number in range(30):
        create_tag(store, f"a{number}", 1 + number % 6, retain_millis=1)
    expire_snapshots(store, retain_max=1, protect_users=0)
    log = store.storage.log  # type: ignore[attr-defined]
    before = len(log)
    assert len(expire_tags(store)) == 30
    assert sum(operation.name == "read" and "/tag/tag-" in operation.path for operation in log[before:]) <= 3 * 30


def test_deleting_the_tag_of_an_existing_snapshot_deletes_no_files() -> None:
    store = golden("layout_data_dir")
    before = files(store)
    create_tag(store, "a", 2)
    delete_tag(store, "a")
    assert files(store) == before


def test_deleting_the_oldest_tags_leaves_no_orphans() -> None:
    for case in ("changelog_decoupled", "levels_partial", "dv_pk", "tags_expired"):
        store = golden(case)
        first = store.snapshots.ids()[0]
        create_tag(store, "old", first)
        expire_snapshots(store, retain_max=1, protect_users=0)
        check_whole(store)
        delete_tag(store, "old")
        check_whole(store)
        assert orphans(store) == set(), case


def test_an_expired_snapshot_with_a_tag_can_be_tagged_again() -> None:
    store = golden("layout_data_dir")
    create_tag(store, "a", 2)
    expire_snapshots(store, retain_max=1, protect_users=0)
    held = names(store, 6) | {entry.file.name for entry in live_entries(store, tag_files(store).get("a").snapshot)}
    create_tag(store, "b", 2)
    delete_tag(store, "a")
    check_whole(store)
    assert {path.rpartition("/")[2] for path in files(store) if "/data-" in path} == held
    replace_tag(store, "b", 6)
    with pytest.raises(SnapshotMissing, match="2 has expired"):
        create_tag(store, "c", 2)


def test_a_tag_created_during_the_delete_of_another_keeps_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = disk_of("layout_data_dir")
    store, tagger = open_table(disk), open_table(disk)
    create_tag(store, "a", 2)
    expire_snapshots(store, retain_max=1, protect_users=0)
    delete = store.storage.delete

    def tag_first(path: str) -> None:
        if path.endswith("tag-a"):
            create_tag(tagger, "saved", 2)
        delete(path)

    monkeypatch.setattr(store.storage, "delete", tag_first)
    delete_tag(store, "a")
    check_whole(open_table(disk))
    assert orphans(open_table(disk)) == set()


def test_tags_created_before_a_local_time_are_deleted() -> None:
    store = golden("layout_data_dir")
    store = replace(store, ambient=replace(store.ambient, zone_offset_millis=lambda _: 8 * HOUR))
    create_tag(store, "ends", 2, retain_millis=1000 * HOUR)
    made = store.ambient.now_millis()
    assert expire_tags(store, older_than=made - HOUR) == []
    assert expire_tags(store, older_than=made + HOUR) == ["ends"]


def test_the_creation_time_of_permanent_tags_is_that_of_their_file(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "1"})
    with table.writer() as writer:
        writer.write(rows(table, (1, "a", None)))
        writer.commit()
    table.create_tag("old")
    table.create_tag("young")
    os.utime(Path(table.path) / "tag/tag-old", (1_000, 1_000))
    assert table.expire_tags(older_than=1_000_000) == []
    assert table.expire_tags(older_than=1_000_001) == ["old"]


# rollback


def test_a_rollback_restores_an_older_snapshot() -> None:
    store = golden("layout_data_dir")
    for number in (2, 3, 5):
        create_tag(store, f"t{number}", number)
    wanted = names(store, 3)
    assert rollback_to(store, 3).id == 3
    assert store.snapshots.latest_id() == 3
    assert names(store, 3) == wanted
    assert tag_files(store).names() == ["t2", "t3"]
    check_whole(store)
    assert orphans(store)
    remove_orphans(store, older_than=LATE, executor=OwnProcess())
    check_whole(store)


def test_a_rollback_to_a_tag_restores_its_snapshot() -> None:
    store = golden("layout_data_dir")
    create_tag(store, "t2", 2)
    create_tag(store, "t4", 4)
    wanted = names(store, 2)
    expire_snapshots(store, retain_max=1, protect_users=0)
    assert rollback_to(store, "t2").id == 2
    assert store.snapshots.ids() == [2]
    assert [store.snapshots.earliest_id(), store.snapshots.latest_id()] == [2, 2]
    assert names(store, 2) == wanted
    assert tag_files(store).names() == ["t2"]
    check_whole(store)


def test_a_rollback_by_number_finds_the_tag_of_an_expired_snapshot() -> None:
    store = golden("layout_data_dir")
    create_tag(store, "second", 2)
    expire_snapshots(store, retain_max=1, protect_users=0)
    assert rollback_to(store, 2).id == 2
    assert store.snapshots.ids() == [2]
    check_whole(store)


def test_a_rollback_deletes_later_changelogs() -> None:
    store = golden("changelog_decoupled")
    create_tag(store, "t5", 5)
    expire_snapshots(store, retain_max=1, protect_users=0)
    put_snapshot(store, 6, 7)
    expire_snapshots(store, retain_max=1, protect_users=0)
    assert store.snapshots.changelogs.numbers() == [1, 2, 3, 4, 5, 6]
    rollback_to(store, "t5")
    assert store.snapshots.ids() == [5]
    assert store.snapshots.changelogs.numbers() == [1, 2, 3, 4, 5]
    assert store.snapshots.changelogs.latest() == 5
    check_whole(store)


@pytest.mark.parametrize("target", [9, "nothing"])
def test_a_rollback_to_a_missing_snapshot_is_refused(target: int | str) -> None:
    with pytest.raises(ConfigError):
        rollback_to(golden("layout_data_dir"), target)


# changelogs that are gone


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


# readers and writers that were there before


def test_consumers_are_reset_by_a_rollback(tmp_path: Path, caplog: LogCaptureFixture) -> None:
    table = new_table(tmp_path)
    for number in range(5):
        write(table, number)
    table.create_tag("late", 4)
    table.create_tag("early", 1)
    for name, place in (("ahead", 6), ("behind", 2), ("there", 3)):
        table.reset_consumer(name, place)
    table.rollback_to(2)
    assert table.consumers == {"ahead": 3, "behind": 2, "there": 3}
    assert table.tags == {"early": 1}
    assert "removed snapshots 3 to 5; removed tags late; set consumer ahead back to snapshot 3" in caplog.text
    write(table, 77)
    assert [change.snapshot for change in table.follow(consumer_id="ahead", until=3)] == [3]


def test_a_rollback_removes_the_tags_of_all_later_snapshots(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    for number in range(4):
        write(table, number)
        table.create_tag(f"t{number + 1}", number + 1)
    table.rollback_to(2)
    assert sorted(table.tags) == ["t1", "t2"]


def test_a_follower_reports_a_rollback(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    for number in range(3):
        write(table, number)
    following = table.follow(1, until=4)
    assert [next(following).snapshot for _ in range(3)] == [1, 2, 3]
    table.rollback_to(1)
    for number in range(3):
        write(table, 10 + number)
    with pytest.raises(ConfigError, match="snapshot 3 was replaced"):
        next(following)


@pytest.mark.parametrize("identifier", [None, 5])
def test_a_commit_detects_a_rollback_after_which_its_snapshot_was_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, identifier: int | None
) -> None:
    """The commit begins before the rollback: a snapshot that it had read by then is not the one to build on."""
    table = new_table(tmp_path)
    write(table, 1)
    write(table, 2)
    is_current, done = SchemaFiles.is_current, []

    def after_another_process(files: SchemaFiles, schema: TableSchema) -> bool:
        if not done:
            done.append(True)
            other = Table(TableStore.open(files._storage, table.store.paths.root, ambient=seeded(9)))
            other.rollback_to(1)
            write(other, 3)
        return is_current(files, schema)

    with table.writer() as writer:
        writer.write(rows(table, (4, "late", None)))
        monkeypatch.setattr(SchemaFiles, "is_current", after_another_process)
        with pytest.raises(ConfigError, match="snapshot 2 was replaced after the writer had read it"):
            writer.commit(identifier)
    assert [snapshot.id for snapshot in table.snapshots] == [1, 2]
    assert {row[0] for row in content(table)} == {1, 3}


def test_a_rollback_while_a_repeated_commit_looks_for_its_first_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(tmp_path, keys=(), options={"bucket": "-1"})
    write(table, 1)
    write(table, 2)

    def failing(files: SnapshotFiles, snapshot: Snapshot) -> bool:
        raise OSError("no answer")

    def looked_for(*args: Any) -> CommittedFiles:
        found = find_committed(*args)
        other = Table(TableStore.open(table.store.storage, table.store.paths.root, ambient=seeded(9)))
        other.rollback_to(1)
        write(other, 3)
        return found

    with table.writer() as writer:
        writer.write(rows(table, (4, "late", None)))
        messages = writer.prepare()
        with monkeypatch.context() as patched:
            patched.setattr(SnapshotFiles, "create", failing)
            with pytest.raises(StoreError):
                writer.commit_messages(messages)
        monkeypatch.setattr(prepared_commits, "find_committed", looked_for)
        writer.commit_messages(messages)
    assert {row[0] for row in content(table)} == {1, 3, 4}


@pytest.mark.parametrize("change", ["rollback", "fast-forward", "made anew"])
def test_an_open_writer_detects_a_fast_forward(tmp_path: Path, change: str) -> None:
    catalog = Catalog(tmp_path)
    catalog.create_database("d")
    table = catalog.create_table("d.t", [("k", "INT NOT NULL"), ("v", "INT")], ["k"], options={"bucket": "1"})
    put(table, k=1, v=1)
    table.create_tag("x")
    branch = table.create_branch("b", "x")
    catalog.alter_table("d.t$branch_b", [AddColumn("theirs", "INT")])
    put(branch.refresh(), k=2, v=2, theirs=2)
    catalog.alter_table("d.t", [AddColumn("ours", "INT")])
    table = catalog.table("d.t")
    put(table, k=3, v=3, ours=3)
    with table.writer() as writer:
        writer.write(pa.table({"k": pa.array([4], pa.int32()), "ours": pa.array([4], pa.int32())}))
        other = catalog.table("d.t")
        if change == "rollback":
            other.rollback_to(1)
            put(other, k=9, v=9)
        elif change == "fast-forward":
            other.fast_forward("b")
        else:
            catalog.drop_table("d.t")
            catalog.create_table("d.t", [("k", "INT NOT NULL"), ("ours", "INT")], ["k"], options={"bucket": "1"})
        with pytest.raises(ConfigError, match="was replaced after the writer had read it"):
            writer.commit()
    after = content(catalog.table("d.t"))
    assert 4 not in {row[0] for row in after}


# crashes


def forward(store: TableStore) -> None:
    fast_forward(store, "dev")


def branch_off(store: TableStore) -> None:
    create_branch(store, "new", "base")


def back(store: TableStore) -> None:
    rollback_to(store, 1)


def untag(store: TableStore) -> None:
    if tag_files(store).find("base") is not None:
        delete_tag(store, "base")


def outcome(disk: Disk) -> dict[str, bytes]:
    return {path: data for path, (data, _) in disk.files.items() if not path.endswith((".tmp", "EARLIEST"))}


@pytest.mark.slow
@pytest.mark.parametrize("verb", [forward, branch_off, back, untag])
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.DIES_BEFORE, Fault.DIES_AFTER])
def test_a_failed_operation_is_completed_by_a_retry(verb: Callable[[TableStore], None], fault: Fault) -> None:
    calm = disk_of("branches")
    store = open_table(calm)
    opened = len(store.storage.log)  # type: ignore[attr-defined]
    verb(store)
    for number in range(opened + 1, len(store.storage.log) + 1):  # type: ignore[attr-defined]
        disk = disk_of("branches")
        try:
            verb(open_table(disk, at(number, fault)))
        except (Died, StoreFailure):
            pass
        again = open_table(disk)
        if verb is not branch_off or not again.schemas.on_branch("new").ids():
            verb(again)
        remove_orphans(open_table(disk), older_than=LATE, executor=OwnProcess())
        check_whole(open_table(disk))
        reference = open_table(calm)
        remove_orphans(reference, older_than=LATE, executor=OwnProcess())
        assert outcome(disk) == outcome(calm)
