"""Streaming reads under Spark: offsets are snapshot ids, so a checkpoint contains the complete position.

In an offset, `next` is the first snapshot not read yet. Every offset also contains the query's start, because after a
crash in the very first batch Spark asks for the initial offset again, and by then the table has newer snapshots. `mark`
is the mark of the snapshot before `next`: after a rollback, or in a table that was created again, its id is used again.
`created` is the time at which the table was created, for a commit that has expired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from penstock.errors import ConfigError
from penstock.ingest.spark_admission import (
    PASSES_START,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    RememberedStart,
    SupportsTriggerAvailableNow,
)
from penstock.pipelines.spark.versions import Feature
from penstock.pipelines.spark_source.plain_errors import plain_errors
from penstock.pipelines.spark_source.spark_api import arrow_target
from penstock.pipelines.spark_source.table_place import TablePlace
from penstock.pipelines.spark_source.table_read import Piece, PieceRead, TableRead, new_rows, shaped
from penstock.table.errors import SnapshotReplaced
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.scans import CONSUMER_ID, RANGE_KEYS
from penstock.table.options.spark import READ_STREAM_MAX_ROWS_PER_TRIGGER
from penstock.table.options.table_options import TableOptions
from penstock.table.read.consumer_place import ConsumerPlace
from penstock.table.read.follow import follows_overwrite, is_another, next_snapshot, snapshot_splits
from penstock.table.read.scan import Scan
from penstock.table.read.stream_start import levels_of_state, starting
from penstock.table.read.time_travel import ReadPoint
from penstock.table.read.update_pairs import packed_updates, whole_updates
from penstock.table.system.streamed import BINLOG

Offset = dict[str, int]
_AGAIN = (
    "the query cannot continue: its target may have rows that the table no longer has. Empty the target, and start the "
    "query with a new checkpoint"
)


def stream_reader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    if PASSES_START:
        return TableStreamReader(options, schema)
    reader = ReaderWithoutStart(options, schema)
    with plain_errors():
        if reader.most_rows is not None:
            Feature.READ_LIMITS.require()
        if TableOptions(reader.place.options)[CONSUMER_ID]:
            Feature.CONSUMERS.require()
    return RememberedStart(reader, lambda: None)


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream reader. Snapshots are never divided.

    A consumer-id advances when Spark asks for more, which is once a batch is done and recorded in the checkpoint. A
    query with the same consumer-id but another checkpoint resumes after that batch.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        with plain_errors():
            named = TablePlace.of(options)
            self.packs_updates = (named.system or "").lower() == BINLOG
            self.place = named.as_stream()
            if self.place.options.keys() & RANGE_KEYS:
                hint = "use spark.read, or start a stream with scan.snapshot-id"
                raise ConfigError(
                    "a stream cannot read the changes between two snapshots", table=self.place.path, hint=hint
                )
            self.table = TableRead.of(self.place, tuple(schema.names))
            if self.table.metadata:
                hint = "leave them out; batch reads have them, and `t$files` lists the files"
                columns = ", ".join(self.table.metadata)
                raise ConfigError(f"a stream has no metadata columns ({columns})", table=self.place.path, hint=hint)
            self.most_rows = TableOptions(self.place.options)[READ_STREAM_MAX_ROWS_PER_TRIGGER]
        self.target = arrow_target(schema)
        self.until: int | None = None

    def __getstate__(self) -> dict[str, object]:
        # The reader is pickled to tasks. `cached_property` keeps the open store, with its clients, among the
        # attributes.
        return {name: value for name, value in self.__dict__.items() if name not in {"store", "_consumer"}}

    @cached_property
    def store(self) -> TableStore:
        return self.place.store()

    @cached_property
    def _consumer(self) -> ConsumerPlace:
        return ConsumerPlace(self.store, TableOptions(self.place.options)[CONSUMER_ID] or None)

    # called by the planner

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with plain_errors():
            self.until = self.store.snapshots.latest_id() or 0

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.most_rows is None else ReadMaxRows(self.most_rows)

    def initialOffset(self) -> Offset:  # noqa: N802
        with plain_errors():
            start = starting(self.store, self.place.table_options)
            # The consumer is stored before the first batch, so that the snapshots with which the stream begins do
            # not expire.
            self._consumer.keep(start.state or start.first)
        # `begins` marks the offset before the first batch, at which the rows of snapshot `state` are still to be
        # read.
        return {"begins": 1, **self._offset(start.state, start.first, start.first)}

    def _offset(self, state: int, first: int, following: int) -> Offset:
        read = self.store.snapshots.find(following - 1)
        mark, created = read.mark if read else 0, self.store.schemas.created_millis()
        return {"state": state, "first": first, "next": following, "mark": mark, "created": created}

    def _check_history(self, offset: Offset) -> None:
        """Raise SnapshotReplaced if the snapshot that was read last was replaced by another one with its id."""
        number = offset["next"] - 1
        # Offsets of older versions lack the mark, or the time of creation, or both.
        if is_another(self.store, number, offset.get("mark"), offset.get("created")):
            raise SnapshotReplaced(
                f"snapshot {number} was replaced after this query had read it: the table was rolled back, or dropped "
                "and created again",
                table=self.place.path,
                hint=self._again,
            )

    @property
    def _again(self) -> str:
        consumer = TableOptions(self.place.options)[CONSUMER_ID]
        return _AGAIN + (f" and another consumer-id than {consumer}" if consumer else "")

    def _next_snapshot(self, number: int) -> Snapshot | None:
        try:
            return next_snapshot(self.store, number)
        except SnapshotReplaced as error:
            error.hint = self._again
            raise

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        with plain_errors():
            begins = start.get("begins") and (start["state"] or start["first"])
            self._consumer.keep(begins or start["next"], 0 if begins else start.get("mark", 0))
            end = self._end(start["next"], None if isinstance(limit, ReadAllAvailable) else self.most_rows)
            if end == start["next"] and not (start.get("begins") and start["state"]):
                return start
            # After the look for newer snapshots, so that a rollback before it is noticed.
            self._check_history(start)
            return self._offset(start["state"], start["first"], end)

    def _end(self, first: int, most_rows: int | None) -> int:
        """Return the id after the last snapshot to read.

        At least one snapshot is read, even if it exceeds the row limit alone.
        """
        if self._next_snapshot(first) is None:
            return first
        latest = self.store.snapshots.latest_id() or 0
        end = (latest if self.until is None else min(latest, self.until)) + 1
        rows = 0
        # Without a limit the loop is empty, and the manifests of the snapshots are not read for counting.
        for snapshot_id in range(first, end if most_rows is not None else first):
            rows += sum(piece.split.rows for piece in self._changes(snapshot_id) if piece.split is not None)
            if most_rows is not None and rows >= most_rows:
                return snapshot_id + 1
        return max(first, end)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        with plain_errors():
            for offset in (start, end):
                self._check_history(offset)
            # The start that was recorded in the end offset counts: the initial offset may have been computed again,
            # and later.
            first = end["first"] if start.get("begins") else start["next"]
            pieces = self._state(end["state"]) if start.get("begins") and end["state"] else []
            for snapshot_id in range(first, end["next"]):
                pieces += self._changes(snapshot_id)
        return [InputPartition(piece) for piece in pieces]

    def _state(self, snapshot_id: int) -> list[Piece]:
        scan = Scan.of(self.store, point=ReadPoint(snapshot_id), falls_back=False)
        plan = replace(scan, keep_levels=levels_of_state(scan.table_schema())).plan()
        # Read with the table's current schema, which is the query's, whatever the snapshot's schema was.
        schema = self.store.schema()
        return [Piece(PieceRead.STATE, schema.id, split) for split in plan.splits]

    def _changes(self, snapshot_id: int) -> list[Piece]:
        snapshot = self._next_snapshot(snapshot_id)
        schema = self.store.schema()
        if snapshot is None:
            return []
        # As in Java Paimon, a stream passes over the snapshots of overwrites unless an option asks for them.
        if snapshot.commit_kind is CommitKind.OVERWRITE:
            is_read = follows_overwrite(self.store.name, schema, snapshot, self.place.options)
            return [Piece(PieceRead.OVERWRITTEN, schema.id, snapshot=snapshot_id)] if is_read else []
        return [Piece(PieceRead.FILES, schema.id, split) for split in snapshot_splits(self.store, snapshot)]

    def commit(self, end: Offset) -> None:
        with plain_errors():
            self._consumer.keep(end["next"], end.get("mark", 0))

    # called in tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition.value, Piece):
            with plain_errors():
                batches = self.table.batches(partition.value)
                if self.packs_updates:
                    batches = map(packed_updates, whole_updates(batches))
                for batch in batches:
                    yield shaped(new_rows(batch, self.target), self.target)


class ReaderWithoutStart(TableStreamReader):
    """The stream reader for Spark 4.0 and 4.1, which do not pass the start of a batch to `latestOffset`.

    After a restart it is called with the initial offset instead of the one in the checkpoint. Without a limit only the
    end matters, which is the newest snapshot in both cases. At worst the batch is empty.
    """

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        end = super().latestOffset(start, limit)
        # An end is the start of the next batch. Marked as the start of the query, it would pass over the snapshots
        # between it and the initial offset after a restart.
        return {name: number for name, number in end.items() if name != "begins"}
