"""What the driver does with what a batch's tasks made: settle drift, commit, tell. Knows nothing of Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.errors import DecodeError
from penstock.pipelines.run.bad_records import BadRecordLimit
from penstock.pipelines.run.barriers import cross
from penstock.pipelines.run.committing import Commits, discard
from penstock.pipelines.run.compacting import (
    Compact,
    compacted_here,
    due_buckets,
    due_in_full,
    land,
    owes_compaction,
)
from penstock.pipelines.run.identity import BatchIdentity
from penstock.pipelines.run.reading import Reading, Share
from penstock.pipelines.run.replay import Replay
from penstock.pipelines.run.reports import BatchReport
from penstock.pipelines.run.tables import Targets
from penstock.pipelines.run.watermarks import Watermarks, idle_millis, wants_watermark
from penstock.pipelines.run.writing import Written

log = logging.getLogger(__name__)

OnBatch = Callable[[BatchIdentity, BatchReport], None]
Again = Callable[[Sequence[Share]], Written]  # reads and writes shares once more, as a job of their own

MOST_FOREIGN = 3  # times that another job may get in between


@dataclass(slots=True)
class Batches:
    pipeline: str
    reading: Reading
    targets: Targets
    commits: Commits
    on_batch: OnBatch | None = None
    checkpoint: str = ""  # the uuid of the checkpoint
    compact: Compact = field(init=False)
    eager: set[str] | None = None  # tables that get a snapshot with every batch; None: only those with rows
    limit: BadRecordLimit = field(init=False)
    watermarks: Watermarks = field(default_factory=Watermarks)
    _told: set[str] = field(default_factory=set)  # append tables of which it was said that they take no deletes

    def __post_init__(self) -> None:
        self.limit = BadRecordLimit(self.reading.on_bad)
        self.compact = compacted_here(self.reading.warehouse)

    def take(self, number: int, written: Written, again: Again) -> None:
        """Commit a batch. Called again with a batch it has committed, it changes nothing."""
        if written.failures:
            self._give_up(written)
        barriers = [barrier for report in written.reports for barrier in report.barriers]
        if barriers and (span := BatchReport(written.reports).span):
            cross(barriers, BatchIdentity(self.pipeline, self.checkpoint, number, *span), self.reading, self.targets)
        replay = Replay(self.reading, self.targets, lambda shares: self._sound(again(shares)))
        written = replay.settled(written)
        report = BatchReport(written.reports)
        if report.span is None:  # offsets moved without a range to read
            return
        self._judge(report, written)
        identity = BatchIdentity(self.pipeline, self.checkpoint, number, *report.span, report.newest)
        uncompacted = self._commit(identity, written, replay, self._watermarks(identity, report))
        self._compact_what_is_owed(identity, written, uncompacted)
        self._tell_of_deletes(report)
        self.reading.source.mirror(identity.end)
        if self.on_batch is not None:
            self.on_batch(identity, report)

    def _tell_of_deletes(self, report: BatchReport) -> None:
        for table in {table for one in report.ranges for table, count in one.dropped.items() if count} - self._told:
            self._told.add(table)
            log.warning(
                "event=append_deletes_dropped table=%s hint=a table without keys keeps what is new alone:"
                " --primary-keys gives it a key",
                table,
            )

    def _watermarks(self, identity: BatchIdentity, report: BatchReport) -> dict[str, int]:
        """Of the tables whose options ask for one."""
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

    def _commit(
        self, identity: BatchIdentity, written: Written, replay: Replay, watermarks: Mapping[str, int]
    ) -> set[str]:
        """Tables that another job wrote to in the meantime are written again on what stands there now. Gives those that
        may lack the compaction of the batch."""
        messages = dict(written.messages)
        if self.eager is not None:
            self.eager.update(messages)
            messages = {table: messages.get(table, []) for table in self.eager}
        uncompacted: set[str] = set()
        for attempt in range(1, MOST_FOREIGN + 2):
            done = self.commits.commit(identity, messages, watermarks)
            self.targets.put(done.schemas)
            self.targets.taken.update(done.schemas)
            uncompacted |= done.uncompacted
            if not done.foreign:
                break
            if attempt > MOST_FOREIGN:
                raise next(iter(done.foreign.values()))
            log.warning("event=foreign_writer tables=%s attempt=%d", ",".join(done.foreign), attempt)
            messages = replay.again(replay.shares(written.reports, frozenset(done.foreign))).messages
        return uncompacted

    def _compact_what_is_owed(self, identity: BatchIdentity, written: Written, uncompacted: Collection[str]) -> None:
        """Full compactions reach buckets that this batch did not. And where rows show only once they are compacted,
        none stays undone, though a compaction was lost, a driver died before it, or the commit did not wait for it."""
        warehouse, in_background = self.reading.warehouse, self.reading.compacts_in_background
        for table, messages in written.messages.items():
            schema, whole = self.targets.schemas[table], table not in uncompacted
            due = due_in_full(warehouse, table, schema, identity.number, messages, whole=whole)
            if owes_compaction(warehouse, table, schema, whole=whole, in_background=in_background):
                places = {(one.partition, one.bucket) for one in due}
                due += [one for one in due_buckets(warehouse, table) if (one.partition, one.bucket) not in places]
            if due:
                land(warehouse, identity.user, self.compact(due))

    def _judge(self, report: BatchReport, written: Written) -> None:
        try:
            self.limit.check(report)
        except DecodeError:
            self._drop(written)
            raise
        if report.bad_count:
            first, place, _ = report.first_bad
            log.warning("event=bad_records count=%d first=%s@%d", report.bad_count, place, first.pos)

    def _sound(self, written: Written) -> Written:
        if written.failures:
            self._give_up(written)
        return written

    def _give_up(self, written: Written) -> None:
        self._drop(written)
        raise written.failures[0]

    def _drop(self, written: Written) -> None:
        for table, messages in written.messages.items():
            discard(self.reading.warehouse.store(table), messages)
