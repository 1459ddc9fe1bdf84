"""The lookup by the whole primary key, in the sorted files of the table.

Each data file that is asked for is kept once on local disk as mapped Arrow rows with sorted keys. Data files never
change, so a new snapshot costs only its new files. If files of a bucket have to be merged to find the row of a key, the
bucket is merged once into such a file, and again when it changes. So a lookup finds what a scan of the snapshot
returns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.row_kinds import is_retract
from penstock.table.buckets.bucket_files import BucketFiles, read_vectors
from penstock.table.buckets.bucket_state import BucketState
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.buckets.route import buckets_of, partitions_of
from penstock.table.compaction.lookup import Lookup, Vectors
from penstock.table.compaction.lookup_store import MERGED, LookupStore, bucket_mark, columns_mark
from penstock.table.files.columns import VALUE_KIND
from penstock.table.files.file_reader import FileReader
from penstock.table.lookup.sorted_part import SortedPart, content_mark
from penstock.table.merge.engines.registry import merge_spec
from penstock.table.merge.sorted_runs import Levels, sections
from penstock.table.meta.entries import Bucket
from penstock.table.meta.live import index_entries, live_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.read.plan import grouped
from penstock.table.read.split_reader import SplitReader
from penstock.table.read.splits import Split, invisible_level_0, is_settled
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.buffers import Ints, fixed_values

Found = tuple[Ints, pa.Table]


class LookupRows(Protocol):
    """The rows of one bucket by key."""

    def find(self, probes: Sequence[pa.Array]) -> Found | None: ...


@dataclass(frozen=True, slots=True)
class FilesOfBucket:
    """A bucket in which the newest file that has a key has the row that a reader sees."""

    levels: Levels
    lookup: Lookup
    vectors: Vectors

    def find(self, probes: Sequence[pa.Array]) -> Found | None:
        hits = self.lookup.find(self.levels, 0, probes, vectors=self.vectors, with_rows=True)
        if hits.rows is None:
            return None
        kinds = np.asarray(fixed_values(hits.rows.column(VALUE_KIND.name).combine_chunks(), np.int8), np.int8)
        deleted = is_retract(kinds)
        if not deleted.any():
            return hits.probes, hits.rows
        return hits.probes[~deleted], hits.rows.filter(pa.array(~deleted))


class PrimaryKeyIndex:
    """A `DimensionIndex` by the primary key."""

    def __init__(self, store: TableStore, columns: tuple[str, ...], local: LookupStore) -> None:
        self._store, self._columns, self._local = store, columns, local
        self.key_columns: tuple[str, ...] = ()
        self._buckets: dict[Bucket, LookupRows] = {}
        self._versions: dict[Bucket, object] = {}
        self._totals: dict[bytes, int] = {}

    @staticmethod
    def _partition_columns(schema: TableSchema) -> tuple[str, ...]:
        return tuple(name for name in schema.partition_keys if name in schema.primary_keys)

    def load(self, schema: TableSchema, snapshot: Snapshot | None) -> None:
        self._layout, self._spec = Layout.of(schema), merge_spec(schema)
        # The key columns of files first: probes of one partition are then in the order of its files.
        self.key_columns = (*schema.trimmed_primary_keys, *self._partition_columns(schema))
        wanted = {*self._spec.keys, *self._columns}
        self._fields = tuple(field for field in schema.fields if field.name in wanted)
        self._rows = arrow_schema(schema.select(self._columns))
        before, known = self._versions, self._buckets
        self._versions, self._buckets, self._totals = {}, {}, {}
        for place, state in self._states(snapshot).items():
            # The schema is part of the version: files are read with its columns and merged by its options.
            version = (schema, state.files, state.index)
            same = before.get(place) == version
            self._versions[place] = version
            self._buckets[place] = known[place] if same else self._rows_of(place, state)
            if state.total_buckets is not None and state.total_buckets > 0:
                self._totals[place[0]] = state.total_buckets

    def _states(self, snapshot: Snapshot | None) -> dict[Bucket, BucketState]:
        if snapshot is None:
            return {}
        index: dict[Bucket, list[Any]] = {}
        for entry in index_entries(self._store, snapshot):
            index.setdefault((entry.partition, entry.bucket), []).append(entry)
        young = invisible_level_0(self._layout)
        states = {}
        for place, entries in grouped(live_entries(self._store, snapshot)).items():
            files = tuple(entry.file for entry in entries if not (young and entry.file.level == 0))
            # Rows of postponed buckets (-2) are not visible before a compaction assigns them.
            if place[1] >= 0 and files:
                totals = {entry.total_buckets for entry in entries}
                states[place] = BucketState(files, tuple(index.get(place, ())), max(totals), snapshot.id)
        return states

    def _rows_of(self, place: Bucket, state: BucketState) -> LookupRows:
        levels = self._newest_first(state)
        bucket = BucketFiles(self._store, self._layout, *place)
        mark = f"{bucket_mark(self._store, place)}.{columns_mark(replace(self._layout.schema, fields=self._fields))}"
        if levels is None:
            split = Split(*place, state.files, raw=False)
            merging = SplitReader(self._store, self._layout, self._fields)
            name = f"{content_mark(self._layout, split)}-{mark}{MERGED}"
            return SortedPart(name, split, merging, self._spec.keys, self._local)
        reader = FileReader(
            self._store.storage,
            bucket.path,
            self._store.schemas.get,
            self._fields,
            with_kind=True,
            facts={"table": self._store.name, "bucket": place[1]},
        )
        vectors = read_vectors(bucket, state)
        return FilesOfBucket(levels, Lookup(self._spec, reader, self._local, f"{mark}-rows"), vectors)

    def _newest_first(self, state: BucketState) -> Levels | None:
        """Return levels of files: the first level with a key has its row. None if rows must be merged."""
        levels, spec = Levels.of(state.files, 1), self._spec
        if invisible_level_0(self._layout) or is_settled(state.files):
            return levels
        if spec.ignore_delete:
            return None
        # Compactions that look up previous rows leave the merged row of a key in its smallest level.
        if spec.lookup and not levels.level0:
            return levels
        in_order = spec.last_arrival_wins and all(
            section.in_order for section in sections(state.files, spec.key_types())
        )
        return Levels((), (*((file,) for file in levels.level0), *levels.upper)) if in_order else None

    def find(self, probes: Sequence[pa.Array]) -> Found:
        parts = [
            (numbers[which], rows)
            for place, numbers in self._asked(probes)
            if (found := self._buckets[place].find(self._chosen(probes, numbers))) is not None
            for which, rows in [found]
        ]
        if not parts:
            return np.zeros(0, np.int64), self._rows.empty_table()
        rows = pa.concat_tables([self._fitted(rows) for _, rows in parts])
        return np.concatenate([numbers for numbers, _ in parts]), rows

    def _fitted(self, rows: pa.Table) -> pa.Table:
        rows = rows.select(list(self._columns))
        return rows if rows.schema.equals(self._rows) else rows.cast(self._rows)

    def _chosen(self, probes: Sequence[pa.Array], numbers: Ints) -> list[pa.Array]:
        """Return the key columns of files for some of the probes."""
        columns = probes[: len(self._spec.keys)]
        if len(numbers) == len(probes[0]):
            return list(columns)
        places = pa.array(numbers)
        return [column.take(places) for column in columns]

    def _asked(self, probes: Sequence[pa.Array]) -> Iterator[tuple[Bucket, Ints]]:
        """Yield the buckets that may have some of the probes, and the numbers of these probes."""
        batch = pa.RecordBatch.from_arrays(list(probes), names=list(self.key_columns))
        layout, all_of_them = self._layout, np.arange(len(batch))
        names_partition = set(layout.schema.partition_keys) <= set(self.key_columns)
        places: dict[bytes, list[int]] = {}
        for partition, bucket in self._buckets:
            places.setdefault(partition, []).append(bucket)
        if names_partition:
            partitions, which = partitions_of(layout, batch)
            numbered = {partition: np.flatnonzero(which == number) for number, partition in enumerate(partitions)}
        else:
            numbered = dict.fromkeys(places, all_of_them)
        for partition, numbers in numbered.items():
            buckets = places.get(partition, [])
            if layout.mode is not BucketMode.FIXED or partition not in self._totals:
                yield from (((partition, bucket), numbers) for bucket in buckets)
                continue
            # A partition keeps its number of buckets when the table's option changes.
            own = replace(layout, bucket_count=self._totals[partition])
            rows = batch if len(numbers) == len(batch) else batch.take(pa.array(numbers))
            assigned = buckets_of(own, rows)
            for bucket in buckets:
                mine = numbers[assigned == bucket]
                if len(mine):
                    yield (partition, bucket), mine
