"""The keys of a table and their buckets, read from the table's files: all keys, or the keys that a snapshot added."""

from __future__ import annotations

import logging
import tempfile
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.row_kinds import DELETE, is_retract
from penstock.table.buckets.layout import Layout
from penstock.table.compaction.record_expiry import RecordExpiry
from penstock.table.dynamic_buckets.index_runs import (
    EMPTY,
    UNKNOWN,
    KeyRun,
    Shards,
    in_several_places,
    merged_pieces,
    partition_of,
    places_of,
    settled,
    united,
    write_run,
)
from penstock.table.dynamic_buckets.key_index import KeyIndex
from penstock.table.files.columns import VALUE_KIND
from penstock.table.files.file_reader import FileReader
from penstock.table.merge.engines.registry import merge_spec
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import Bucket, FileKind, ManifestEntry
from penstock.table.meta.live import delta_entries, live_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.buckets import CROSS_PARTITION_UPSERT_INDEX_TTL
from penstock.table.read.plan import grouped, plan_state
from penstock.table.read.split_reader import SplitReader
from penstock.table.read.splits import Split, invisible_level_0
from penstock.table.values.buffers import fixed_values
from penstock.table.values.fingerprints import Fingerprints, fingerprints

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
    def forgets_deleted(self) -> bool:
        """Return whether a key that a -D row has removed may come back in any partition.

        With the option for this, an engine that combines rows must not put such a key into its old partition. If keys
        move, the place of a removed key only adds a delete there. Without the option, a -D row does not remove its key.
        """
        return merge_spec(self.layout.schema).delete_removes_key

    @property
    def second(self) -> int:
        """Return the current time in epoch seconds."""
        return self.store.ambient.now_millis() // 1000

    def visible(self, snapshot: Snapshot, partitions: Collection[bytes] | None = None) -> Iterator[KeyRun]:
        """Yield every key that a reader would see, then the keys on level 0 that wait for their compaction.

        Waiting rows that delete have stamp 0.
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
                files = sorted((entry.file for entry in entries), key=_sequence)
                if self._is_young(files):
                    yield from self._in_files(place, files)

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
                kinds = np.asarray(fixed_values(batch.column(VALUE_KIND.name), np.int8), np.int8)
                run.stamps[kinds == DELETE if self.forgets_deleted else is_retract(kinds)] = 0
                yield run

    def _run(self, batch: pa.RecordBatch, partition: bytes, bucket: int) -> KeyRun:
        fields = self.layout.key_fields
        keys = fingerprints([batch.column(field.name) for field in fields], [field.type for field in fields])
        numbers = np.full(batch.num_rows, self.number(partition), np.int64)
        return KeyRun.of(keys, places_of(numbers, np.full(batch.num_rows, bucket)), self.second)

    def _is_young(self, files: Sequence[DataFile]) -> bool:
        ttl = self.ttl_millis
        # Files record the local time of their writer as if it were UTC, so the limit is converted in the same way.
        oldest = None if ttl is None else self.store.ambient.local_millis() - ttl
        return oldest is None or any((file.creation_millis or 0) >= oldest for file in files)


def _newest(split: Split) -> int:
    """Return the sort key of a split: if a key were in two partitions, the younger file would win."""
    return max(file.creation_millis or 0 for file in split.files)


def _sequence(file: DataFile) -> int:
    return file.min_sequence


def touched(entries: Sequence[ManifestEntry]) -> set[bytes]:
    """Return the partitions of the entries."""
    return {entry.partition for entry in entries}


log = logging.getLogger(__name__)

_MOST_RUNS = 8
# Other runs are merged into the base once they are a tenth of its size, so each key is copied about ten times.
_SHARE, _LEAST_ROWS = 10, 1 << 16


@dataclass(slots=True)
class IndexAdvance:
    """Brings an index to a later snapshot."""

    store: TableStore
    layout: Layout
    folder: Path

    def bootstrapped(self, snapshot: Snapshot) -> KeyIndex:
        """Return an index built from the whole table."""
        index = KeyIndex()
        self._read(index, snapshot, None)
        log.info("event=keys_indexed table=%s snapshot=%d keys=%d", self.store.name, snapshot.id, len(index))
        return index

    def over(self, index: KeyIndex, missed: Sequence[Snapshot]) -> None:
        """Advance the index over the missed snapshots.

        Partitions of which keys may be gone are read again, for the others only added files.
        """
        newest = missed[-1]
        rewritten = self._rewritten(missed)
        # Their keys may be gone, so they are read again from the newest snapshot, below.
        index.forget(rewritten)
        keys = TableKeys(self.store, self.layout, index.number)
        for snapshot in missed:
            if snapshot.commit_kind is CommitKind.APPEND:
                with self._shards() as shards:
                    for run in keys.added(snapshot, rewritten):
                        shards.add(run)
                    pieces = (settled(piece, with_deleted=keys.forgets_deleted) for piece in shards.pieces())
                    self._add(index, pieces, keys.second)
        if rewritten:
            self._read(index, newest, rewritten)
        self._tidy(index, keys.second)

    def _rewritten(self, missed: Sequence[Snapshot]) -> set[bytes]:
        """Return the partitions that were overwritten, or that a compaction may have dropped expired records from."""
        found = set[bytes]()
        for snapshot in missed:
            if snapshot.commit_kind is CommitKind.OVERWRITE:
                found |= touched(delta_entries(self.store, snapshot))
            elif snapshot.commit_kind is CommitKind.COMPACT and (expiry := self._expiry(snapshot)) is not None:
                gone = [entry for entry in delta_entries(self.store, snapshot) if entry.kind is FileKind.DELETE]
                found |= touched([entry for entry in gone if expiry.may_concern(entry.file)])
        return found

    def _expiry(self, snapshot: Snapshot) -> RecordExpiry | None:
        """Return the rule that a compaction followed, or a later time of it: options may have changed since."""
        schemas = self.store.schemas
        latest = max(self.store.ambient.now_millis(), snapshot.time_millis)
        return RecordExpiry.of(schemas.get(snapshot.schema_id), latest, schemas.get)

    def _read(self, index: KeyIndex, snapshot: Snapshot, partitions: set[bytes] | None) -> None:
        keys = TableKeys(self.store, self.layout, index.number)
        several: list[int] = []

        def current(pieces: Iterator[KeyRun]) -> Iterator[KeyRun]:
            for piece in pieces:
                several.append(in_several_places(piece))
                # Buckets come in any order: a delete may follow the row with which its key came back, and precede the
                # row that it deletes. A key that is in no place stays where it was, unless it is forgotten.
                forgets = keys.forgets_deleted
                places = settled(piece, with_deleted=forgets)
                yield places if forgets else united([piece[piece.stamps > 0], places])

        with self._shards() as shards:
            for run in keys.visible(snapshot, partitions):
                shards.add(run)
            self._add(index, current(shards.pieces()), keys.second)
        if partitions is None and any(several):
            log.warning("event=keys_in_two_partitions table=%s keys=%d", self.store.name, sum(several))

    @contextmanager
    def _shards(self) -> Iterator[Shards]:
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="shards-") as folder:
            yield Shards(Path(folder))

    def _add(self, index: KeyIndex, pieces: Iterator[KeyRun], second: int) -> None:
        """Add a run of new and of moved keys. A key that keeps its place adds nothing."""
        name = uuid.uuid4().hex
        run = write_run(self.folder / name, self._new(index, pieces, second))
        if len(run):
            index.runs[name] = run

    def _new(self, index: KeyIndex, pieces: Iterator[KeyRun], second: int) -> Iterator[KeyRun]:
        for piece in pieces:
            old = (
                index.find(Fingerprints(piece.high, piece.low), second) if index.runs else np.full(len(piece), UNKNOWN)
            )
            deleted = piece.stamps == 0
            other = (old != piece.places) != deleted
            index.count(old[other & (old != UNKNOWN)], -1)
            index.count(piece.places[other & ~deleted], 1)
            yield piece[other]

    def _tidy(self, index: KeyIndex, second: int) -> None:
        """Merge runs so that there are few, and the oldest is by far the largest: a lookup searches each of them."""
        names = list(index.runs)
        young = sum(len(index.runs[name]) for name in names[1:])
        if young > len(index.runs[names[0]]) // _SHARE + _LEAST_ROWS if names else False:
            self._merge(index, names, second)
        elif len(names) > _MOST_RUNS:
            self._merge(index, names[1:], second)

    def _merge(self, index: KeyIndex, names: list[str], second: int) -> None:
        made = uuid.uuid4().hex
        gone = np.array([partition is None for partition in index.partitions] or [False], np.bool_)
        oldest = 0 if index.ttl_seconds is None else second - index.ttl_seconds
        pieces = merged_pieces([index.runs[name] for name in names])
        # A dead entry of a younger run must still hide the entry of its key in an older run.
        whole = names[0] == next(iter(index.runs))
        kept = (_living(piece, gone, oldest) if whole else piece for piece in pieces)
        run = write_run(self.folder / made, kept)
        index.runs = {name: old for name, old in index.runs.items() if name not in names} | {made: run}


def _living(run: KeyRun, gone: Any, oldest: int) -> KeyRun:
    return run[~gone[partition_of(run.places)] & (run.stamps >= max(oldest, 1))] if len(run) else EMPTY
