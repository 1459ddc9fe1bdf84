"""The keys of a table and their buckets, read from the table's files: all keys, or the keys that a snapshot added."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.row_kinds import is_retract
from penstock.table.buckets.layout import Layout
from penstock.table.dynamic_buckets.index_runs import KeyRun, places_of
from penstock.table.files.columns import VALUE_KIND
from penstock.table.files.file_reader import FileReader
from penstock.table.meta.data_file import DataFile, wall_millis
from penstock.table.meta.entries import Bucket, FileKind, ManifestEntry
from penstock.table.meta.live import delta_entries, live_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.buckets import CROSS_PARTITION_UPSERT_INDEX_TTL
from penstock.table.read.plan import Split, grouped, invisible_level_0, plan_state
from penstock.table.read.split_reader import SplitReader
from penstock.table.values.buffers import fixed_values
from penstock.table.values.fingerprints import fingerprints

Number = Callable[[bytes], int]


@dataclass(frozen=True, slots=True)
class TableKeys:
    """A reader of keys only. `number` returns the number of a partition. Holds a batch of every run of a bucket."""

    store: TableStore
    layout: Layout
    number: Number

    @property
    def ttl_millis(self) -> int | None:
        """Return the time to live of index entries, or None."""
        return self.layout.schema.typed[CROSS_PARTITION_UPSERT_INDEX_TTL]

    @property
    def second(self) -> int:
        """Return the current time in epoch seconds."""
        return self.store.ambient.now_millis() // 1000

    def visible(self, snapshot: Snapshot, partitions: Collection[bytes] | None = None) -> Iterator[KeyRun]:
        """Yield every key that a reader would see, and the keys on level 0 that wait for their compaction.

        As in Java, splits whose files are all older than `cross-partition-upsert.index-ttl` are skipped.
        """
        plan = plan_state(self.store, self.layout, snapshot)
        reader = SplitReader(self.store, self.layout, self.layout.key_fields)
        for split in sorted(plan.splits, key=_newest):
            if (partitions is None or split.partition in partitions) and self._is_young(split.files):
                for batch in reader.read(split):
                    yield self._run(batch, split.partition, split.bucket)
        if invisible_level_0(self.layout):
            waiting = live_entries(self.store, snapshot, partitions=partitions)
            for place, entries in grouped([e for e in waiting if e.bucket >= 0 and e.file.level == 0]).items():
                files = [entry.file for entry in entries]
                if self._is_young(files):
                    yield from (run[run.stamps > 0] for run in self._in_files(place, files))

    def added(self, snapshot: Snapshot, without: Collection[bytes] = ()) -> Iterator[KeyRun]:
        """Yield the keys of an APPEND snapshot, in order of arrival in each bucket; deleted keys have stamp 0."""
        entries = [
            entry
            for entry in delta_entries(self.store, snapshot)
            if entry.kind is FileKind.ADD and entry.bucket >= 0 and entry.partition not in without
        ]
        for place, group in grouped(entries).items():
            yield from self._in_files(place, sorted((entry.file for entry in group), key=_sequence))

    def _in_files(self, place: Bucket, files: Sequence[DataFile]) -> Iterator[KeyRun]:
        reader = FileReader(
            self.store.storage,
            self.layout.path_of(self.store.paths, *place),
            self.store.schemas.get,
            self.layout.key_fields,
            with_kind=True,
            facts={"table": self.store.name},
        )
        for file in files:
            for batch in reader.read(file):
                run = self._run(batch, *place)
                gone = is_retract(np.asarray(fixed_values(batch.column(VALUE_KIND.name), np.int8), np.int8))
                run.stamps[gone] = 0
                yield run

    def _run(self, batch: pa.RecordBatch, partition: bytes, bucket: int) -> KeyRun:
        fields = self.layout.key_fields
        keys = fingerprints([batch.column(field.name) for field in fields], [field.type for field in fields])
        numbers = np.full(batch.num_rows, self.number(partition), np.int64)
        return KeyRun.of(keys, places_of(numbers, np.full(batch.num_rows, bucket)), self.second)

    def _is_young(self, files: Sequence[DataFile]) -> bool:
        ttl = self.ttl_millis
        oldest = None if ttl is None else wall_millis(self.store.ambient.now_millis()) - ttl
        return oldest is None or any((file.creation_millis or 0) >= oldest for file in files)


def _newest(split: Split) -> int:
    """Return the sort key of a split: if a key were in two partitions, the younger file would win."""
    return max(file.creation_millis or 0 for file in split.files)


def _sequence(file: DataFile) -> int:
    return file.min_sequence


def touched(entries: Sequence[ManifestEntry]) -> set[bytes]:
    """Return the partitions of the entries."""
    return {entry.partition for entry in entries}
