"""Golden tables on a simulated disk, and what must hold of them after any maintenance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from penstock.storage.environment import seeded
from penstock.table.handle import Table
from penstock.table.maintenance.file_deletion import with_folders
from penstock.table.maintenance.kept_states import all_branches, changelogs_of, snapshots_of, tagged
from penstock.table.maintenance.orphans import find_orphans
from penstock.table.meta.live import changelog_entries, index_entries, live_entries
from penstock.table.meta.snapshot import Snapshot, snapshot_json
from penstock.table.meta.store import TableStore
from penstock.table.operations.executor import OwnProcess
from tests.golden.cases import unpacked
from tests.simulation.store import Disk, Faults, SimStore, never
from tests.unit.table.tables import rows

ROOT = "/w/golden.db/t"
LATE = 1 << 60


def disk_of(case: str) -> Disk:
    disk, table = Disk(), unpacked() / case / "table"
    for path in sorted(table.rglob("*")):
        if path.is_file():
            disk.put(f"{ROOT}/{path.relative_to(table).as_posix()}", Path(path).read_bytes())
    return disk


def open_table(disk: Disk, faults: Faults = never, branch: str | None = None) -> TableStore:
    """At a time at which all golden snapshots are months old, in the form of another process each time."""
    ambient = seeded(1, start_millis=1_900_000_000_000)
    return TableStore.open(SimStore(disk, faults), ROOT, branch, ambient)


def golden(case: str) -> TableStore:
    return open_table(disk_of(case))


def files(store: TableStore) -> set[str]:
    return {path.removeprefix(f"{ROOT}/") for path in store.storage.disk.files}  # type: ignore[attr-defined]


def orphans(store: TableStore) -> set[str]:
    return {orphan.path for orphan in find_orphans(store, older_than=LATE, executor=OwnProcess())}


def check_whole(store: TableStore) -> None:
    """Every file that a snapshot, a tag, or a changelog of any branch needs is there with its size; ids have no gap."""
    for line in all_branches(store):
        snapshots = list(snapshots_of(line))
        ids = [snapshot.id for snapshot in snapshots]
        assert ids == list(range(ids[0], ids[-1] + 1)) if ids else True
        assert line.snapshots.latest_id() == (ids[-1] if ids else None)
        # The hint goes first, so that earlier ones may still be there for a moment.
        assert line.snapshots.earliest_id() in (ids or [None])
        for snapshot in [*snapshots, *tagged(line)]:
            check_readable(line, snapshot)
        for snapshot in snapshots:
            check_files(line, changelog_entries(line, snapshot))
        for snapshot in changelogs_of(line):
            if snapshot.changelog_manifest_list is not None:
                check_files(line, changelog_entries(line, snapshot))


def check_readable(store: TableStore, snapshot: Snapshot) -> None:
    check_files(store, live_entries(store, snapshot))
    for index in index_entries(store, snapshot):
        folder = next(iter(with_folders(store, live_entries(store, snapshot))))[1].rpartition("/bucket-")[0]
        partition = folder.removeprefix(store.paths.data_root).strip("/")
        assert store.storage.size(store.paths.index_file(index.name, partition, index.bucket)) == index.size
    if snapshot.statistics is not None:
        assert store.storage.exists(store.paths.statistics(snapshot.statistics))


def check_files(store: TableStore, entries: list) -> None:  # type: ignore[type-arg]
    for entry, folder in with_folders(store, entries):
        assert store.storage.size(f"{folder}/{entry.file.name}") == entry.file.size
        for name in entry.file.extra_files:
            assert store.storage.exists(f"{folder}/{name}")


def put_snapshot(store: TableStore, like: int, snapshot_id: int, **changes: object) -> Snapshot:
    """Another snapshot in the place of a commit: the state of `like` under a new id."""
    snapshot = replace(store.snapshots.get(like), id=snapshot_id, **changes)  # type: ignore[arg-type]
    store.storage.write(store.paths.snapshot(snapshot_id), snapshot_json(snapshot))
    store.snapshots.folder.write_latest(snapshot_id)
    return snapshot


def write(table: Table, *ids: int) -> None:
    with table.writer() as writer:
        writer.write(rows(table, *((number, "x", None) for number in ids)))
        writer.commit()


def put(table: Table, **row: int) -> None:
    with table.writer() as writer:
        writer.write(pa.table({name: pa.array([value], pa.int32()) for name, value in row.items()}))
        writer.commit()


def names(store: TableStore, snapshot_id: int) -> set[str]:
    return {entry.file.name for entry in live_entries(store, store.snapshots.get(snapshot_id))}
