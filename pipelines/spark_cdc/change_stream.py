"""The stream of changes of one source table: planned in Spark's planner process, read in its tasks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.errors import DecodeError, SourceError
from penstock.formats.change import BadRecord, ChangeBatch, DecodeOptions, RowBatch
from penstock.ingest.connector_requests import Preparation
from penstock.ingest.decoded_source import ChangeSource, DecodedChunk
from penstock.ingest.source import SILENT_VALUES, ConfirmingSource, Limit, Offsets, Range, grouped
from penstock.pipelines.ledger.batch_identity import NOW
from penstock.pipelines.spark_cdc.declared_columns import SEQUENCE
from penstock.pipelines.spark_cdc.query_columns import QueryColumns
from penstock.pipelines.spark_cdc.query_state import QUERY, begin, check_begins, claim
from penstock.pipelines.spark_source.table_read import shaped
from penstock.row_kinds import kind_texts
from penstock.schema_evolution.fit import Fit

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """One task's ranges of a batch. `batch` rises from batch to batch, and is the same when one is repeated.

    `end` is the end of the batch, for sources that confirm what was read.
    """

    ranges: tuple[Range, ...]
    batch: int
    end: Offsets = field(default_factory=dict)


@dataclass(slots=True)
class TableChangeStream:
    """A `RangeStream` of the changes of one table, with the columns of its query."""

    columns: QueryColumns
    clock: Callable[[], float] = time.time
    _source: ChangeSource | None = field(default=None, repr=False)
    _initial: Offsets | None = field(default=None, repr=False)

    @property
    def limit(self) -> Limit:
        return self.columns.read.limit

    @property
    def source(self) -> ChangeSource:
        if self._source is None:
            self._source = self._prepared(is_new=False)
        return self._source

    def _prepared(self, *, is_new: bool) -> ChangeSource:
        read = self.columns.read
        exact = read.connector.capabilities.reads_exactly
        return read.connector.prepare(read.config, read.request, Preparation(is_new, exact=exact, has_targets=False))

    def initial_offsets(self) -> Offsets:
        """Return the offsets at which a query without a finished batch begins."""
        # Spark asks more than once as it plans the first batch. The slot that the first answer created is this query's.
        if self._initial is None:
            self._initial = self._begun()
        return self._initial

    def _begun(self) -> Offsets:
        # Before anything is created at the source. A column may be dropped there while a query runs, and is null then.
        self.columns.check_chosen()
        state = self.columns.read.state
        name = None if state is None else begin(state)
        # Spark asks for them if its checkpoint has no finished batch: a slot, for example, is created then.
        self.close()  # Spark may have asked what is available before
        self._source = self._prepared(is_new=name != "")
        offsets = self._source.initial_offsets()
        return offsets if name is None else offsets | {QUERY: name}

    def available(self) -> Offsets:
        return self.source.available()

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None) -> Offsets:
        """Return the source's newest offsets, and the instant by which the rows of batches are ordered."""
        if self.columns.read.state is not None:
            check_begins(self.columns.read.state, start)
        end = self.source.latest_offsets(start, limit, until)
        if end == start:
            return start
        # The clock of a machine may be set back; batches must not be.
        kept = {QUERY: start[QUERY]} if QUERY in start else {}
        return end | kept | {NOW: max(int(self.clock() * 1000), int(start.get(NOW, 0)) + 1)}

    def at_barrier(self) -> bool:
        return self.source.at_barrier()

    def inputs(self, start: Offsets, end: Offsets) -> list[ChangeTask]:
        if self.columns.read.state is not None:
            claim(self.columns.read.state, end)  # the checkpoint has the end of a batch before its inputs
        tasks = self.columns.read.tasks
        groups = grouped(self.source.plan(start, end, tasks), tasks)
        # The end of a database's batch is large, with its tables and their positions.
        confirmed = end if isinstance(self.source, ConfirmingSource) else {}
        return [ChangeTask(tuple(group), int(end.get(NOW, 0)), confirmed) for group in groups]

    def mirror(self, offsets: Offsets) -> None:
        """Let the source know that Spark has processed all before these offsets."""
        self.source.mirror(offsets)

    def read(self, task: ChangeTask) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)  # one task uses one core
        read = self.columns.read
        has_old_rows = read.connector.has_old_rows(read.config)
        options = DecodeOptions("all" if has_old_rows else "key-changes", zone=read.request.zone)
        for range_ in task.ranges:
            found = _RangeRows(self.columns, range_, task.batch)
            for chunk in self.source.chunks(range_, options):
                yield from found.rows(chunk)
            found.report()
        # Spark has no place for this between its tasks and the end of the batch. A task that fails here has no rows.
        if isinstance(self.source, ConfirmingSource):
            self.source.confirm(task.ranges, task.end)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()


_NO_ROWS = "a statement set values of older rows, and no change contains them; a query with a new checkpoint reads them"


@dataclass(slots=True)
class _RangeRows:
    """The rows of one range in the columns of the query."""

    columns: QueryColumns
    range_: Range
    batch: int
    _bad: int = 0
    _first_bad: BadRecord | None = None
    _truncations: int = 0

    def rows(self, chunk: DecodedChunk) -> Iterator[pa.RecordBatch]:
        read = self.columns.read
        for barrier in chunk.barriers:
            if barrier.kind in SILENT_VALUES:
                columns = ",".join(name for name, _ in barrier.columns)
                log.warning("event=values_without_rows table=%s columns=%s note=%s", read.title, columns, _NO_ROWS)
                continue
            raise SourceError(
                f"{barrier.kind} changes a whole table, and no row can say so",
                table=f"{barrier.database}.{barrier.table}",
                hint="remove the options  ddl.*",
            )
        self._refuse(chunk.decoded.bad)
        self._truncations += len(chunk.decoded.truncations)
        for change in chunk.decoded.batches:
            if len(change) and read.table in {None, (change.schema.database, change.schema.table)}:
                yield self._fitted(change)

    def _fitted(self, change: ChangeBatch) -> pa.RecordBatch:
        columns, read = self.columns, self.columns.read
        columns.check(change.schema)
        times = pa.array(change.event_times, mask=change.event_times < 0).cast(pa.timestamp("ms", "UTC"))
        extras = {f"{read.prefix}time": lambda _: times}
        fitted = Fit(columns.table, columns.rules, extras, zone=read.request.zone).rows(change)
        self._refuse(fitted.bad)
        return shaped(self._with_metadata(fitted.batch, change), columns.target)

    def _with_metadata(self, rows: RowBatch, change: ChangeBatch) -> pa.RecordBatch:
        read, count = self.columns.read, len(rows)
        positions = pa.array(rows.positions, pa.int64())
        numbers = [
            pa.array(np.full(count, self.batch, np.int64)),
            pa.array(np.full(count, self.range_.number, np.int32)),
            positions,
            pa.array(rows.subs, pa.int32()),
        ]
        added = {
            read.kinds: kind_texts(pa.array(rows.kinds)),
            f"{read.prefix}database": pa.repeat(pa.scalar(change.schema.database, pa.string()), count),
            f"{read.prefix}table": pa.repeat(pa.scalar(change.schema.table, pa.string()), count),
            f"{read.prefix}place": pa.repeat(pa.scalar(self.range_.place, pa.string()), count),
            f"{read.prefix}position": positions,
            f"{read.prefix}sequence": pa.StructArray.from_arrays(numbers, fields=list(SEQUENCE)),
        }
        given = dict(zip(rows.rows.schema.names, rows.rows.columns, strict=True))
        return pa.RecordBatch.from_pydict(given | added)

    def _refuse(self, bad: list[BadRecord] | tuple[BadRecord, ...]) -> None:
        """Raise DecodeError for the first bad record, unless they are skipped: then count them."""
        if not bad:
            return
        if not self.columns.read.skips_bad:
            raise DecodeError(
                bad[0].message,
                place=self.range_.place,
                position=bad[0].pos,
                hint="bad-records=skip leaves such records out, and logs how many; a pipeline can keep them in a table",
            )
        self._bad += len(bad)
        self._first_bad = self._first_bad or bad[0]

    def report(self) -> None:
        """Log how many bad records were skipped, and how many statements of TRUNCATE were ignored."""
        title, place = self.columns.read.title, self.range_.place
        if self._first_bad is not None:
            first = self._first_bad
            text = "event=bad_records_skipped table=%s place=%s count=%d position=%d reason=%s"
            log.warning(text, title, place, self._bad, first.pos, first.message)
        if self._truncations:
            log.warning("event=truncate_ignored table=%s place=%s count=%d", title, place, self._truncations)
