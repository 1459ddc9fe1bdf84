"""The folder of snapshots, and the folder of changelogs that outlive their snapshots."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import StoreError
from penstock.storage.base import Storage, put_if_absent
from penstock.table.meta.errors import SnapshotMissing
from penstock.table.meta.hinted_folder import HintedFolder
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.snapshot_json import parse_snapshot, snapshot_json
from penstock.table.schema.numbered_files import branch_folder


class SnapshotFiles:
    """The snapshots of a table or branch.

    Nothing is cached, because after a rollback an id may refer to another snapshot.
    """

    def __init__(self, storage: Storage, table_path: str, branch: str | None = None) -> None:
        root = branch_folder(table_path, branch)
        self._storage = storage
        self._table = table_path
        self.folder = HintedFolder(storage, f"{root}/snapshot", "snapshot-")
        self.changelogs = HintedFolder(storage, f"{root}/changelog", "changelog-")

    def latest_id(self) -> int | None:
        return self.folder.latest()

    def earliest_id(self) -> int | None:
        return self.folder.earliest()

    def latest(self) -> Snapshot | None:
        """Return the newest snapshot, or None if there are no snapshots."""
        latest_id = self.folder.latest()
        # A concurrent rollback may have deleted the snapshot since its id was read.
        return None if latest_id is None else self.find(latest_id) or self._latest_listed()

    def _latest_listed(self) -> Snapshot | None:
        ids = self.ids()
        return self.get(ids[-1]) if ids else None

    def ids(self) -> list[int]:
        """Return all ids in ascending order, by listing."""
        return self.folder.numbers()

    def exists(self, snapshot_id: int) -> bool:
        return self.folder.exists(snapshot_id)

    def find(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot, or None if it does not exist."""
        return self._read(self.folder.path(snapshot_id))

    def get(self, snapshot_id: int) -> Snapshot:
        """Return the snapshot.

        Raise SnapshotMissing, which names the existing snapshots, if it has expired or is not created yet.
        """
        snapshot = self.find(snapshot_id)
        if snapshot is None:
            raise self._missing(snapshot_id)
        return snapshot

    def _missing(self, snapshot_id: int) -> SnapshotMissing:
        ids = self.ids()
        if not ids:
            return SnapshotMissing(f"there is no snapshot {snapshot_id}: the table has no snapshots", table=self._table)
        gone = snapshot_id < ids[0]
        return SnapshotMissing(
            f"snapshot {snapshot_id} " + ("has expired" if gone else "does not exist"),
            table=self._table,
            snapshots=f"{ids[0]} to {ids[-1]}",
            hint="keep snapshots longer by snapshot.time-retained, or protect them by a tag or a consumer-id"
            if gone
            else None,
        )

    def create(self, snapshot: Snapshot) -> bool:
        """Make the snapshot the newest one.

        Return False, with nothing changed, when another writer has created this id.

        After an OSError the snapshot may exist, or appear later. A crash before the hint is written leaves a snapshot
        that readers find without the hint.
        """
        path = self.folder.path(snapshot.id)
        if not put_if_absent(self._storage, path, snapshot_json(snapshot)):
            return False
        # The id is also free if another writer's snapshot with this id has expired since this commit began. Expiration
        # updates the hint before it deletes snapshots, so the hint reveals this case.
        if self.folder.begins_after(snapshot.id):
            self._storage.delete(path)
            raise StoreError(
                "the snapshot id of this commit expired while the commit ran",
                table=self._table,
                snapshot=snapshot.id,
                hint="keep more snapshots (snapshot.num-retained.min), and for a longer time (snapshot.time-retained)",
            )
        self.folder.write_latest(snapshot.id)
        return True

    def newest_first(self) -> Iterator[Snapshot]:
        """Yield the snapshots from the newest to the oldest.

        The iteration ends early at a snapshot that expires meanwhile.
        """
        snapshot = self.latest()
        while snapshot is not None:
            yield snapshot
            snapshot = self.find(snapshot.id - 1)

    def by_time(self, time_millis: int) -> Snapshot | None:
        """Return the newest snapshot committed at or before this time, or None when all snapshots are later."""
        ids = self.ids()
        found: Snapshot | None = None
        low, high = 0, len(ids) - 1
        while low <= high:
            middle = (low + high) // 2
            snapshot = self.find(ids[middle])
            if snapshot is not None and snapshot.time_millis > time_millis:
                high = middle - 1
            else:  # a missing snapshot has just expired, so it is older than all others
                found = snapshot or found
                low = middle + 1
        return found

    def find_changelog(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot whose changelog has outlived it, or None."""
        return self._read(self.changelogs.path(snapshot_id))

    def create_changelog(self, snapshot: Snapshot) -> bool:
        """Preserve the snapshot's changelog. Return False when another snapshot's changelog has this id."""
        created = put_if_absent(self._storage, self.changelogs.path(snapshot.id), snapshot_json(snapshot))
        self.changelogs.write_latest(snapshot.id)
        return created

    def _read(self, path: str) -> Snapshot | None:
        try:
            data = self._storage.read(path)
        except FileNotFoundError:
            return None
        return parse_snapshot(data, path)
