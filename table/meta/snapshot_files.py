"""The folder of snapshots, and the folder of changelogs that outlive their snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial

from penstock.errors import StoreError
from penstock.storage.base import Storage, file_exists, put_if_absent, read_hint, write_hint
from penstock.table.errors import SnapshotMissing
from penstock.table.meta.snapshot import Snapshot, parse_snapshot, snapshot_json
from penstock.table.schema.numbered_files import branch_folder, numbers_in

HINT_TRIES = 3
_READ_AT_ONCE = 8
# Most searches end within this number of snapshots, for which reading several files at a time would be wasted.
_READ_ONE_BY_ONE = 50


@dataclass(frozen=True, slots=True)
class HintedFolder:
    """The numbered files of a folder, found by hints.

    Every hint is verified against the files. A wrong, missing or truncated hint only costs a listing. `unwritten` is
    used instead of the hint LATEST as long as that hint is not written.
    """

    storage: Storage
    folder: str
    prefix: str
    unwritten: int | None = None

    def path(self, number: int) -> str:
        return f"{self.folder}/{self.prefix}{number}"

    def exists(self, number: int) -> bool:
        return file_exists(self.storage, self.path(number))

    def numbers(self) -> list[int]:
        return numbers_in(self.storage, self.folder, self.prefix)

    def latest(self) -> int | None:
        """Return the highest number, or None if the folder is empty."""
        hint = self.latest_hint()
        if hint is not None and self.exists(hint):
            return hint
        return self.latest_listed()

    def latest_hint(self) -> int | None:
        """Return the number of the hint, if it is not outdated. The file with this number need not exist."""
        hint = self._hint("LATEST") if self.unwritten is None else self.unwritten
        # The hint is written after the snapshot and may be old: it counts only if there is no next snapshot.
        # A rollback may have deleted the snapshot of the hint itself.
        return None if hint is None or self.exists(hint + 1) else hint

    def latest_listed(self) -> int | None:
        """Return the highest number by listing, or None if the folder is empty."""
        newest = self._listed(max)
        # A listing may lag behind the latest writes.
        while newest is not None and self.exists(newest + 1):
            newest += 1
        return newest

    def earliest(self) -> int | None:
        """Return the lowest number, or None if the folder is empty."""
        hint = self._hint("EARLIEST")
        if hint is not None and self.exists(hint):
            return hint
        return self._listed(min)

    @property
    def earliest_hint(self) -> int | None:
        """The number of the hint. The file with this number need not exist."""
        return self._hint("EARLIEST")

    @property
    def has_earliest_hint(self) -> bool:
        """Return whether there were files. Without files now, they are being replaced, or that was interrupted."""
        return self.earliest_hint is not None

    def begins_after(self, number: int) -> bool:
        """Return whether a file with this number would precede the earliest file, in the range that has expired."""
        hint = self._hint("EARLIEST")
        return hint is not None and hint > number and self.exists(hint)

    def goes_back_before(self, number: int) -> bool:
        """Return whether the hint of the newest file is before this number: a rollback begins by writing it."""
        hint = self._hint("LATEST")
        return hint is not None and hint < number

    def _listed(self, choose: Callable[[list[int]], int]) -> int | None:
        numbers = self.numbers()
        return choose(numbers) if numbers else None

    def _hint(self, name: str) -> int | None:
        return read_hint(self.storage, f"{self.folder}/{name}")

    def write_latest(self, number: int) -> None:
        # It need not be durable, since the snapshots are found without it.
        self._write_hint("LATEST", number, partial(write_hint, self.storage))

    def write_earliest(self, number: int) -> None:
        # It shows which ids have expired, even if the snapshots are deleted.
        self._write_hint("EARLIEST", number, self.storage.write)

    def begin_at(self, number: int) -> None:
        """Write the hint of the earliest file, or raise OSError: without it, the next steps could not be repeated."""
        self.storage.write(f"{self.folder}/EARLIEST", str(number).encode())

    def delete_hints(self) -> None:
        self.storage.delete(f"{self.folder}/LATEST")
        self.storage.delete(f"{self.folder}/EARLIEST")

    def _write_hint(self, name: str, number: int, write: Callable[[str, bytes], None]) -> None:
        # Failing to write a hint is not an error, because readers do not depend on it.
        for _ in range(HINT_TRIES):
            try:
                return write(f"{self.folder}/{name}", str(number).encode())
            except OSError:
                continue
        return None


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
        self._is_first_half = False

    def for_two_halves(self) -> SnapshotFiles:
        """Return these files for a commit of two snapshots. Only the second snapshot writes the hint LATEST.

        Call `settle_hint` at the end, which writes the hint if there is no second snapshot. In between the hint is one
        behind, as after a crash between a snapshot and its hint.
        """
        files = copy(self)
        files._is_first_half = True
        return files

    @property
    def is_second_half(self) -> bool:
        """True if the first of two halves has been made, and nothing after it."""
        return self.folder.unwritten is not None

    def settle_hint(self) -> None:
        """Write the hint of a first half that no second one has followed, unless a rollback has deleted it."""
        owed = self.folder.unwritten
        # Without an answer the hint stays one behind, which costs readers a listing until the next commit.
        with suppress(OSError):
            if owed is not None and self.exists(owed):
                self._note_latest(owed)

    def latest_id(self) -> int | None:
        return self.folder.latest()

    def earliest_id(self) -> int | None:
        return self.folder.earliest()

    def latest(self) -> Snapshot | None:
        """Return the newest snapshot, or None if there are no snapshots."""
        hint = self.folder.latest_hint()
        # Reading the snapshot of the hint also shows whether it exists.
        hinted = None if hint is None else self.find(hint)
        if hinted is not None:
            return hinted
        latest_id = self.folder.latest_listed()
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

    def find_all(self, snapshot_ids: Sequence[int]) -> Iterator[Snapshot]:
        """Yield those of the snapshots that exist, in the given order. Several files are read at a time."""
        with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
            yield from (snapshot for snapshot in pool.map(self.find, snapshot_ids) if snapshot is not None)

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
            message = f"there is no snapshot {snapshot_id}: the table has no snapshots"
            return SnapshotMissing(message, table=self._table, hint="write rows first")
        gone = 1 <= snapshot_id < ids[0]  # ids begin with 1
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
        if self._is_first_half:
            self._is_first_half, self.folder = False, replace(self.folder, unwritten=snapshot.id)
        else:
            self._note_latest(snapshot.id)
        return True

    def _note_latest(self, number: int) -> None:
        self.folder = replace(self.folder, unwritten=None)
        self.folder.write_latest(number)

    def newest_first(self, newest: Snapshot | None = None) -> Iterator[Snapshot]:
        """Yield the snapshots from the newest to the oldest. `newest` is the newest one if it has just been read.

        The iteration ends early at a snapshot that expires meanwhile. Beyond the newest ones, several files are read at
        a time.
        """
        found, seen, last = [newest or self.latest()], 0, 0
        while found:
            for snapshot in found:
                if snapshot is None:
                    return
                yield snapshot
                last = snapshot.id
            seen += len(found)
            found = self._before(last, 1 if seen < _READ_ONE_BY_ONE else _READ_AT_ONCE)

    def _before(self, snapshot_id: int, count: int) -> list[Snapshot | None]:
        # Ids are consecutive, so the predecessors are found without a listing.
        ids = range(snapshot_id - 1, max(snapshot_id - 1 - count, 0), -1)
        if count == 1:
            return [self.find(number) for number in ids]
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(self.find, ids))

    def find_changelog(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot whose changelog has outlived it, or None."""
        return self._read(self.changelogs.path(snapshot_id))

    def create_changelog(self, snapshot: Snapshot) -> bool:
        """Preserve the snapshot's changelog. Return False when another snapshot's changelog has this id."""
        # An expiry that is repeated after a crash writes the same content, which put_if_absent accepts.
        created = put_if_absent(self._storage, self.changelogs.path(snapshot.id), snapshot_json(snapshot))
        self.changelogs.write_latest(snapshot.id)
        return created

    def _read(self, path: str) -> Snapshot | None:
        try:
            data = self._storage.read(path)
        except FileNotFoundError:
            return None
        return parse_snapshot(data, path)
