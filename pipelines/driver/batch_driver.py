"""Commits the batches of one run, with watermarks, and those that parked tables missed. Independent of Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.pipelines.driver.batch import Batch
from penstock.pipelines.driver.batch_context import FailurePolicy
from penstock.pipelines.driver.commit import Commits
from penstock.pipelines.driver.compaction import Compact, compacted_here
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
from penstock.table.options.commits import COMMIT_FORCE_CREATE_SNAPSHOT
from penstock.table.options.flink import SCAN_WATERMARK_IDLE_TIMEOUT
from penstock.table.options.partitions import TAG_AUTOMATIC_CREATION
from penstock.table.options.table_options import TableOptions

log = logging.getLogger(__name__)

OnBatch = Callable[[BatchIdentity, BatchReport], None]
# Reads and writes inputs of the batch with this number again, in a job of its own.
RereadFn = Callable[[BatchReader, int, Sequence[TaskInput]], BatchResult]


def wants_watermark(options: Mapping[str, str]) -> bool:
    return TableOptions(options)[TAG_AUTOMATIC_CREATION] == "watermark"


def idle_millis(options: Mapping[str, str]) -> int | None:
    """Return the idle timeout.

    A place of the source that was silent for this long no longer delays the watermark.
    """
    return TableOptions(options)[SCAN_WATERMARK_IDLE_TIMEOUT]


@dataclass(slots=True)
class Watermarks:
    """Event times as watermarks of snapshots: how far the whole source has progressed, as Flink reports it to Paimon.

    It keeps the newest event time of each place of the source, and when the place last had records.
    """

    _places: dict[str, tuple[int, int]] = field(default_factory=dict)

    def see(self, report: BatchReport, now: int) -> None:
        for part in report.ranges:
            newest, place = part.newest, part.range.place
            if newest is not None:
                before, _ = self._places.get(place, (newest, now))
                self._places[place] = (max(before, newest), now)

    def at(self, now: int, idle: int | None = None) -> int | None:
        """Return the watermark, or None if no row had an event time yet.

        Rows with this time may still arrive; earlier rows are not expected.
        """
        # The slowest place decides, since its rows are still to come. A place that was silent for longer than the
        # idle timeout is left out; otherwise it would stop the watermark.
        times = [newest for newest, seen in self._places.values() if idle is None or now - seen <= idle]
        return min(times) - 1 if times else None


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
    started_millis: int = 0  # when the batch's tasks were started
    compact: Compact = field(init=False)
    eager: set[str] | None = None  # tables that get a snapshot with every batch; None: only tables with rows
    limit: BadRecordLimit = field(init=False)
    # by the interval of tables: those that are deferred have not what the others have
    watermarks: dict[int, Watermarks] = field(default_factory=dict)
    filled: FilledTables | None = None  # the record of filled tables beside the checkpoint
    _warned: set[tuple[str, str]] = field(default_factory=set)  # events and tables that were logged

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
        # After the commits: what the source forgets below this position must be in all tables, or noted as missed.
        self.reader.mirror(identity.end)
        if self.on_batch is not None:
            self.on_batch(identity, report)

    def catch_up(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Apply the batches that parked tables missed, and release the tables that have them all.

        Dies half way, or is stopped: the next call continues there. A table that fails again stays parked and does not
        delay the others.
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
            if not self._has_later(missed, table) and not self.take_late(missed, table):
                return False
            self.parking.record_batch(table, missed.number)
            self.reader.source.close()  # what the source cached while planning one batch is not valid for the next
            log.info("event=batch_caught_up table=%s batch=%d", table, missed.number)
        return True

    def _has_later(self, missed: MissedBatch, table: str) -> bool:
        """Return whether the table has a later batch of the checkpoint: batches of a table are committed in order."""
        user = BatchIdentity(self.pipeline, missed.checkpoint, missed.number, missed.start, missed.end).user
        newest = Committer(self.reader.warehouse.store(table), user).committed(missed.number)
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
            self._take(Batch(self, number, missed.checkpoint, result, policy, late=table))
        return not policy.parked

    def _take(self, batch: Batch) -> tuple[BatchIdentity, BatchReport] | None:
        done = batch.take()
        if done is not None:
            identity, report = done
            if self.started_millis and identity.planned_at:
                report.stats.seconds["plan"] = max(0, self.started_millis - identity.planned_at) / 1000
            self._warn_of_nothing(report)
            self._warn_of_deletes(report)
            self._warn_of_partial_images(report)
            self._warn_of_unordered_deletes(report)
            self._warn_of_changelogs(report)
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

        Tables that only other writers fill exist in the same databases, and get none.
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
        # The time of the plan and not the clock, so that a place is idle or not by the same instant when the batch
        # is repeated.
        intervals = set[int]().union(*(one.intervals for one in report.ranges))
        for interval in intervals:
            ranges = [one for one in report.ranges if interval in one.intervals]
            self.watermarks.setdefault(interval, Watermarks()).see(BatchReport(ranges), identity.planned_at)
        found: dict[str, int] = {}
        for table, schema in self.targets.schemas.items():
            options = self.reader.warehouse.layout(table, schema).schema.options
            if wants_watermark(options):
                known = [self.watermarks[one] for one in self._intervals_of(table, report) if one in self.watermarks]
                marks = [one.at(identity.planned_at, idle_millis(options)) for one in known]
                found |= {table: min(marked)} if (marked := [one for one in marks if one is not None]) else {}
        return found

    def _intervals_of(self, table: str, report: BatchReport) -> set[int]:
        """Return the intervals of a table as far as the batch shows them."""
        return set[int]().union(*(one.intervals for one in report.ranges if table in one.tables)) or {0}

    def _is_first(self, event: str, table: str) -> bool:
        """Return whether this event of a table is the first of the run: each is logged once."""
        known = len(self._warned)
        self._warned.add((event, table))
        return len(self._warned) > known

    def _warn_of_nothing(self, report: BatchReport) -> None:
        rows = report.passed_over["rows.left.out"]
        if rows and self.filled is not None and not self.filled.sources and self._is_first("nothing_captured", ""):
            hint = "correct the selection (names are regular expressions that match the whole name), then read again"
            log.warning("event=nothing_captured rows=%d hint=%s with a new checkpoint", rows, hint)

    def _warn_of_deletes(self, report: BatchReport) -> None:
        for table, of_range in report.tables:
            if of_range.dropped and self._is_first("append_deletes_dropped", table):
                log.warning(
                    "event=append_deletes_dropped table=%s hint=a table without primary key keeps inserts and new rows"
                    " of updates only: --primary-keys defines its key",
                    table,
                )

    def _warn_of_partial_images(self, report: BatchReport) -> None:
        for table, columns in {
            table: of_range.omitted for table, of_range in report.tables if of_range.omitted
        }.items():
            if self._is_first("updates_without_columns", table):
                log.warning(
                    "event=updates_without_columns table=%s columns=%s hint=these columns are null now. Unless they"
                    " were dropped at the source, set its binlog_row_image to FULL and read the table again, or use"
                    " merge-engine=partial-update, where null means unchanged",
                    table,
                    ",".join(columns),
                )

    def _warn_of_unordered_deletes(self, report: BatchReport) -> None:
        for table, of_range in report.tables:
            if of_range.unordered and self._is_first("deletes_without_effect", table):
                log.warning(
                    "event=deletes_without_effect table=%s deletes=%d example=%s reason=%s hint=%s",
                    table,
                    sum(one.unordered for name, one in report.tables if name == table),
                    of_range.unordered_at,
                    "these messages contain only the key, and no value of the table's sequence.field, so that its rows"
                    " stay",
                    "let the producer write full rows of deletes (PostgreSQL: REPLICA IDENTITY FULL; MySQL:"
                    " binlog_row_image=FULL; MongoDB: pre-images), or set no sequence.field; then read the table again",
                )

    def _warn_of_changelogs(self, report: BatchReport) -> None:
        for table, of_range in report.tables:
            if of_range.never_added and self._is_first("changelog_without_inserts", table):
                log.warning(
                    "event=changelog_without_inserts table=%s hint=a quality rule left rows out, and the changelog has"
                    " their later updates and deletes: changelog-producer=lookup compares with the table instead",
                    table,
                )
