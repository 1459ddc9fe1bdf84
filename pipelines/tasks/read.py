"""The reading half of a batch: ranges in, blobs and reports out. Runs in the planner and in tasks."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.ingest.carried_errors import ErrorMark
from penstock.ingest.decoded_source import AheadSource, ChangeSource
from penstock.ingest.deferred_ranges import (
    DeferredRanges,
    deferred_positions,
    deferred_readings,
    deferring_source,
)
from penstock.ingest.freshness import Reading
from penstock.ingest.joined_ranges import MOST_BYTES
from penstock.ingest.source import NO_LIMIT, ConfirmingSource, Limit, Offsets, Range, SmallBatchSource, grouped
from penstock.ingest.source_waits import WaitEnded, waiting_for_source
from penstock.pipelines.ledger.batch_identity import LOOKUP_MARKS, LOOKUPS, NOW, planned_lookups
from penstock.pipelines.ledger.lineage import LastBatch
from penstock.pipelines.mapping.table_mapping import TableMapping
from penstock.pipelines.mapping.target_tables import Schemas, Versions, known_tables, versions_now
from penstock.pipelines.tasks.bad_records import STRICT, ErrorPolicy
from penstock.pipelines.tasks.joined_reader import ranges_together, read_together
from penstock.pipelines.tasks.task_input import TaskContext, TaskInput
from penstock.table.catalog.settings import CatalogSettings

log = logging.getLogger(__name__)


@dataclass(slots=True)
class BatchReader:
    """A `RangeStream` of blobs.

    `folder` is where the driver writes its list of tables; `resumes` is the first batch of a new checkpoint over
    existing tables.
    """

    source: ChangeSource
    mapping: TableMapping
    warehouse: CatalogSettings
    folder: str
    tasks: int
    writers: int
    limit: Limit = NO_LIMIT
    errors: ErrorPolicy = STRICT
    resumes: LastBatch | None = None
    compacts_in_background: bool = False
    joined_bytes: int = MOST_BYTES  # of messages of ranges that are read together
    mark: ErrorMark = field(default_factory=ErrorMark)  # marks errors that return from tasks

    def initial_offsets(self) -> Offsets:
        return self.resumes.start if self.resumes else self.source.initial_offsets()

    def available(self) -> Offsets:
        return self.source.available()

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None) -> Offsets:
        """Return the source's newest offsets and the instant at which they were determined.

        That instant is the value of now(), whenever the batch is read.
        """
        if self.resumes is not None and start == self.resumes.start:
            # The first batch repeats the last batch in the tables. Tables that have it skip it, and the others get it
            # now.
            return self.resumes.end
        end = self.source.latest_offsets(start, limit, until)
        # Without an instant if nothing is new: Spark compares offsets, and would plan a batch for one that differs.
        return start if end == start else end | {NOW: self.warehouse.now_millis()} | self._dimensions()

    def _dimensions(self) -> Offsets:
        """Return the newest snapshots of the dimensions, which the rows of the batch are looked up in."""
        for name in self.mapping.dimensions:
            self.warehouse.follow(name)
        newest = {name: self.warehouse.store(name).snapshots.latest() for name in self.mapping.dimensions}
        if not newest:
            return {}
        ids = {name: 0 if found is None else found.id for name, found in newest.items()}
        return {LOOKUPS: ids, LOOKUP_MARKS: {name: found.mark for name, found in newest.items() if found is not None}}

    def at_barrier(self) -> bool:
        return self.source.at_barrier()

    def inputs(self, start: Offsets, end: Offsets) -> list[TaskInput]:
        """Return the inputs of a batch, for all tables that the driver knows.

        A small batch has one input, a large batch at least two, unless there is only one task at a time. So the
        driver sees which it is from the number of Spark's partitions, without a look at the source.
        """
        ranges, readings = self._ranges(start, end)
        small = self._is_small(ranges)
        inputs = self._known_inputs(start, end, ranges, readings, 1 if small else self.tasks)
        if len(inputs) == 1 < self.tasks and not small:
            inputs.append(replace(inputs[0], ranges=(), span=None))
        return inputs

    def small_inputs(self, start: Offsets, end: Offsets, times: int) -> list[TaskInput] | None:
        """Return a batch as at most one input, or None if it weighs more than this number of small batches."""
        ranges, readings = self._ranges(start, end)
        return self._known_inputs(start, end, ranges, readings, 1) if self._is_small(ranges, times) else None

    def _known_inputs(
        self,
        start: Offsets,
        end: Offsets,
        ranges: Sequence[Range],
        readings: Mapping[int, Reading],
        tasks: int,
    ) -> list[TaskInput]:
        schemas, left_out = known_tables(self.folder)
        versions = versions_now(self.warehouse, {name: id_ for name, id_ in schemas.items() if name not in left_out})
        batch = _batch_input(start, end, versions, left_out)
        return _read_for(_divided(batch, grouped(ranges, tasks)), readings)

    def _ranges(self, start: Offsets, end: Offsets) -> tuple[list[Range], Mapping[int, Reading]]:
        """Return the ranges of a batch, and the tables that they are read for, by their numbers."""
        if not DeferredRanges.of(end).rules:
            return self.source.plan(start, end, self.tasks), {}
        found = deferred_readings(deferring_source(self.source), start, end, self.tasks)
        return [range_ for range_, _ in found], {range_.number: reading for range_, reading in found}

    def mirror(self, end: Offsets) -> None:
        """Publish the position up to which all tables have the changes."""
        deferred = bool(DeferredRanges.of(end).rules)
        reached = deferring_source(self.source).oldest(deferred_positions(end)) if deferred else end
        try:
            with waiting_for_source():
                self.source.mirror(reached)
        except WaitEnded as reason:
            # The tables have the batch, which still has to be noted as finished.
            log.warning("event=position_not_published reason=%s", reason.message)

    def confirm(self, ranges: Sequence[Range], end: Offsets) -> None:
        """Raise a SourceError unless the ranges that were read are those that were planned."""
        if isinstance(self.source, ConfirmingSource):
            with waiting_for_source():
                self.source.confirm(ranges, end)

    def _is_small(self, ranges: Sequence[Range], times: int = 1) -> bool:
        return sum(range_.weight for range_ in ranges) <= times * self._small_weight

    @property
    def _small_weight(self) -> int:
        return self.source.small_weight() if isinstance(self.source, SmallBatchSource) else 0

    def leaves_much(self, end: Offsets, times: int) -> bool:
        """Return whether more than this number of small batches follow a batch whose size is limited."""
        return self.limit != NO_LIMIT and sum(self.source.lag(end).values()) > times * self._small_weight

    def late_inputs(
        self, start: Offsets, end: Offsets, schemas: Schemas, only: frozenset[str], left_out: frozenset[str]
    ) -> list[TaskInput]:
        """Return the inputs of a past batch, for the tables that lack it."""
        versions = versions_now(self.warehouse, {name: id_ for name, id_ in schemas.items() if name in only})
        ranges, readings = self._ranges(start, end)
        batch = replace(_batch_input(start, end, versions, left_out), only=only, late=True)
        return _read_for(_divided(batch, grouped(ranges, self.tasks)), readings)

    def replay_inputs(
        self,
        ranges: Sequence[tuple[Range, Reading | None]],
        span: tuple[Offsets, Offsets] | None,
        schemas: Schemas,
        only: frozenset[str],
        left_out: frozenset[str],
        *,
        late: bool,
    ) -> list[TaskInput]:
        """Return the ranges of a batch for some of its tables, at their current versions."""
        # Dead letters are written for the values that do not fit any table, so this reading needs the schemas of
        # all tables.
        everything = bool(only & self.errors.on_bad.letters)
        wanted = {table: schema for table, schema in schemas.items() if everything or table in only}
        versions = versions_now(self.warehouse, wanted)
        now = int(span[1].get(NOW, 0)) if span else 0
        lookups = planned_lookups(span[1]) if span else {}
        readings = {range_.number: reading for range_, reading in ranges if reading is not None}
        groups = grouped([range_ for range_, _ in ranges], self.tasks)
        batch = TaskInput((), versions, now, None, only, left_out, late, lookups)
        return _read_for(_divided(batch, groups), readings)

    def read(self, task: TaskInput) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)  # one task uses one core; set here for workers that the daemon did not prepare
        context = TaskContext(
            task, self.source, self.mapping, self.warehouse, self.writers, self.errors, self.joined_bytes
        )
        options = self.mapping.decode_options(context.schemas)
        if isinstance(self.source, AheadSource):
            self.source.read_next(task.ranges)
        span = task.span
        for ranges in ranges_together(context):
            yield from read_together(context, ranges, span, options)
            span = None  # the report of the first range has it

    def close(self) -> None:
        self.source.close()


def _batch_input(start: Offsets, end: Offsets, versions: Versions, left_out: frozenset[str]) -> TaskInput:
    """Return what the inputs of a batch have in common."""
    now, lookups = int(end.get(NOW, 0)), planned_lookups(end)
    return TaskInput((), versions, now, (start, end), left_out=left_out, lookups=lookups)


def _divided(batch: TaskInput, groups: Sequence[Sequence[Range]]) -> list[TaskInput]:
    """Return an input for each group of ranges. Only the first one has the span of the batch."""
    return [
        replace(batch, ranges=tuple(group), span=None if number else batch.span) for number, group in enumerate(groups)
    ]


def _read_for(inputs: Sequence[TaskInput], readings: Mapping[int, Reading]) -> list[TaskInput]:
    """Return the inputs with the tables that their ranges are read for."""
    numbers = [[range_.number for range_ in task.ranges if range_.number in readings] for task in inputs]
    return [
        replace(task, readings={number: readings[number] for number in found})
        for task, found in zip(inputs, numbers, strict=True)
    ]
