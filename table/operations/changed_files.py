"""One commit that changes files of an append table: rewritten files, deletion vectors and files of new rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from penstock.errors import CommitConflict, PenstockError
from penstock.table.buckets.bucket_files import discard
from penstock.table.buckets.bucket_state import BucketState, TableState
from penstock.table.buckets.layout import Layout
from penstock.table.commit.attempt import Check, Retries, commit_snapshot
from penstock.table.commit.changes import CommitChanges, append_half
from penstock.table.commit.conflicts import check_bucket_totals, check_deletes, check_vectors_have_files
from penstock.table.commit.identity import Identity
from penstock.table.commit.seen_files import check_paths
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import DELETION_VECTORS, Bucket, CommitMessage, IndexEntry
from penstock.table.meta.live import index_entries, live_entries
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.deleted_rows import DeletedRows, FilesUnit
from penstock.table.read.splits import Split

_TRIES = 3
Result = TypeVar("Result")


def repeated(attempt: Callable[[], Result]) -> Result:
    """Run an attempt, and again up to two times when another job changed a file that it read."""
    for _ in range(_TRIES - 1):
        try:
            return attempt()
        except CommitConflict:
            continue
    return attempt()


@dataclass(slots=True)
class ChangedFiles:
    """An attempt to change rows of a table without keys that were read from `base`, in one OVERWRITE.

    Leaving the `with` block without a commit deletes the files that were written.
    """

    store: TableStore
    base: Snapshot | None
    layout: Layout = field(init=False)
    _state: TableState = field(init=False)
    _vectors_before: list[IndexEntry] = field(init=False)
    _deleted: list[DeletedRows] = field(default_factory=list)
    _messages: list[CommitMessage] = field(default_factory=list)
    _kept: bool = False

    def __post_init__(self) -> None:
        self.layout = Layout.of(self.store.schema())
        self._state = TableState(self.store, self.base)
        self._vectors_before = _vector_files(self.store, self.base)

    def __enter__(self) -> ChangedFiles:
        return self

    def __exit__(self, *_: object) -> None:
        if self._kept:
            return
        for path in (path for found in self._deleted for path in found.made):
            self.store.storage.delete(path)
        discard(self.store, self._messages, self.layout)

    def add(self, removed: DeletedRows) -> None:
        """Take files from which rows were removed into the commit."""
        self._deleted.append(removed)
        check_paths(self.store, removed.made)

    def add_rows(self, messages: Iterable[CommitMessage]) -> None:
        """Take files of new rows into the commit."""
        self._messages += messages

    @property
    def removed_rows(self) -> int:
        """Return the number of removed rows."""
        return sum(found.rows for found in self._deleted)

    def commit(self, user: str) -> list[Snapshot]:
        """Commit everything; no snapshot is committed when nothing changes.

        CommitConflict when another job changed one of the files or vectors. Files that it added are accepted.
        """
        entries = [entry for found in self._deleted for entry in found.entries]
        index = [entry for found in self._deleted for entry in found.index]
        new = append_half(self._messages)
        # Readers of changes skip an OVERWRITE, so it is one only if rows were removed.
        kind = CommitKind.OVERWRITE if entries or index else CommitKind.APPEND
        changes = CommitChanges(kind, [*entries, *new.entries], [], [*index, *new.index])
        if changes.is_empty:
            return []
        retries = Retries.of(self.layout.schema.options)
        self._kept = True
        try:
            return [commit_snapshot(self.store, Identity(user, BATCH_IDENTIFIER), retries, self._check(changes))]
        except PenstockError as error:
            # After an error of the store, the files may be in a snapshot.
            self._kept = isinstance(error, OSError)
            raise

    def units(self, splits: Sequence[Split], *, whole: bool) -> list[FilesUnit]:
        """Return the files of splits as units of work.

        With `whole`, a unit has all files of a bucket: their vectors are in one index file, which has one writer.
        """
        found: dict[Bucket, list[tuple[DataFile, ...]]] = {}
        for split in splits:
            found.setdefault((split.partition, split.bucket), []).append(split.files)
        return [
            FilesUnit(*place, files, state)
            for (place, splits_of), state in zip(found.items(), self.states(found), strict=True)
            for files in ([tuple(file for files in splits_of for file in files)] if whole else splits_of)
        ]

    def states(self, buckets: Collection[Bucket]) -> list[BucketState]:
        """Return the states of buckets in the snapshot that was read."""
        self._state.load({partition for partition, _ in buckets})
        return [self._state.bucket(*bucket) for bucket in buckets]

    def _check(self, changes: CommitChanges) -> Check:
        store, seen = self.store, _names(self._vectors_before, changes.partitions)

        def check(latest: Snapshot | None, first: bool) -> CommitChanges:
            """Accept rows that were added in the meantime.

            Raise CommitConflict when a file or a vector disappeared, so that the change is repeated.
            """
            live = live_entries(store, latest, partitions=changes.partitions, to_commit=True) if latest else []
            try:
                check_deletes(live, changes.entries, store.name)
                check_vectors_have_files(live, changes.entries, changes.index, store.name)
            except CommitConflict as taken:
                raise _meanwhile(store, "rewrote files with rows that were to be changed") from taken
            check_bucket_totals(live, changes.entries, store.name)
            rewrites = changes.kind is CommitKind.OVERWRITE
            if rewrites and _names(_vector_files(store, latest), changes.partitions) != seen:
                raise _meanwhile(store, "deleted rows of the same partitions")
            return changes

        return check


def _vector_files(store: TableStore, snapshot: Snapshot | None) -> list[IndexEntry]:
    entries = index_entries(store, snapshot, to_commit=True) if snapshot else []
    return [entry for entry in entries if entry.index_type == DELETION_VECTORS]


def _names(entries: Sequence[IndexEntry], partitions: set[bytes]) -> set[str]:
    return {entry.name for entry in entries if entry.partition in partitions}


def _meanwhile(store: TableStore, done: str) -> CommitConflict:
    return CommitConflict(f"another job {done}", table=store.name, hint="repeat it while no such job is running")
