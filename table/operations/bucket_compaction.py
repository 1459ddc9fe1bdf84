"""The compaction of single buckets, as units of work that an executor may send to other processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace

from penstock.errors import ConfigError
from penstock.table.buckets.bucket_files import BucketFiles
from penstock.table.buckets.bucket_state import BucketState, TableState
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.compaction.append_policy import AppendPolicy
from penstock.table.compaction.bucket_compactor import BucketCompactor
from penstock.table.compaction.full_compaction import not_fully_compacted
from penstock.table.compaction.plan import CompactionSpec
from penstock.table.compaction.row_order import RowOrder
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import Bucket, CommitMessage, ManifestEntry
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.expiry_options import refuse_other_expiry
from penstock.table.operations.selection import Selection
from penstock.table.schema.table_schema import TableSchema

# Small files of a table without buckets are merged in groups. A group of this many full files is worth a task.
_TARGETS_OF_A_UNIT = 4


@dataclass(frozen=True, slots=True)
class BucketUnit:
    """A bucket to compact, or a part of the files of a table without buckets, with its state at one snapshot."""

    partition: bytes
    bucket: int
    state: BucketState

    @property
    def size(self) -> int:
        """Return the number of bytes of its files."""
        return sum(file.size for file in self.state.files)


@dataclass(frozen=True, slots=True)
class BucketCompaction:
    """The compaction of buckets of one table: all in full, only the due ones, or by sorting append buckets."""

    store: TableStore
    schema: TableSchema
    full: bool = True
    order: RowOrder | None = None

    @classmethod
    def of(
        cls, store: TableStore, options: Mapping[str, str] | None, *, full: bool = True, order: RowOrder | None = None
    ) -> BucketCompaction:
        """Return the compaction under the newest schema of the table, whose options `options` override."""
        schema = store.schema()
        refuse_other_expiry(store, schema, options or {})
        return cls(store, replace(schema, options={**schema.options, **(options or {})}), full, order)

    def __call__(self, unit: BucketUnit) -> CommitMessage | None:
        """Compact a bucket; None if there is nothing to do. A process that dies half way leaves orphan files."""
        compactor = self._compactor(unit)
        result = compactor.compact(full=self.full) if self.order is None else compactor.ordered(self.order)
        return None if result.is_empty else compactor.message(result)

    def units(self, snapshot: Snapshot, only: Selection) -> list[BucketUnit]:
        """Return the selected buckets at a snapshot, and those that must be compacted with them.

        Of tables with keys, only the due ones.
        """
        entries = [entry for entry in live_entries(self.store, snapshot) if entry.bucket >= 0]
        state = TableState(self.store, snapshot)
        places = only.buckets_of(self.store, entries)
        places = sorted({*places, *self._shown_together(entries, set(places))})
        state.load({partition for partition, _ in places})
        self._check_all_chosen(entries, set(places))
        whole = [BucketUnit(*place, state.bucket(*place)) for place in places]
        if self.order is not None:
            return whole
        layout = self.layout
        if layout.mode is BucketMode.UNAWARE:
            return [part for unit in whole for part in _parts(unit, AppendPolicy.of(layout.schema.typed).target_size)]
        # The metadata shows what is due. A task that finds nothing to do would cost more than reading it.
        return [unit for unit in whole if self.full or not layout.has_keys or self._compactor(unit).is_due()]

    def _shown_together(self, entries: Iterable[ManifestEntry], places: Set[Bucket]) -> Set[Bucket]:
        """Return all buckets with rows that wait for a compaction to be shown, if some of them are selected.

        Where keys move between partitions, the compaction of a commit may have been lost or rolled back. That of one
        bucket alone would show the new row of a key beside the old one, whose delete waits in another bucket.
        """
        spec = CompactionSpec.of(self.schema) if self.layout.has_keys else None
        if spec is None or not (spec.shows_by_compaction and spec.keys_move):
            return set()
        waiting = {(entry.partition, entry.bucket) for entry in entries if entry.file.level == 0}
        return waiting if waiting & places else set()

    def _check_all_chosen(self, entries: Iterable[ManifestEntry], places: Set[Bucket]) -> None:
        """Raise ConfigError if the changelog would have the new row of a key before its delete in another partition.

        A full compaction writes the changes of its own buckets; the changes of waiting buckets would come later.
        """
        spec = CompactionSpec.of(self.schema) if self.layout.has_keys else None
        if not self.full or spec is None or not (spec.full_changelog and spec.keys_move):
            return
        waiting = not_fully_compacted(entries)
        left = sorted(waiting - places)
        if left and waiting & places:
            raise ConfigError(
                "some partitions or buckets cannot be compacted alone: keys move between partitions, and the changelog"
                " would show the new row of a key before the delete of its old one",
                table=self.store.name,
                partition=str(self.layout.partition_values(left[0][0])),
                bucket=left[0][1],
                waiting_buckets=len(left),
                hint="compact the whole table, without partitions, conditions and buckets",
            )

    @property
    def layout(self) -> Layout:
        """Return the layout of the table with the options of this compaction."""
        return Layout.of(self.schema)

    def _compactor(self, unit: BucketUnit) -> BucketCompactor:
        return BucketCompactor(BucketFiles(self.store, self.layout, unit.partition, unit.bucket), unit.state)


def _parts(unit: BucketUnit, target: int) -> list[BucketUnit]:
    """Divide the files of a partition without buckets, whose groups are rewritten independently of each other."""
    if unit.state.vector_files:
        return [unit]  # the deletion vectors of all files are in one index file, which has one writer
    parts: list[list[DataFile]] = [[]]
    size = 0
    for file in sorted(unit.state.files, key=lambda file: file.min_sequence):
        if size >= _TARGETS_OF_A_UNIT * target:
            parts.append([])
            size = 0
        parts[-1].append(file)
        # Files that are large already are not read.
        size += file.size if file.size < target // 10 * 7 else 0
    return [replace(unit, state=replace(unit.state, files=tuple(files))) for files in parts]
