"""The driver's part of a batch, after its tasks: settle drift, commit, compact, report. Independent of Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.errors import DecodeError, PenstockError
from penstock.pipelines.driver.barriers import cross
from penstock.pipelines.driver.commit import Commits
from penstock.pipelines.driver.compaction import (
    Compact,
    compacted_here,
    due_buckets,
    due_in_full,
    land,
    owes_compaction,
)
from penstock.pipelines.driver.failure_isolation import FailureIsolation
from penstock.pipelines.driver.replay import Replay
from penstock.pipelines.driver.watermarks import Watermarks, idle_millis, wants_watermark
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.ledger.filled_tables import FilledTables
from penstock.pipelines.ledger.parked_tables import MissedBatch, Parking
from penstock.pipelines.mapping.target_tables import Targets
from penstock.pipelines.tasks.bad_records import BadRecordLimit
from penstock.pipelines.tasks.read import BatchReader, TaskInput
from penstock.pipelines.tasks.reports import BadRecords, BatchReport
from penstock.pipelines.tasks.write import BatchResult
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.snapshot import Snapshot
from penstock.table.options.commits import COMMIT_FORCE_CREATE_SNAPSHOT

log = logging.getLogger(__name__)

OnBatch = Callable[[BatchIdentity, BatchReport], None]
RereadFn = Callable[[Sequence[TaskInput]], BatchResult]  # reads and writes shares again, as a separate job

MOST_FOREIGN = 3  # how often another job's commits may get in between


@dataclass(slots=True)
class BatchDriver:
    pipeline: str
    reading: BatchReader
    targets: Targets
    commits: Commits
    parking: Parking
    on_batch: OnBatch | None = None
    checkpoint: str = ""  # the uuid of the checkpoint
    started_millis: int = 0  # when the batch's tasks were started
    compact: Compact = field(init=False)
    eager: set[str] | None = None  # tables that get a snapshot with every batch; None: only tables with rows
    limit: BadRecordLimit = field(init=False)
    watermarks: Watermarks = field(default_factory=Watermarks)
    filled: FilledTables | None = None  # the record of filled tables beside the checkpoint
    _told: set[str] = field(default_factory=set)  # append tables for which ignored deletes were logged
    _told_of_images: set[str] = field(default_factory=set)  # tables for which incomplete row images were logged

    def __post_init__(self) -> None:
        self.limit = BadRecordLimit(self.reading.on_bad)
        self.compact = compacted_here(self.reading.warehouse)

    def take(self, number: int, written: BatchResult, again: RereadFn) -> None:
        """Commit a batch. Called again with a batch it has committed, it changes nothing."""
        taking = FailureIsolation(self.parking, self.reading, self.targets, number)
        landed = self._take(taking, self.checkpoint, written, again)
        if landed is None:
            return
        identity, report = landed
        self.reading.source.mirror(identity.end)
        if self.on_batch is not None:
            self.on_batch(identity, report)

    def take_late(self, missed: MissedBatch, table: str, again: RereadFn) -> bool:
        """Commit a batch to a table that was parked when the batch was read, and only to it.

        Return False if that fails again. Called again with a batch that the table has, it changes nothing.
        """
        taking = FailureIsolation(
            replace(self.parking, isolates=True), self.reading, self.targets, missed.number, late=table
        )
        only = self.reading.on_bad.letters | {table}
        with self.targets.only(only):
            schemas, left_out = self.targets.schemas, frozenset(self.targets.left_out)
            written = again(self.reading.late_shares(missed.start, missed.end, schemas, only, left_out))
            for report in written.reports:
                report.bad = BadRecords()  # they were reported with the batch
            self._take(taking, missed.checkpoint, written, again)
        return not taking.parked

    def _take(
        self, taking: FailureIsolation, checkpoint: str, written: BatchResult, again: RereadFn
    ) -> tuple[BatchIdentity, BatchReport] | None:
        number = taking.number
        written = taking.sound(written)
        barriers = [barrier for report in written.reports for barrier in report.barriers]
        if barriers and (span := BatchReport(written.reports).span):
            identity = BatchIdentity(self.pipeline, checkpoint, number, *span)
            cross(barriers, identity, self.reading, self.targets, taking.parks)
        replay = Replay(
            self.reading,
            self.targets,
            lambda shares: taking.sound(again(shares)),
            taking.parks,
            taking.late is not None,
        )
        written = replay.settled(written)
        taking.forget(written)
        written = taking.with_letters_of_others(written, replay)
        report = BatchReport(written.reports, written.stats)
        if report.span is None:  # offsets moved without a range to read
            if self.filled is not None:
                self.filled.took(number, {}, {})
            return None
        self._judge(report, written, taking)
        identity = BatchIdentity(self.pipeline, checkpoint, number, *report.span, report.newest)
        if self.parking.tables:
            self.parking.note(identity)
        if taking.late is not None:
            self._keep_late_letters(identity, written, taking.late)
        with report.stats.stage("commit"):
            uncompacted = self._commit(identity, written, replay, taking, self._watermarks(identity, report))
        self._follow_comments(report, taking)
        with report.stats.stage("compact"):
            self._compact_what_is_owed(identity, written, uncompacted, taking)
        if self.started_millis and identity.planned_at:
            report.stats.seconds["plan"] = max(0, self.started_millis - identity.planned_at) / 1000
        report.stats.parked = {table: self.parking.tables[table].reason for table in sorted(taking.parked)}
        report.stats.left_out = dict(self.targets.reasons)
        self._tell_of_deletes(report)
        self._tell_of_partial_images(report)
        return identity, report

    def _follow_comments(self, report: BatchReport, taking: FailureIsolation) -> None:
        if taking.late is not None:  # later batches have reported newer comments
            return
        for table, seen in report.commented.items():
            if table in taking.parked or table in self.targets.left_out:
                continue
            schema = self.reading.mapping.commented(table, seen)
            if schema is not None:
                log.info("event=comments_changed table=%s to=%d", table, schema.id)
                self.targets.put({table: schema.id})

    def _keep_late_letters(self, identity: BatchIdentity, written: BatchResult, table: str) -> None:
        """Commit a late batch's dead letters under a separate name.

        Under the batch's own identity the dead-letter table has this batch already, with the letters of the other
        tables. It may never have seen the new name, however old the batch is, so expired snapshots prove nothing;
        replays are accepted because a letter that exists twice is read as one.
        """
        commits = replace(self.commits, accept_replay=True)
        letters = {one: written.messages.pop(one) for one in self.reading.on_bad.letters & written.messages.keys()}
        commits.commit(replace(identity, pipeline=f"{self.pipeline}.late.{table}"), letters, {})

    def _tell_of_deletes(self, report: BatchReport) -> None:
        for table in {table for table, of_range in report.tables if of_range.dropped} - self._told:
            self._told.add(table)
            log.warning(
                "event=append_deletes_dropped table=%s hint=a table without keys keeps what is new alone:"
                " --primary-keys gives it a key",
                table,
            )

    def _tell_of_partial_images(self, report: BatchReport) -> None:
        for table, columns in {
            table: of_range.omitted for table, of_range in report.tables if of_range.omitted
        }.items():
            if table not in self._told_of_images:
                self._told_of_images.add(table)
                log.warning(
                    "event=updates_without_columns table=%s columns=%s hint=they are null now: unless they were dropped"
                    " at the source, set its binlog_row_image to FULL and read the table anew, or let nulls mean"
                    " unchanged with merge-engine=partial-update",
                    table,
                    ",".join(columns),
                )

    def _watermarks(self, identity: BatchIdentity, report: BatchReport) -> dict[str, int]:
        """Return the watermarks of the tables whose options ask for one."""
        self.watermarks.see(report, identity.planned_at)
        found: dict[str, int] = {}
        for table, schema in self.targets.schemas.items():
            options = self.reading.warehouse.layout(table, schema).schema.options
            watermark = (
                self.watermarks.at(identity.planned_at, idle_millis(options)) if wants_watermark(options) else None
            )
            if watermark is not None:
                found[table] = watermark
        return found

    def _always_committed(self) -> Iterator[str]:
        """Yield the tables that get a snapshot of each batch, with or without rows."""
        for table, schema in self.targets.schemas.items():
            options = self.reading.warehouse.layout(table, schema).schema.typed
            if table not in self.targets.left_out and options[COMMIT_FORCE_CREATE_SNAPSHOT]:
                yield table

    def _commit(
        self,
        identity: BatchIdentity,
        written: BatchResult,
        replay: Replay,
        taking: FailureIsolation,
        watermarks: Mapping[str, int],
    ) -> set[str]:
        """Commit the batch and return the tables that may lack its compaction.

        Tables that another job wrote to in the meantime are read and written again on top of that job's commits.
        """
        messages = dict(written.messages)
        self.targets.report_options(messages)
        if self.eager is not None and taking.late is None:  # a late batch concerns only its one table
            self.eager.update(messages)
            messages = {table: messages.get(table, []) for table in self.eager - self.targets.left_out}
        if taking.late is None:
            messages = {**{table: [] for table in self._always_committed()}, **messages}
        uncompacted: set[str] = set()
        made: dict[str, Snapshot] = {}
        for attempt in range(1, MOST_FOREIGN + 2):
            done = self.commits.commit(identity, messages, watermarks)
            self.targets.put(done.schemas)
            self.targets.taken.update(done.schemas)
            uncompacted |= done.uncompacted
            made |= done.snapshots
            written.stats.retries.update(done.retries)
            written.stats.conflicts.update([*done.foreign, *done.lost])
            failed = done.failed | (done.foreign if attempt > MOST_FOREIGN else {})
            for table, error in failed.items():
                if not taking.parks(table, error):
                    raise error
                self.parking.note(identity)
            if not done.foreign or attempt > MOST_FOREIGN:
                break
            log.warning("event=foreign_writer tables=%s attempt=%d", ",".join(done.foreign), attempt)
            messages = replay.again(replay.shares(written.reports, frozenset(done.foreign))).messages
        if self.filled is not None:
            self.filled.took(identity.number, BatchReport(written.reports).sources, made)
        return uncompacted

    def _compact_what_is_owed(
        self, identity: BatchIdentity, written: BatchResult, uncompacted: Collection[str], taking: FailureIsolation
    ) -> None:
        """Compact buckets outside of this batch.

        Full compactions include buckets that this batch did not write. Where rows become visible only by compaction,
        none may stay undone because a compaction lost a commit conflict, a driver crashed before it, or the commit did
        not wait for it.
        """
        for table, messages in written.messages.items():
            if table in taking.parked:
                continue
            try:
                self._compact_table(identity, table, messages, whole=table not in uncompacted)
            except PenstockError as error:
                if not taking.parks(table, error, identity.number + 1):
                    raise

    def _compact_table(
        self, identity: BatchIdentity, table: str, messages: Sequence[CommitMessage], *, whole: bool
    ) -> None:
        warehouse, schema = self.reading.warehouse, self.targets.schemas[table]
        due = due_in_full(warehouse, table, schema, identity.number, messages, whole=whole)
        if owes_compaction(warehouse, table, schema, whole=whole, in_background=self.reading.compacts_in_background):
            places = {(one.partition, one.bucket) for one in due}
            due += [one for one in due_buckets(warehouse, table) if (one.partition, one.bucket) not in places]
        if due:
            land(warehouse, identity.user, self.compact(due))

    def _judge(self, report: BatchReport, written: BatchResult, taking: FailureIsolation) -> None:
        try:
            self.limit.check(report)
        except DecodeError:
            taking.drop(written)
            raise
        if report.bad_count:
            first, place, _ = report.first_bad
            log.warning("event=bad_records count=%d first=%s@%d", report.bad_count, place, first.pos)
