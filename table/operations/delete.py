"""DELETE with a condition: by -D rows in tables with keys, by rewritten files or deletion vectors in tables without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from penstock.errors import CommitConflict, ConfigError
from penstock.row_kinds import DELETE
from penstock.table.buckets.bucket_files import BucketFiles, read_vectors, write_vectors
from penstock.table.buckets.bucket_state import TableState
from penstock.table.buckets.layout import Layout
from penstock.table.commit.attempt import Check, Retries, commit_snapshot
from penstock.table.commit.changes import CommitChanges
from penstock.table.commit.conflicts import check_deletes, check_vectors_have_files
from penstock.table.commit.identity import Identity
from penstock.table.files.file_reader import POSITION, FileReader
from penstock.table.merge.engines.registry import merge_spec
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import DELETION_VECTORS, Bucket, FileKind, IndexEntry, ManifestEntry
from penstock.table.meta.live import index_entries, live_entries
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.write import TableWriter
from penstock.table.options.changelogs import DELETION_VECTORS_ENABLED
from penstock.table.options.writers import ROW_TRACKING_ENABLED
from penstock.table.read.filter import RowFilter
from penstock.table.read.plan import plan_state
from penstock.table.read.scan import Scan
from penstock.table.read.time_travel import Travel
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import arrow_schema

Positions = npt.NDArray[np.int64]
_TRIES = 3


def delete_rows(store: TableStore, where: pc.Expression | str, user: str | None = None) -> list[Snapshot]:
    """Delete the rows that match `where`; no snapshot is committed when none do.

    With keys it is an ordinary write: CommitConflict when another job writes the same buckets in the meantime. Without
    keys it is one OVERWRITE: files with matching rows are rewritten without them, or, with deletion vectors, only
    marked. It is repeated, up to three times, when another job rewrote one of the files. Keeps a batch of rows in
    memory.
    """
    condition = RowFilter.of(where, arrow_schema(store.schema().fields), store.name)
    user = user or store.new_commit_user()
    if store.schema().primary_keys:
        return _delete_by_keys(store, condition, user)
    lost: CommitConflict | None = None
    for _ in range(_TRIES):
        attempt = _Appended(store, store.snapshots.latest(), condition)
        try:
            return attempt.committed(user)
        except CommitConflict as conflict:
            attempt.discard()
            lost = conflict
    assert lost is not None
    raise lost


def _delete_by_keys(store: TableStore, condition: RowFilter, user: str) -> list[Snapshot]:
    check_deletable(store.schema(), store.name)
    # The writer reads the table state before the scan does, so that the commit detects rows other jobs write later.
    with TableWriter.open(store, user) as writer:
        found = False
        # Options of the table may make reads return an old snapshot. The newest rows are deleted.
        newest = replace(Scan.of(store, where=condition.given, falls_back=False), travel=Travel(), between=None)
        for batch in newest.to_batches():
            writer.write(batch, np.full(batch.num_rows, DELETE, np.int8))
            found = True
        return writer.commit() if found else []


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
    _marks: bool = field(init=False)
    _vectors_before: list[IndexEntry] = field(init=False)
    _state: TableState = field(init=False)
    _entries: list[ManifestEntry] = field(default_factory=list)
    _index: list[IndexEntry] = field(default_factory=list)
    _made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.layout = Layout.of(self.store.schema())
        self._marks = self.layout.schema.typed[DELETION_VECTORS_ENABLED]
        self._vectors_before = _vector_files(self.store, self.base)
        self._state = TableState(self.store, self.base)

    def committed(self, user: str) -> list[Snapshot]:
        if self.base is None:
            return []
        for place, files in self._buckets().items():
            self._bucket(place, files)
        changes = CommitChanges(CommitKind.OVERWRITE, self._entries, [], self._index)
        if changes.is_empty:
            return []
        retries = Retries.of(self.layout.schema.options)
        return [commit_snapshot(self.store, Identity(user, BATCH_IDENTIFIER), retries, self._check(changes))]

    def discard(self) -> None:
        for path in self._made:
            self.store.storage.delete(path)

    def _buckets(self) -> dict[Bucket, list[DataFile]]:
        found: dict[Bucket, list[DataFile]] = {}
        for split in plan_state(self.store, self.layout, self.base, self.condition.expression).splits:
            found.setdefault((split.partition, split.bucket), []).extend(split.files)
        return found

    def _bucket(self, place: Bucket, files: Sequence[DataFile]) -> None:
        bucket = BucketFiles(self.store, self.layout, *place)
        vectors = read_vectors(bucket, self._state.bucket(*place)) if self._marks else {}
        # One index file contains the vectors of the whole bucket, so those of unchanged files are written again
        # with it.
        marked = dict(vectors)
        changed = False
        for file in files:
            hits = self._hits(bucket, file, vectors.get(file.name))
            if not len(hits):
                continue
            if self._marks:
                marked[file.name] = np.union1d(vectors.get(file.name, hits), hits)
                changed = True
            else:
                self._rewrite(bucket, file, hits)
        if changed:
            entry = write_vectors(bucket, marked)
            self._made.append(bucket.index_path(entry))
            self._index.append(entry)

    def _hits(self, bucket: BucketFiles, file: DataFile, vector: Positions | None) -> Positions:
        """Return the positions of the rows to delete."""
        parts = [
            batch.column(POSITION).filter(self.condition.mask(batch.drop_columns([POSITION]))).to_numpy()
            for batch in self._reader(bucket).read(file, vector=vector, positions=True)
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _reader(self, bucket: BucketFiles) -> FileReader:
        fields = self.layout.schema.fields
        return FileReader(
            self.store.storage, bucket.path, self.store.schemas.get, fields, facts={"table": self.store.name}
        )

    def _rewrite(self, bucket: BucketFiles, file: DataFile, gone: Positions) -> None:
        """Rewrite the file without the deleted rows; the remaining rows keep their order among all files."""
        if self.layout.schema.typed[ROW_TRACKING_ENABLED]:
            raise ConfigError(
                "rows of a table with row-tracking.enabled cannot be deleted by rewriting files: the others would lose"
                " their ids",
                table=self.store.name,
                hint="set deletion-vectors.enabled = true on the table",
            )
        writer = bucket.open(first_sequence=file.min_sequence)
        done = False
        try:
            # The rows to delete are passed as a deletion vector, which the reader leaves out.
            for batch in self._reader(bucket).read(file, vector=gone):
                writer.write(batch)
            new = writer.finish()
            done = True
        finally:
            if not done:
                writer.abort()
        self._made += [bucket.path(one) for one in new]
        total = self._state.bucket(bucket.partition, bucket.bucket).total_buckets
        place = bucket.partition, bucket.bucket, total or self.layout.bucket_count
        self._entries.append(ManifestEntry(FileKind.ADD, *place, file).deleted())
        self._entries += [ManifestEntry(FileKind.ADD, *place, made) for made in new]

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
