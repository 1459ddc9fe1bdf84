"""The driver of a run: it commits its batches, and those that parked tables missed. Independent of Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.errors import PositionLost
from penstock.ingest.source import RereadableSource
from penstock.pipelines.driver.batch import Batch
from penstock.pipelines.driver.batch_clock import BatchClock
from penstock.pipelines.driver.batch_context import FailurePolicy
from penstock.pipelines.driver.commit import Commits
from penstock.pipelines.driver.compaction import Compact, compacted_here
from penstock.pipelines.driver.run_warnings import RunWarnings
from penstock.pipelines.driver.watermarks import TableWatermarks
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.ledger.filled_tables import FilledTables
from penstock.pipelines.ledger.parked_tables import MissedBatch, ParkedTables
from penstock.pipelines.mapping.target_tables import Targets
from penstock.pipelines.tasks.bad_records import BadRecordLimit
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.pipelines.tasks.batch_result import BatchResult
from penstock.pipelines.tasks.range_report import BadRecords
from penstock.pipelines.tasks.read import BatchReader
from penstock.pipelines.tasks.task_input import TaskInput
from penstock.table.commit.committer import Committer
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.store import TableMissing
from penstock.table.options.commits import COMMIT_FORCE_CREATE_SNAPSHOT

log = logging.getLogger(__name__)

# Counts of ranges, which include the rows of other tables.
_OF_RANGES = {"rows.left.out", "texts.repaired", "lookup.missed"}

OnBatch = Callable[[BatchIdentity, BatchReport], None]
# Reads and writes inputs of the batch with this number again, in a job of its own.
RereadFn = Callable[[BatchReader, int, Sequence[TaskInput]], BatchResult]


@dataclass(slots=True)
class BatchDriver:
    """The driver's part of a run: all that its batches share."""

    pipeline: str
    reader: BatchReader
    targets: Targets
    commits: Commits
    parking: ParkedTables
    reread_fn: RereadFn
    on_batch: OnBatch | None = None
    checkpoint: str = ""  # the uuid of the checkpoint
    clock: BatchClock = field(default_factory=BatchClock)
    compact: Compact = field(init=False)
    eager: set[str] | None = None  # tables that get a snapshot with every batch; None: only tables with rows
    limit: BadRecordLimit = field(init=False)
    watermarks: TableWatermarks = field(default_factory=TableWatermarks)
    filled: FilledTables | None = None  # the record of filled tables beside the checkpoint
    warnings: RunWarnings = field(default_factory=RunWarnings)

    def __post_init__(self) -> None:
        self.limit = BadRecordLimit(self.reader.errors.on_bad)
        self.compact = compacted_here(self.reader.warehouse)

    def take(self, number: int, result: BatchResult) -> None:
        """Commit a batch. Called again with a batch it has committed, it changes nothing."""
        policy = FailurePolicy(self.parking, self.reader, self.targets, number, self.parking.isolates)
        done = self._take(Batch(self, number, self.checkpoint, result, policy))
        if done is None:
            return
        identity, report = done
        # After the commits: the source may forget changes before this position, so all tables must have them, or a
        # record that they missed them.
        self.reader.mirror(identity.end)
        report.seconds = self.clock.done(identity.planned_at)
        if self.on_batch is not None:
            self.on_batch(identity, report)

    def catch_up(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Apply the batches that parked tables missed, and release the tables that have them all.

        After a crash half way, or a stop, the next call continues there. A table that fails again stays parked and does
        not delay the others.
        """
        for table in sorted(self.parking.tables):
            if self._catch_up(table, stopped):
                self.parking.release(table)
                self.targets.take_in(table)
                log.info("event=table_released table=%s", table)

    def _catch_up(self, table: str, stopped: Callable[[], bool]) -> bool:
        for missed in self.parking.missed(table):
            if stopped():
                return False
            # A driver that was overtaken by another one may have parked the table, with a batch that it has.
            if not self._has_later(missed, table) and not self._is_taken(missed, table):
                return False
            self.parking.record_batch(table, missed.number)
            self.reader.source.close()  # what the source cached for the plan of one batch is not valid for another
            log.info("event=batch_caught_up table=%s batch=%d", table, missed.number)
        return True

    def _is_taken(self, missed: MissedBatch, table: str) -> bool:
        try:
            return self.take_late(missed, table)
        except PositionLost as error:
            if not isinstance(self.reader.source, RereadableSource):
                raise
            raise PositionLost(
                "the source no longer has the changes that a parked table missed",
                table=table,
                batch=missed.number,
                reason=error.message,
                hint=f"--reset {table}  empties the table, copies its present rows, and releases it",
            ) from error

    def _has_later(self, missed: MissedBatch, table: str) -> bool:
        """Return whether the table has a later batch of the checkpoint: batches of a table are committed in order."""
        user = BatchIdentity(self.pipeline, missed.checkpoint, missed.number, missed.start, missed.end).user
        try:
            store = self.reader.warehouse.store(table)
        except TableMissing:  # the batch creates it
            return False
        newest = Committer(store, user).committed(missed.number)
        return newest is not None and newest.commit_identifier > missed.number

    def take_late(self, missed: MissedBatch, table: str) -> bool:
        """Commit a batch to a table that was parked when the batch was read, and only to it.

        Return False if that fails again. Called again with a batch that the table has, it changes nothing.
        """
        number, only = missed.number, self.reader.errors.on_bad.letters | {table}
        policy = FailurePolicy(self.parking, self.reader, self.targets, number, isolates=True, is_late=True)
        with self.targets.only(only):
            # The other tables have the batch, so their rows are not read. The dead-letter table is included for
            # values that do not fit this table.
            schemas, left_out = self.targets.schemas, frozenset(self.targets.left_out)
            inputs = self.reader.late_inputs(missed.start, missed.end, schemas, only, left_out)
            result = self.reread(number, inputs)
            for report in result.reports:
                report.bad = BadRecords()  # they were reported with the batch
            done = self._take(Batch(self, number, missed.checkpoint, result, policy, late=table))
        if done is not None and not policy.parked:
            _log_passed_over(table, number, done[1])
        return not policy.parked

    def _take(self, batch: Batch) -> tuple[BatchIdentity, BatchReport] | None:
        done = batch.take()
        if done is not None:
            identity, report = done
            if identity.planned_at:
                report.stats.seconds["plan"] = self.clock.planning(identity.planned_at)
            self.warnings.warn(report, captures_nothing=self.filled is not None and not self.filled.sources)
        return done

    def reread(self, number: int, inputs: Sequence[TaskInput]) -> BatchResult:
        return self.reread_fn(self.reader, number, inputs)

    def expected(self, messages: Mapping[str, list[CommitMessage]]) -> dict[str, list[CommitMessage]]:
        tables = set(messages)
        if self.eager is not None:
            # A table that gets its first rows in this batch has a snapshot of every later batch too.
            self.eager.update(messages)
            # A parked table must not get an empty snapshot of a batch that it lacks: the snapshot would count as
            # the batch.
            tables = self.eager - self.targets.left_out
        return {table: messages.get(table, []) for table in (*self._always_committed(), *tables)}

    def _always_committed(self) -> Iterator[str]:
        """Yield the tables whose options ask for a snapshot of each batch, with or without rows.

        Tables in the same databases that only other writers fill are left out.
        """
        filled = self.filled
        own = None if filled is None else {*filled.marks, *filled.expected.values(), *self.targets.received}
        for table, schema in self.targets.schemas.items():
            if own is not None and table not in own:
                continue
            options = self.reader.warehouse.layout(table, schema).schema.typed
            if table not in self.targets.left_out and options[COMMIT_FORCE_CREATE_SNAPSHOT]:
                yield table

    def watermarks_at(self, identity: BatchIdentity, report: BatchReport) -> dict[str, int]:
        layout = self.reader.warehouse.layout
        options = {table: layout(table, schema).schema.options for table, schema in self.targets.schemas.items()}
        return self.watermarks.of_batch(report, options, identity.planned_at)


def _log_passed_over(table: str, number: int, report: BatchReport) -> None:
    """Log what the table lacks of a batch that it had missed, which was reported without the table."""
    counts = {name: count for name, count in sorted(report.passed_over.items()) if name not in _OF_RANGES}
    found = ", ".join(f"{name} {count}" for name, count in counts.items() if not name.startswith("messages."))
    if found:
        log.warning("event=late_rows_passed_over table=%s batch=%d counts=%s", table, number, found)
