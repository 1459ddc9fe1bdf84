"""Compaction of one bucket: the choice of its live files, the rewrite, and the result for a commit message."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import ConfigError
from penstock.storage.private_folder import private_folder
from penstock.table.buckets.bucket_files import BucketFiles
from penstock.table.buckets.bucket_state import BucketState
from penstock.table.buckets.layout import BucketMode
from penstock.table.compaction.append_policy import AppendPolicy, pick_bins, pick_bucket, pick_idle_bins, pick_window
from penstock.table.compaction.compact import BucketFiles as BucketView
from penstock.table.compaction.compact import Compacted, compact
from penstock.table.compaction.lookup import Lookup
from penstock.table.compaction.lookup_store import LookupStore
from penstock.table.compaction.plan import CompactionSpec
from penstock.table.compaction.policy import Pick, Policy, must_wait, pick, pick_all
from penstock.table.compaction.record_expiry import RecordExpiry
from penstock.table.compaction.row_order import RowOrder, ordered_rows
from penstock.table.files.deletion_vectors import decode_vectors, encode_vectors
from penstock.table.files.file_reader import FileReader
from penstock.table.files.file_writer import RollingWriter
from penstock.table.merge.sorted_runs import Levels
from penstock.table.meta.data_file import DataFile, FileSource
from penstock.table.meta.entries import DELETION_VECTORS, Bucket, FileKind, IndexEntry, ManifestEntry
from penstock.table.meta.store import TableStore
from penstock.table.options.changelogs import DELETION_VECTORS_BITMAP64
from penstock.table.options.indexes import LOOKUP_CACHE_MAX_DISK_SIZE
from penstock.table.options.writers import ROW_TRACKING_ENABLED, WRITE_BUFFER_SIZE
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import field_json

Vectors = Mapping[str, npt.NDArray[np.int64]]
Arranged = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.Table]]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The combined result of the compactions of one bucket: the compaction part of a commit message."""

    before: tuple[DataFile, ...] = ()
    after: tuple[DataFile, ...] = ()
    changelog: tuple[DataFile, ...] = ()
    index: tuple[IndexEntry, ...] = ()


def lookup_folder() -> Path:
    """Return the folder of lookup files on this machine."""
    return private_folder("lookup")


def bucket_mark(store: TableStore, place: Bucket) -> str:
    """Return a mark of the table and the bucket for the names of lookup files.

    File names are unique within a table, but a copied table has the same names.
    """
    partition, bucket = place
    return f"{root_mark(store.paths.root)}.{zlib.crc32(partition, bucket):08x}"


def columns_mark(schema: TableSchema) -> str:
    """Return a mark of the columns of a schema, which decide the rows that are read from a file.

    The schema id would not do: each branch counts its own schemas, and branches share files.
    """
    columns = json.dumps([field_json(column) for column in schema.fields], sort_keys=True)
    return hashlib.blake2s(columns.encode(), digest_size=8).hexdigest()


def root_mark(root: str) -> str:
    """Return a mark of the table's path for the names of lookup files."""
    return f"{zlib.crc32(root.encode()):08x}"


def drop_lookups(store: TableStore, gone: Iterable[ManifestEntry]) -> None:
    """Delete this machine's lookup files of data files that left the table.

    Other machines delete theirs when they next compact the bucket. A reader that has a file open can finish.
    """
    schema = store.schema()
    spec = CompactionSpec.of(schema) if schema.primary_keys else None
    if spec is not None and (spec.looks_up or spec.vectors) and (folder := lookup_folder()).exists():
        places = [(entry.file.name, bucket_mark(store, (entry.partition, entry.bucket))) for entry in gone]
        variants = {columns_mark(store.schemas.get(number)) for number in store.schemas.ids()}
        LookupStore(folder, 0).drop(f"{name}-{mark}.{variant}" for name, mark in places for variant in variants)


@dataclass
class BucketCompactor:
    """The compaction of the bucket of `files` by its table's options.

    Keeps nothing between calls except lookup files, in a folder shared by all processes of a user on this machine.
    """

    files: BucketFiles
    state: BucketState
    _lookup_folder: Path = field(default_factory=lookup_folder)

    def due(self, new_files: Sequence[DataFile], *, full: bool = False) -> Rewritten:
        """Run the compactions that are due once `new_files` are added to the bucket.

        The result is empty if there are none.
        """
        if not self.files.layout.has_keys:
            return self._append((*self.state.files, *new_files), full=full)
        live = [*self.state.files, *new_files]
        vectors = self._vectors()
        done: list[Compacted] = []
        while (chosen := self._chosen(live, vectors, full=full)) is not None:
            result = compact(self._spec, self._view(live, vectors), chosen)
            done.append(result)
            live = _after(live, result)
            vectors = vectors if result.vectors is None else result.vectors
            if full or not must_wait(self._policy, self._levels(live)):
                break
        return self._together(done)

    def is_due(self) -> bool:
        """Return whether a compaction of the bucket in its present state is due.

        Reads index files, but no data files.
        """
        files = self.state.files
        if self._tracks_rows:
            return False
        if not self.files.layout.has_keys:
            policy = AppendPolicy.of(self.files.layout.schema.options)
            live = sorted(files, key=lambda file: file.min_sequence)
            if self.files.layout.mode is not BucketMode.UNAWARE:
                return bool(pick_window(policy, live))
            return bool(pick_idle_bins(policy, live, self._deleted_rows()))
        return self._chosen(files, self._vectors(), full=False) is not None

    def compact_due(self) -> Rewritten:
        """Run the compaction that `is_due` reports."""
        if self.files.layout.has_keys or self.files.layout.mode is not BucketMode.UNAWARE:
            return self.due(())
        policy = AppendPolicy.of(self.files.layout.schema.options)
        live = sorted(self.state.files, key=lambda file: file.min_sequence)
        return self._rewritten([] if self._tracks_rows else pick_idle_bins(policy, live, self._deleted_rows()))

    @property
    def _tracks_rows(self) -> bool:
        return self.files.layout.schema.typed[ROW_TRACKING_ENABLED]

    def is_behind(self) -> bool:
        """Return whether a writer must compact before it adds another run (num-sorted-run.stop-trigger)."""
        return self.files.layout.has_keys and must_wait(self._policy, self._levels(self.state.files))

    def _chosen(self, live: Sequence[DataFile], vectors: Vectors, *, full: bool) -> Pick | None:
        levels = self._levels(live)
        if full:
            unfit = {file.name for file in levels.all_files if self._spec.must_rewrite(file)}
            return pick_all(levels, {*vectors, *unfit})
        # Both values follow from the bucket's files: a full compaction made the top level, and each commit added a file
        # of level 0.
        return pick(self._policy, levels, idle_millis=self._idle_millis(levels), skipped=len(levels.level0) - 1)

    def _idle_millis(self, levels: Levels) -> int | None:
        top = [file.creation_millis for file in levels.upper[-1] if file.creation_millis is not None]
        return self.files.store.ambient.local_millis() - max(top) if top else None

    @cached_property
    def _spec(self) -> CompactionSpec:
        store, schema = self.files.store, self.files.layout.schema
        expiry = RecordExpiry.of(schema, store.ambient.now_millis(), store.schemas.get)
        return CompactionSpec.of(schema, expiry)

    @cached_property
    def _policy(self) -> Policy:
        needs_lookup = self._spec.looks_up or self._spec.vectors
        hour = self.files.store.ambient.local_millis() // 3_600_000 % 24
        return Policy.of(self.files.layout.schema.options, needs_lookup=needs_lookup, hour=hour)

    def _levels(self, live: Sequence[DataFile]) -> Levels:
        return Levels.of(live, self._policy.num_levels)

    def _view(self, live: Sequence[DataFile], vectors: Vectors) -> BucketView:
        reader = self._reader()
        return BucketView(
            levels=self._levels(live),
            reader=reader,
            open_data=lambda level: self.files.open(level=level, source=FileSource.COMPACT),
            open_changelog=lambda level: self.files.open(changelog=True, level=level),
            vectors=vectors,
            lookup=self._lookup(reader) if self._looks_up else None,
        )

    def _lookup(self, reader: FileReader) -> Lookup:
        variant = f"{self._mark}.{columns_mark(self.files.layout.schema)}"
        return Lookup(self._spec.merge, reader, self._lookup_store, variant)

    @property
    def _looks_up(self) -> bool:
        return self._spec.looks_up or self._spec.vectors

    @property
    def _mark(self) -> str:
        return bucket_mark(self.files.store, (self.files.partition, self.files.bucket))

    @cached_property
    def _lookup_store(self) -> LookupStore:
        """Return the lookup store without files of data files that left the bucket since its last compaction here."""
        most = self.files.layout.schema.typed[LOOKUP_CACHE_MAX_DISK_SIZE]
        store = LookupStore(self._lookup_folder, most)
        store.keep_only(self._mark, {file.name for file in self.state.files})
        return store

    def _reader(self) -> FileReader:
        keyed = self.files.layout.has_keys
        store = self.files.store
        return FileReader(
            store.storage,
            self.files.path,
            store.schemas.get,
            self.files.layout.schema.fields,
            with_sequence=keyed,
            with_kind=keyed,
            facts={"table": store.name, "bucket": self.files.bucket},
        )

    def _vectors(self) -> Vectors:
        """Return the deletion vectors of the bucket's live files.

        A full compaction of Java Paimon that rewrites one file leaves that file's vector in the index. Written again,
        it would get the commit refused as one that marks rows of a missing file, and so would every later compaction.
        """
        found: dict[str, npt.NDArray[np.int64]] = {}
        for entry in self.state.index:
            if entry.index_type == DELETION_VECTORS:
                path = self.files.index_path(entry)
                data = self.files.store.storage.read(path)
                found.update(decode_vectors(data, entry.vector_ranges or (), path))
        live = {file.name for file in self.state.files}
        return {name: vector for name, vector in found.items() if name in live}

    def _deleted_rows(self) -> dict[str, int]:
        return {name: len(rows) for name, rows in self._vectors().items()}

    def _together(self, done: Sequence[Compacted]) -> Rewritten:
        """Return several compactions as one: a file made by one and replaced by a later one is in neither list."""
        before: dict[tuple[str, int], DataFile] = {}
        after: dict[tuple[str, int], DataFile] = {}
        for result in done:
            for file in result.before:
                if after.pop((file.name, file.level), None) is None:
                    before[file.name, file.level] = file
            after.update({(file.name, file.level): file for file in result.after})
        changelog = tuple(file for result in done for file in result.changelog)
        vectors = next((result.vectors for result in reversed(done) if result.vectors is not None), None)
        index = () if vectors is None else tuple(self._index_changes(vectors))
        return Rewritten(tuple(before.values()), tuple(after.values()), changelog, index)

    def _index_changes(self, vectors: Vectors) -> list[IndexEntry]:
        """Write the index file of all vectors of the bucket, which replaces the previous one, and return its entry."""
        if not vectors:
            return [
                IndexEntry(
                    FileKind.DELETE, old.partition, old.bucket, old.index_type, old.name, old.size, old.row_count
                )
                for old in self.state.index
                if old.index_type == DELETION_VECTORS
            ]
        options = self.files.layout.schema.typed
        data, ranges = encode_vectors(vectors, bitmap64=options[DELETION_VECTORS_BITMAP64])
        name = f"index-{self.files.store.ambient.new_uuid()}-0"
        place = (self.files.partition, self.files.bucket)
        entry = IndexEntry(FileKind.ADD, *place, DELETION_VECTORS, name, len(data), len(ranges), ranges)
        self.files.store.storage.write(self.files.index_path(entry), data)
        return [entry]

    def _append(self, live: Sequence[DataFile], *, full: bool) -> Rewritten:
        """Rewrite small files in groups. In a bucket, rows keep their order and their sequence numbers."""
        if not full and self._tracks_rows:
            return self._rewritten([])
        policy = AppendPolicy.of(self.files.layout.schema.options)
        live = sorted(live, key=lambda file: file.min_sequence)
        if self.files.layout.mode is BucketMode.UNAWARE:
            return self._rewritten(pick_bins(policy, live, self._deleted_rows(), full=full))
        chosen = pick_bucket(policy, live, self._vectors()) if full else pick_window(policy, live)
        return self._rewritten([chosen] if chosen else [])

    def ordered(self, order: RowOrder) -> Rewritten:
        """Rewrite all rows of an append bucket in the given order, so that each file has a range of it."""
        most = self.files.layout.schema.typed[WRITE_BUFFER_SIZE]
        files = sorted(self.state.files, key=lambda file: file.min_sequence)
        return self._rewritten([files] if files else [], lambda rows: ordered_rows(rows, order, most // 4))

    def _rewritten(self, groups: Sequence[Sequence[DataFile]], arranged: Arranged | None = None) -> Rewritten:
        """Rewrite each group of append files without their deleted rows."""
        if groups and self._tracks_rows:
            raise ConfigError(
                "a table with row-tracking.enabled cannot be compacted here: its rows would lose their ids",
                table=self.files.store.name,
                hint="compact it with Flink's or Spark's Paimon",
            )
        vectors, reader = self._vectors(), self._reader()
        writers: list[RollingWriter] = []
        after: list[DataFile] = []
        done = False
        try:
            for group in groups:
                start = min(file.min_sequence for file in group)
                writers.append(self.files.open(source=FileSource.COMPACT, first_sequence=start))
                batches = (batch for file in group for batch in reader.read(file, vector=vectors.get(file.name)))
                for rows in batches if arranged is None else arranged(batches):
                    writers[-1].write(rows)
                after += writers[-1].finish()
            done = True
        finally:
            if not done:
                for writer in writers:
                    writer.abort()
        before = tuple(file for group in groups for file in group)
        names = {file.name for file in before}
        left = {name: vector for name, vector in vectors.items() if name not in names}
        index = self._index_changes(left) if len(left) < len(vectors) else ()
        return Rewritten(before, tuple(after), index=tuple(index))


def _after(live: Sequence[DataFile], result: Compacted) -> list[DataFile]:
    gone = {(file.name, file.level) for file in result.before}
    return [file for file in live if (file.name, file.level) not in gone] + list(result.after)
