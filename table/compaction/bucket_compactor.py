"""Compaction of one bucket: the choice of its live files, the rewrite, and the result for a commit message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from penstock.table.buckets.bucket_files import BucketFiles, Vectors, dropped_vectors, read_vectors, write_vectors
from penstock.table.buckets.bucket_state import BucketState
from penstock.table.compaction.append_compactor import AppendCompactor
from penstock.table.compaction.compact import CompactionInput, compact
from penstock.table.compaction.compaction_result import CompactionResult
from penstock.table.compaction.lookup import Lookup
from penstock.table.compaction.lookup_store import LookupStore, bucket_mark, columns_mark, lookup_folder
from penstock.table.compaction.plan import CompactionSpec
from penstock.table.compaction.policy import Pick, Policy, must_wait, pick, pick_all
from penstock.table.compaction.record_expiry import RecordExpiry
from penstock.table.compaction.row_order import RowOrder
from penstock.table.files.file_reader import FileReader
from penstock.table.files.null_free import null_free_in
from penstock.table.merge.sorted_runs import Levels
from penstock.table.meta.data_file import DataFile, FileSource
from penstock.table.meta.entries import CommitMessage
from penstock.table.options.compaction import FORCE_LOOKUP
from penstock.table.options.indexes import LOOKUP_CACHE_MAX_DISK_SIZE


@dataclass
class BucketCompactor:
    """The compaction of the bucket of `files` by its table's options.

    Keeps nothing between calls except lookup files, in a folder shared by all processes of a user on this machine.
    """

    files: BucketFiles
    state: BucketState

    def compact(self, new_files: Sequence[DataFile] = (), *, full: bool = False) -> CompactionResult:
        """Run the compactions that are due once `new_files` are added to the bucket.

        The result is empty if there are none.
        """
        if not self.files.layout.has_keys:
            return self._append.compact(new_files, full=full)
        live = [*self.state.files, *new_files]
        vectors: Vectors = read_vectors(self.files, self.state)
        together = CompactionResult()
        while (chosen := self._chosen(live, vectors, full=full)) is not None:
            result = compact(self._spec, self._input(live, vectors), chosen)
            together = together.then(result)
            live = result.applied_to(live)
            vectors = vectors if result.vectors is None else result.vectors
            # One pick may leave more runs than the next writer may add to.
            if full or not must_wait(self._policy, self._levels(live)):
                break
        return self._with_index(together)

    def compact_due(self) -> CompactionResult:
        """Run the compaction that `is_due` reports."""
        return self.compact() if self.files.layout.has_keys else self._append.compact_due()

    def ordered(self, order: RowOrder) -> CompactionResult:
        """Rewrite all rows of an append bucket in the given order, so that each file has a range of it."""
        return self._append.ordered(order)

    def is_due(self) -> bool:
        """Return whether a compaction of the bucket in its present state is due.

        Reads index files, but no data files.
        """
        if not self.files.layout.has_keys:
            return self._append.is_due()
        return self._chosen(self.state.files, read_vectors(self.files, self.state), full=False) is not None

    def is_behind(self) -> bool:
        """Return whether a writer must compact before it adds another run (num-sorted-run.stop-trigger)."""
        return self.files.layout.has_keys and must_wait(self._policy, self._levels(self.state.files))

    def message(self, result: CompactionResult) -> CommitMessage:
        """Return the commit message of a compaction of the bucket as `state` describes it."""
        # A partition keeps its number of buckets until it is overwritten, even if the option has changed since.
        total = self.state.total_buckets
        message = CommitMessage(
            self.files.partition,
            self.files.bucket,
            self.files.layout.bucket_count if total is None else total,
            base_snapshot=self.state.snapshot,
            base_mark=self.state.mark,
            vectors_read=self.state.vector_files,
        )
        return result.into(message)

    @property
    def _append(self) -> AppendCompactor:
        return AppendCompactor(self.files, self.state)

    def _chosen(self, live: Sequence[DataFile], vectors: Vectors, *, full: bool) -> Pick | None:
        levels = self._levels(live)
        if full:
            # If all files are on the top level already, only these files and files with deleted rows are compacted.
            unfit = {file.name for file in levels.all_files if self._spec.must_rewrite(file)}
            return pick_all(levels, {*vectors, *unfit})
        # Both values follow from the bucket's files: a full compaction made the top level, and each commit added a file
        # of level 0.
        idle, skipped = self._idle_millis(levels), len(levels.level0) - 1
        if self._spec.full_changelog and self._spec.keys_move:
            # Only a full compaction of all changed buckets has the delete of a key that moves and its new row in one
            # snapshot. Compactions of single buckets write no changelog below the level that has been shown.
            levels = levels.below_highest()
        chosen = pick(self._policy, levels, idle_millis=idle, skipped=skipped)
        # Only level 0 may be below, and compactions never write to it.
        return None if chosen is None or chosen.level == 0 else chosen

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
        hour = self.files.store.ambient.local_millis() // 3_600_000 % 24
        layout = self.files.layout
        options = layout.schema.typed
        needs_lookup = self._spec.merge.needs_upper_levels or options[FORCE_LOOKUP]
        policy = Policy.of(options, needs_lookup=needs_lookup, hour=hour)
        # The row of a key that moves, and its delete in the other partition, become visible at the same time: readers
        # of changes must not get the delete later, and readers of rows not see the key twice.
        return replace(policy, gentle_interval=None) if self._spec.keys_move else policy

    def _levels(self, live: Sequence[DataFile]) -> Levels:
        return Levels.of(live, self._policy.num_levels)

    def _input(self, live: Sequence[DataFile], vectors: Vectors) -> CompactionInput:
        reader = self._reader()
        # An engine that makes rows may make nulls.
        whole = self._spec.merge.engine.keeps_rows_whole
        without_nulls = null_free_in(live, self.files.layout.schema) if whole else frozenset[str]()
        return CompactionInput(
            levels=self._levels(live),
            reader=reader,
            open_data=lambda level: self.files.open(
                level=level, source=FileSource.COMPACT, without_nulls=without_nulls
            ),
            open_changelog=lambda level: self.files.open(changelog=True, level=level),
            vectors=vectors,
            lookup=self._lookup(reader) if self._looks_up else None,
        )

    def _reader(self) -> FileReader:
        store, schema = self.files.store, self.files.layout.schema
        return FileReader(
            store.storage,
            self.files.path,
            store.schemas.get,
            schema.fields,
            with_sequence=True,
            with_kind=True,
            facts={"table": store.name, "bucket": self.files.bucket},
        )

    @property
    def _looks_up(self) -> bool:
        return self._spec.looks_up or self._spec.vectors

    def _lookup(self, reader: FileReader) -> Lookup:
        variant = f"{self._mark}.{columns_mark(self.files.layout.schema)}"
        return Lookup(self._spec.merge, reader, self._lookup_store, variant)

    @property
    def _mark(self) -> str:
        return bucket_mark(self.files.store, (self.files.partition, self.files.bucket))

    @cached_property
    def _lookup_store(self) -> LookupStore:
        """Return the lookup store without files of data files that left the bucket since its last compaction here."""
        most = self.files.layout.schema.typed[LOOKUP_CACHE_MAX_DISK_SIZE]
        store = LookupStore(lookup_folder(), most)
        store.keep_only(self._mark, {file.name for file in self.state.files})
        return store

    def _with_index(self, result: CompactionResult) -> CompactionResult:
        """Return the result with the entries of its deletion vectors, which are written to an index file."""
        if result.vectors is None:
            return result
        vectors = result.vectors
        index = [write_vectors(self.files, vectors)] if vectors else dropped_vectors(self.state)
        return replace(result, index=tuple(index))
