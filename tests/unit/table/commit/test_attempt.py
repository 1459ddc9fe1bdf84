"""Adding a snapshot when the store's reply to its put is lost, wrong or late, and when another process commits too."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import CommitConflict, StoreError
from penstock.storage.base import Storage
from penstock.storage.environment import seeded
from penstock.storage.local import LocalStorage
from penstock.table.commit.attempt import Retries, commit_snapshot
from penstock.table.commit.changes import CommitChanges, append_half
from penstock.table.commit.committer import Committer
from penstock.table.commit.identity import Identity
from penstock.table.handle import Table
from penstock.table.meta.entries import CommitMessage, ManifestEntry
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.snapshot_files import SnapshotFiles
from penstock.table.meta.store import FileCommits, TableStore
from tests.invariants import check_invariants
from tests.unit.table.tables import content, new_table, rows

Create = Callable[[str, bytes], bool]
Put = Callable[[Create, str, bytes, int], bool]
RETRIES = Retries(3, 0, 0, None)


class Puts:
    """A store whose creates of snapshots go through `put`, which is given their number from 1."""

    def __init__(self, inner: Storage, put: Put) -> None:
        self._inner, self._put, self._count = inner, put, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create(self, path: str, data: bytes) -> bool:
        if "/snapshot-" not in path:
            return self._inner.create(path, data)
        self._count += 1
        return self._put(self._inner.create, path, data, self._count)


class Late:
    """The first put times out; it arrives before the put with this number."""

    def __init__(self, before: int) -> None:
        self._before = before
        self._held: tuple[str, bytes] | None = None

    def __call__(self, create: Create, path: str, data: bytes, number: int) -> bool:
        if number == 1:
            self._held = path, data
            raise TimeoutError("no answer")
        if number == self._before:
            self.arrive(create)
        return create(path, data)

    def arrive(self, create: Create) -> None:
        assert self._held is not None
        create(*self._held)


def with_puts(table: Table, put: Put) -> TableStore:
    return TableStore.open(Puts(table.store.storage, put), table.store.paths.root, ambient=seeded(5))  # type: ignore[arg-type]


def prepared(table: Table, key: int, identifier: int | None = 1) -> list[CommitMessage]:
    writer = table.writer(commit_user="job")
    writer.write(rows(table, (key, "x", None)))
    return writer.prepare(identifier)


def keys_of(table: Table) -> list[object]:
    return [row[0] for row in content(table.refresh())]


def landed_but_refused(create: Create, path: str, data: bytes, number: int) -> bool:
    return create(path, data) and number > 1


def landed_but_cut(create: Create, path: str, data: bytes, number: int) -> bool:
    create(path, data)
    if number == 1:
        raise ConnectionResetError("cut")
    return True


PUTS: dict[str, Callable[[], Put]] = {
    "is done and refused": lambda: landed_but_refused,
    "is done and cut": lambda: landed_but_cut,
    "is done late": lambda: Late(before=2),
    "is never done": lambda: Late(before=99),
}


@pytest.mark.parametrize("put", PUTS.values(), ids=PUTS.keys())
@pytest.mark.parametrize("identifier", [None, 1])
@pytest.mark.parametrize("keys", [("id",), ()])
def test_a_commit_counts_once_when_the_reply_to_its_put_is_lost(
    tmp_path: Path, put: Callable[[], Put], identifier: int | None, keys: tuple[str, ...]
) -> None:
    table = new_table(tmp_path, keys=keys, options={"bucket": "1" if keys else "-1"})
    number = 2**63 - 1 if identifier is None else identifier
    Committer(table.store, "job").commit(prepared(table, 1, 0), 0)
    done = Committer(with_puts(table, put()), "job").commit(prepared(table, 2, identifier), number)
    assert [snapshot.id for snapshot in done.snapshots] == [2]
    assert keys_of(table) == [1, 2]
    check_invariants(table)


@pytest.mark.parametrize("put", PUTS.values(), ids=PUTS.keys())
def test_a_lost_reply_and_a_faster_writer(tmp_path: Path, put: Callable[[], Put]) -> None:
    table = new_table(tmp_path, keys=(), options={"bucket": "-1"})
    messages, way = prepared(table, 1), put()

    def beside(create: Create, path: str, data: bytes, number: int) -> bool:
        if number == 1:
            Committer(table.store, "other").commit(prepared(table, 7), 7)
        return way(create, path, data, number)

    Committer(with_puts(table, beside), "job").commit(messages, 1)
    assert keys_of(table) == [1, 7]
    check_invariants(table)


def adding(messages: list[CommitMessage]) -> CommitChanges:
    from penstock.table.commit.changes import append_half

    return append_half(messages)


def test_a_conflict_after_an_uncertain_put_deletes_nothing(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    changes, late = adding(prepared(table, 1)), Late(before=99)

    def check(latest: Snapshot | None, first: bool) -> CommitChanges:
        if first:
            return changes
        raise CommitConflict("a rule that sees another table than before")

    with pytest.raises(StoreError, match="it is not known whether the commit took effect") as caught:
        commit_snapshot(with_puts(table, late), Identity("job", 1), RETRIES, check)
    assert caught.value.retryable
    assert isinstance(caught.value, OSError)
    late.arrive(table.store.storage.create)
    assert keys_of(table) == [1]
    check_invariants(table)


def test_a_conflict_is_certain_once_another_snapshot_has_the_id(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    changes, late = adding(prepared(table, 1)), Late(before=99)

    def check(latest: Snapshot | None, first: bool) -> CommitChanges:
        if first:
            return changes
        raise CommitConflict("a rule")

    def put(create: Create, path: str, data: bytes, number: int) -> bool:
        try:
            return late(create, path, data, number)
        finally:
            Committer(table.store, "other").commit((), 7, force_empty=True)

    with pytest.raises(CommitConflict, match="a rule"):
        commit_snapshot(with_puts(table, put), Identity("job", 1), RETRIES, check)
    late.arrive(table.store.storage.create)
    snapshots = table.refresh().snapshots
    assert [snapshot.commit_user for snapshot in snapshots] == ["other"]
    named = {snapshots[0].base_manifest_list, snapshots[0].delta_manifest_list}
    assert {path.name for path in tmp_path.rglob("manifest-*")} == named


@dataclass(frozen=True)
class Locked(FileCommits):
    """The commits of a catalog with locks: `lock` is called before each of them, with its number from 1."""

    lock: Callable[[int], None]
    snapshots: list[int] = field(default_factory=list)

    def commit_snapshot(self, store: TableStore, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> bool:
        self.snapshots.append(snapshot.id)
        self.lock(len(self.snapshots))
        return FileCommits.commit_snapshot(self, store, snapshot, entries)


def test_a_refused_commit_leaves_no_metadata(tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=(), options={"bucket": "-1"})
    messages = prepared(table, 1)

    def no_lock(number: int) -> None:
        raise CommitConflict("no lock was obtained in 8 minutes")

    refusing = replace(table.store, commits=Locked(no_lock))
    with pytest.raises(CommitConflict, match="no lock"):
        Committer(refusing, "job").commit(messages, 1)
    assert not list(tmp_path.rglob("manifest-*"))
    assert [snapshot.id for snapshot in Committer(table.store, "job").commit(messages, 1).snapshots] == [1]
    assert keys_of(table) == [1]
    check_invariants(table)


def test_a_refused_commit_after_an_uncertain_one_deletes_nothing(tmp_path: Path) -> None:
    table, late = new_table(tmp_path), Late(before=99)

    def no_lock(number: int) -> None:
        if number == 2:
            raise CommitConflict("no lock was obtained in 8 minutes")

    store = replace(with_puts(table, late), commits=Locked(no_lock))
    changes = adding(prepared(table, 1))
    with pytest.raises(StoreError, match="it is not known whether the commit took effect"):
        commit_snapshot(store, Identity("job", 1), RETRIES, lambda latest, first: changes)
    late.arrive(table.store.storage.create)
    assert keys_of(table) == [1]
    check_invariants(table)


def test_an_expired_snapshot_is_not_created_again(tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=(), options={"bucket": "-1"})

    def put(create: Create, path: str, data: bytes, number: int) -> bool:
        assert number == 1
        create(path, data)
        for identifier in (7, 8):
            Committer(table.store, "other").commit((), identifier, force_empty=True)
        table.store.storage.delete(path)
        raise TimeoutError("no answer")

    with pytest.raises(StoreError):
        commit_snapshot(
            with_puts(table, put), Identity("job", 1), RETRIES, lambda latest, first: CommitChanges(CommitKind.APPEND)
        )


TABLES = {
    "append": ((), {"bucket": "-1"}),
    "append, buckets": ((), {"bucket": "2", "bucket-key": "id"}),
    "sums": (("id",), {"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum"}),
    "dynamic buckets": (("id",), {"bucket": "-1"}),
    "postponed buckets": (("id",), {"bucket": "-2"}),
    "overwrite": ((), {"bucket": "-1"}),
}


@pytest.mark.parametrize("name", TABLES)
def test_two_processes_with_one_identifier_commit_once(tmp_path: Path, name: str) -> None:
    keys, options = TABLES[name]
    table = new_table(tmp_path, keys=keys, options=options)
    first, second = prepared(table, 1, 7), prepared(table, 1, 7)

    def commit(store: TableStore, messages: list[CommitMessage]) -> tuple[list[int], int | None]:
        committer = Committer(store, "job")
        if name == "overwrite":
            done = committer.overwrite(messages, lambda partition: False, 7)
        else:
            done = committer.commit(messages, 7)
        return [snapshot.id for snapshot in done.snapshots], done.already.id if done.already else None

    def sleeping(create: Create, path: str, data: bytes, number: int) -> bool:
        if number == 1:
            assert commit(table.store, first) == ([1], None)
        return create(path, data)

    assert commit(with_puts(table, sleeping), second) == ([], 1)
    assert [snapshot.commit_identifier for snapshot in table.refresh().snapshots] == [7]
    check_invariants(table)


def test_the_slower_of_two_processes_deletes_only_its_files(tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=(), options={"bucket": "-1"})
    writer = table.writer(commit_user="job")
    writer.write(rows(table, (1, "x", None)))

    def sleeping(create: Create, path: str, data: bytes, number: int) -> bool:
        Committer(table.store, "job").commit(prepared(table, 1, 7), 7)
        return create(path, data)

    writer.store = with_puts(table, sleeping)
    assert writer.commit(7) == []
    assert keys_of(table) == [1]
    assert len(list(tmp_path.rglob("data-*"))) == 1


def test_the_compaction_of_a_commit_does_not_follow_the_users_next_commit(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "1", "changelog-producer": "lookup"})
    messages = prepared(table, 1, 1)
    assert messages[0].compact_after

    def sleeping(create: Create, path: str, data: bytes, number: int) -> bool:
        if number == 2:
            Committer(table.store, "job").commit((), 2, force_empty=True)
        return create(path, data)

    done = Committer(with_puts(table, sleeping), "job").commit(messages, 1)
    assert done.lost_compaction is not None
    assert Committer(table.store, "job").committed(2) is not None


def test_a_commit_whose_base_expires_is_retried_on_the_newest_snapshot(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    messages = prepared(table, 1)
    other = Table(table.store)

    def overtaken(latest: Snapshot | None, first: bool) -> CommitChanges:
        if first:  # another job commits, and expires the snapshot that this attempt is about to read
            with other.writer(commit_user="other") as writer:
                writer.write(rows(table, (2, "y", None)))
                writer.commit(2)
            other.expire_snapshots(retain_max=1, retain_min=1)
        return append_half(messages)

    with other.writer(commit_user="other") as writer:
        writer.write(rows(table, (3, "z", None)))
        writer.commit(1)
    store = TableStore.open(table.store.storage, table.store.paths.root, ambient=seeded(7))
    snapshot = commit_snapshot(store, Identity("job", 1), RETRIES, overtaken)
    assert snapshot.id == 3
    assert keys_of(table) == [1, 2, 3]
    check_invariants(table.refresh())


def test_manifests_are_durable_before_the_snapshot_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, events = new_table(tmp_path), list[str]()
    fsync, link = os.fsync, os.link

    def synced(descriptor: int) -> None:
        events.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    def linked(source: str, target: str) -> None:
        events.append(f"link {Path(target).name}")
        link(source, target)

    store = TableStore.open(LocalStorage(), table.store.paths.root, ambient=seeded(7))
    Committer(store, "job").commit(prepared(table, 1), 1)  # makes the folders
    messages = prepared(table, 2)
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    Committer(store, "job").commit(messages, 2)
    # A manifest and two lists, then their names, then the snapshot and its name.
    *files, folder, content, snapshot, names = events
    assert [name.startswith(".manifest-") for name in files] == [True, True, True]
    assert (folder, snapshot, names) == ("manifest", "link snapshot-2", "snapshot")
    assert content.startswith(".snapshot-2.")


@pytest.mark.parametrize("identifier", [None, 8])
def test_only_a_commit_with_an_identifier_looks_for_earlier_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, identifier: int | None
) -> None:
    table = new_table(tmp_path, keys=(), options={"bucket": "-1"})
    for number in range(3):
        Committer(table.store, "other").commit((), number, force_empty=True)
    read: list[int] = []
    find = SnapshotFiles.find

    def noted(files: SnapshotFiles, snapshot_id: int) -> Snapshot | None:
        read.append(snapshot_id)
        return find(files, snapshot_id)

    writer = table.writer(commit_user="job")
    writer.write(rows(table, (1, "x", None)))
    monkeypatch.setattr(SnapshotFiles, "find", noted)
    writer.commit(identifier)
    assert [number for number in read if number < 3] == ([] if identifier is None else [2, 1])
