"""Rollback to a snapshot or a tag, and what readers, writers and commits notice of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from _pytest.logging import LogCaptureFixture

from penstock.errors import ConfigError, StoreError
from penstock.storage.environment import seeded
from penstock.table.catalog.catalog import Catalog
from penstock.table.commit.completion import CommittedFiles, find_committed
from penstock.table.handle import Table
from penstock.table.maintenance.branches import create_branch, fast_forward
from penstock.table.maintenance.rollback import rollback_to
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from penstock.table.maintenance.tag_deletion import delete_tag
from penstock.table.maintenance.tags import create_tag, tag_files
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.snapshot_files import SnapshotFiles
from penstock.table.meta.store import TableStore
from penstock.table.operations import prepared_commits
from penstock.table.operations.executor import OwnProcess
from penstock.table.schema.changes import AddColumn
from penstock.table.schema.schema_files import SchemaFiles
from penstock.table.schema.table_schema import TableSchema
from tests.orphans import remove_orphans
from tests.simulation.store import Died, Disk, Fault, StoreFailure, at
from tests.unit.table.maintenance.tables import (
    LATE,
    check_whole,
    disk_of,
    golden,
    names,
    open_table,
    orphans,
    put,
    put_snapshot,
    write,
)
from tests.unit.table.tables import content, new_table, rows


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


@pytest.mark.parametrize("change", ["rollback", "fast-forward", "created again"])
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
