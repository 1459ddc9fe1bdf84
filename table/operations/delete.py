"""DELETE with a condition: by -D rows in tables with keys, by rewritten files or deletion vectors in tables without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from penstock.errors import CommitConflict, ConfigError, PenstockError
from penstock.row_kinds import DELETE
from penstock.table.buckets.bucket_state import TableState
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.commit.attempt import Check, Retries, commit_snapshot
from penstock.table.commit.changes import CommitChanges
from penstock.table.commit.conflicts import check_deletes, check_vectors_have_files
from penstock.table.commit.identity import Identity
from penstock.table.compaction.full_compaction import FullCompaction
from penstock.table.merge.engines.registry import merge_spec
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import DELETION_VECTORS, Bucket, IndexEntry
from penstock.table.meta.live import index_entries, live_entries
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.deleted_rows import DeletedRows, FilesDelete, FilesUnit
from penstock.table.operations.executor import Executor, OwnProcess
from penstock.table.operations.row_copies import RowCopies, copied, one_unit, units_by_bucket
from penstock.table.operations.write import TableWriter
from penstock.table.options.changelogs import DELETION_VECTORS_ENABLED
from penstock.table.read.filter import RowFilter
from penstock.table.read.plan import plan_state
from penstock.table.read.scan import Scan
from penstock.table.read.time_travel import Travel
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import arrow_schema

Positions = npt.NDArray[np.int64]
_TRIES = 3


def delete_rows(
    store: TableStore, where: pc.Expression | str, user: str | None = None, executor: Executor | None = None
) -> list[Snapshot]:
    """Delete the rows that match `where`; no snapshot is committed when none do.

    With keys it is an ordinary write: CommitConflict when another job writes the same buckets in the meantime. Without
    keys it is one OVERWRITE: files with matching rows are rewritten without them, or, with deletion vectors, only
    marked. It is repeated, up to three times, when another job rewrote one of the files.

    `executor` runs a unit per bucket, and in tables without buckets per group of files. A unit keeps a batch of rows in
    memory, and with keys its write buffer.
    """
    condition = RowFilter.of(where, arrow_schema(store.schema().fields), store.name)
    user = user or store.new_commit_user()
    if store.schema().primary_keys:
        return _delete_by_keys(store, condition, user, executor or OwnProcess())
    lost: CommitConflict | None = None
    for _ in range(_TRIES):
        attempt = _Appended(store, store.snapshots.latest(), condition)
        try:
            return attempt.committed(user, executor or OwnProcess())
        except CommitConflict as conflict:
            attempt.discard()
            lost = conflict
    assert lost is not None
    raise lost


def _delete_by_keys(store: TableStore, condition: RowFilter, user: str, executor: Executor) -> list[Snapshot]:
    check_deletable(store.schema(), store.name)
    base = store.snapshots.latest()
    if base is None:
        return []
    # Options of the table may make reads return an old snapshot. The newest rows are deleted.
    scan = Scan.of(store, where=condition.given, falls_back=False)
    scan = replace(scan, travel=Travel(), between=None, snapshot=base)
    # The writers' base is the snapshot that is read, so that the commit detects rows other jobs write later.
    opened = partial(TableWriter.open, store, user, base=base)
    layout = Layout.of(store.schema())
    # A full compaction that is due opens buckets that were not written too, so that it needs one writer for all.
    apart = layout.mode is BucketMode.FIXED and FullCompaction.of(store, layout).every in {None, 1}
    units = (units_by_bucket if apart else one_unit)(scan.plan().splits)
    messages = copied(RowCopies(scan, opened, DELETE), units, executor, store)
    with opened() as writer:
        return writer.commit_messages(messages) if messages else []


def check_deletable(schema: TableSchema, table: str) -> None:
    """Raise ConfigError unless -D rows delete under the table's merge engine and options (the same rule as in Java)."""
    spec = merge_spec(schema)
    if not spec.accepts_deletes:
        option = spec.engine.removes_by
        hint = f"set {option.key} = true on the table" if option else None
        raise ConfigError(
            f"rows of a table with merge-engine = {spec.engine.name} cannot be deleted",
            table=table,
            paimon_message=f"merge engine {spec.engine.name} does not support batch delete",
            hint=hint,
        )
    if spec.ignore_delete or spec.rowkind_field:
        raise ConfigError(
            "the table ignores -D rows, or has a rowkind.field that decides the kind of a row", table=table
        )


@dataclass(slots=True)
class _Appended:
    """One attempt to delete from a table without keys."""

    store: TableStore
    base: Snapshot | None
    condition: RowFilter
    layout: Layout = field(init=False)
    _vectors_before: list[IndexEntry] = field(init=False)
    _deleted: list[DeletedRows] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.layout = Layout.of(self.store.schema())
        self._vectors_before = _vector_files(self.store, self.base)

    def committed(self, user: str, executor: Executor) -> list[Snapshot]:
        schema = self.layout.schema
        work = FilesDelete(self.store, schema, self.condition, schema.typed[DELETION_VECTORS_ENABLED])
        try:
            for found in executor.run(work, self._units(marks=work.marks)):
                self._deleted.append(found)
        except PenstockError:
            self.discard()
            raise
        entries = [entry for found in self._deleted for entry in found.entries]
        index = [entry for found in self._deleted for entry in found.index]
        changes = CommitChanges(CommitKind.OVERWRITE, entries, [], index)
        if changes.is_empty:
            return []
        retries = Retries.of(schema.options)
        return [commit_snapshot(self.store, Identity(user, BATCH_IDENTIFIER), retries, self._check(changes))]

    def discard(self) -> None:
        """Delete the files that were written."""
        for path in (path for found in self._deleted for path in found.made):
            self.store.storage.delete(path)

    def _units(self, *, marks: bool) -> list[FilesUnit]:
        state = TableState(self.store, self.base)
        found: dict[Bucket, list[tuple[DataFile, ...]]] = {}
        for split in plan_state(self.store, self.layout, self.base, self.condition.expression).splits:
            found.setdefault((split.partition, split.bucket), []).append(split.files)
        state.load({partition for partition, _ in found})
        # The vectors of all files of a bucket are in one index file, which has one writer.
        return [
            FilesUnit(*place, files, state.bucket(*place))
            for place, splits in found.items()
            for files in ([tuple(file for files in splits for file in files)] if marks else splits)
        ]

    def _check(self, changes: CommitChanges) -> Check:
        store, seen = self.store, _names(self._vectors_before, changes.partitions)

        def check(latest: Snapshot | None, first: bool) -> CommitChanges:
            """Accept rows that were added in the meantime.

            Raise CommitConflict when a file or a vector disappeared, so that the delete is repeated.
            """
            live = live_entries(store, latest, partitions=changes.partitions) if latest else []
            try:
                check_deletes(live, changes.entries, store.name)
                check_vectors_have_files(live, changes.entries, changes.index, store.name)
            except CommitConflict as taken:
                raise _meanwhile(store, "rewrote files with rows that were to be deleted") from taken
            if _names(_vector_files(store, latest), changes.partitions) != seen:
                raise _meanwhile(store, "deleted rows of the same partitions")
            return changes

        return check


def _vector_files(store: TableStore, snapshot: Snapshot | None) -> list[IndexEntry]:
    entries = index_entries(store, snapshot) if snapshot else []
    return [entry for entry in entries if entry.index_type == DELETION_VECTORS]


def _names(entries: Sequence[IndexEntry], partitions: set[bytes]) -> set[str]:
    return {entry.name for entry in entries if entry.partition in partitions}


def _meanwhile(store: TableStore, done: str) -> CommitConflict:
    return CommitConflict(f"another job {done}", table=store.name, hint="delete again while no such job is running")
