"""One batch in the driver, from the results of its tasks to its commits. Independent of Spark."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import DecodeError, PenstockError, SchemaConflict, SourceError
from penstock.ingest.source import Barrier, Offsets, RereadableSource
from penstock.pipelines.driver.batch_context import BatchContext, FailurePolicy
from penstock.pipelines.driver.commit import discard
from penstock.pipelines.driver.compaction import compact_owed
from penstock.pipelines.driver.table_evolution import TableEvolution, apply_barriers
from penstock.pipelines.driver.unlogged_values import fill_logged_columns
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.pipelines.tasks.batch_result import BatchResult
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.snapshot import Snapshot

log = logging.getLogger(__name__)

# One replay is normal. A second is needed if another job alters the table in between.
MOST_REPLAYS = 5
MOST_FOREIGN = 3  # how often another job's commits may get in between


@dataclass(slots=True)
class Batch:
    """One batch: its tasks' results are settled, its tables evolved and read again, committed and compacted.

    `late` is the single table for which a past batch is applied now, when all others have it. Files of a phase that
    fails are removed where it is certain that no commit refers to them; others become orphans.
    """

    run: BatchContext
    number: int
    checkpoint: str
    result: BatchResult
    policy: FailurePolicy
    late: str | None = None
    _letters_stale: bool = False  # the batch's dead letters include those of tables parked meanwhile

    def take(self) -> tuple[BatchIdentity, BatchReport] | None:
        """Go through all phases. Return None if the batch has no range to read.

        Called again for a batch that is committed, it changes nothing.
        """
        self._settle(self.result)
        # A barrier comes before the drift: definitions of its table are in the same batch, and a renamed column
        # that does not have its new name yet would be added as another column.
        self._apply_barriers()
        self._evolve_and_reread()
        self._note_keyless(BatchReport(self.result.reports))
        # Again, because evolving may have parked or left out further tables whose files are written already.
        self._forget_left_out(self.result)
        # After all failures are known: letters of a table that was parked late are in the files already.
        self._rewrite_dead_letters()
        report = BatchReport(self.result.reports, self.result.stats)
        if report.span is None:  # offsets moved without a range to read
            if self.run.filled is not None:
                # This batch, too, was planned with the sources of this run, so that they count as read from now on.
                self.run.filled.record_batch(self.number, {}, {})
            return None
        # Before the first commit, so that a batch with too many bad records adds no row to any table.
        self._check_bad_records(report)
        self._request_reading(report)
        identity = replace(self._identity(report.span, report.newest), lookups=report.lookups)
        with report.stats.stage("commit"):
            uncompacted = self._commit(identity, report)
        if self.late is None:  # else later batches have reported newer comments
            self._evolution.comment(report.commented, self.policy.parked | self.run.targets.left_out)
        # After the commit: a compaction that fails or loses a conflict must not cost the rows of the batch.
        with report.stats.stage("compact"):
            self._compact(identity, uncompacted)
        report.stats.parked = self.policy.reasons
        report.stats.left_out = dict(self.run.targets.reasons)
        return identity, report

    def _identity(self, span: tuple[Offsets, Offsets], newest: Mapping[str, int] | None = None) -> BatchIdentity:
        return BatchIdentity(self.run.pipeline, self.checkpoint, self.number, *span, newest or {})

    @property
    def _evolution(self) -> TableEvolution:
        return TableEvolution(self.run.reader, self.run.targets, self.policy.parks)

    # Read

    def _settle(self, result: BatchResult) -> None:
        """Remove the tables that failed in their tasks. Raise the first error that ends the batch."""
        error = next(iter(result.failures), None)
        error = error or next((why for table, why in result.failed.items() if not self.policy.parks(table, why)), None)
        if error is not None:
            self._discard(result, list(result.messages))
            raise error
        self._forget_left_out(result)

    def _forget_left_out(self, result: BatchResult) -> None:
        """Remove what was read and written of tables that are parked or left out."""
        left_out = self.run.targets.left_out
        self._discard(result, left_out)
        for report in result.reports:
            for table in left_out:
                self._letters_stale |= report.forget(table) > 0

    def _discard(self, result: BatchResult, tables: Collection[str]) -> None:
        """Delete the files that were written to these tables. A table that cannot be created has none."""
        for table in result.messages.keys() & set(tables):
            discard(self.run.reader.warehouse.store(table), result.messages.pop(table))

    @property
    def _barriers(self) -> list[Barrier]:
        return [barrier for report in self.result.reports for barrier in report.barriers]

    def _apply_barriers(self) -> None:
        barriers = self._barriers
        # The identity of the batch, by which a repetition finds that a barrier was applied, needs the span.
        if barriers and (span := BatchReport(self.result.reports).span):
            apply_barriers(barriers, self._identity(span), self.run.reader, self.run.targets, self.policy.parks)

    # Evolve and read again

    def _evolve_and_reread(self) -> None:
        """Alter tables until the batch fits them, and read it again for these tables only.

        Everything is committed together. Reading again is not a second action on the batch's DataFrame, because Spark
        keeps its input partitions, with the old schemas, and its shuffle files.
        """
        for _ in range(MOST_REPLAYS):
            drifts = BatchReport(self.result.reports).drifts
            if not drifts:
                return
            self._evolution.evolve(drifts)
            # A table that cannot follow its source has been left out meanwhile, and is not read again.
            drifted = drifts.keys() - self._leave_out_drifted()
            if not drifted:
                continue
            # Values that do not fit a drifted table are known only after its replay, so all dead letters are written
            # again with it.
            replayed = frozenset(drifted) | self.run.reader.errors.on_bad.letters
            self._discard(self.result, replayed)
            self.result.replace(self._reread(replayed), drifted)
        raise SchemaConflict(
            f"the schema still changes after {MOST_REPLAYS} replays of a batch", tables=", ".join(sorted(drifted))
        )

    def _leave_out_drifted(self) -> Collection[str]:
        """Drop the drift of left-out tables and what was written to them. Return the left-out tables."""
        left_out = self.run.targets.left_out
        self._discard(self.result, left_out)
        for report in self.result.reports:
            for table in left_out:
                report.leave_out(table)
        return left_out

    def _reread(self, only: frozenset[str]) -> BatchResult:
        """Read the batch again for these tables, at their current versions."""
        reports, targets, letters = self.result.reports, self.run.targets, self.run.reader.errors.on_bad.letters
        ranges = [(report.range, report.reading) for report in reports if report.is_read_for(only, letters)]
        if not ranges:
            return BatchResult()
        inputs = self.run.reader.replay_inputs(
            # The same ranges with the same numbers, by which the reports of both readings are put together.
            ranges,
            BatchReport(reports).span,
            targets.schemas,
            only,
            frozenset(targets.left_out),
            late=self.late is not None,
        )
        result = self.run.reread(self.number, inputs)
        self._settle(result)
        return result

    def _note_keyless(self, report: BatchReport) -> None:
        """Record which source tables were left out because they have no key, and which have one now."""
        targets = self.run.targets
        for table, source in report.keyless:
            targets.leave_out_keyless(table, ".".join(filter(None, source)))
        for table, sources in report.sources.items():
            if table not in targets.keyless:
                targets.reasons.pop(table, None)  # it could not be captured when the run began
            for source in sorted(sources):
                targets.take_in_keyed(table, ".".join(filter(None, source)))

    def _request_reading(self, report: BatchReport) -> None:
        """Request that source tables are read again which have rows or values that the batch lacks.

        The batch has created and altered its tables by now. A repetition of the batch requests it once more, and a
        table that catches up lacks nothing that others have.
        """
        source = self.run.reader.source
        if self.late is not None or not isinstance(source, RereadableSource):
            return
        tables = self.run.targets.schemas.keys() - self.run.targets.left_out
        fill_logged_columns(self.run.reader, self._barriers, tables)
        for table in sorted(report.lacks_rows_of):
            source.read_again(table)

    def _rewrite_dead_letters(self) -> None:
        """Write the dead letters again without those of parked tables, which are written when their rows are."""
        letters = self.run.reader.errors.on_bad.letters
        if self.policy.parked and self._letters_stale and letters:
            self._discard(self.result, letters)
            # Only the files: the first reading has reported and counted the bad records.
            self.result.messages.update(self._reread(letters).messages)

    def _check_bad_records(self, report: BatchReport) -> None:
        """Raise DecodeError if too many records are bad."""
        try:
            self.run.limit.check(report)
            self._check_readings(report)
        except (DecodeError, SourceError):
            self._discard(self.result, list(self.result.messages))
            raise
        if report.bad_count:
            first, place, _ = report.first_bad
            log.warning("event=bad_records count=%d first=%s@%d", report.bad_count, place, first.pos)

    def _check_readings(self, report: BatchReport) -> None:
        """Raise SourceError if a message was read for some tables and could not be read for others."""
        if self.late is not None or report.bad_for_some is None:
            return
        place, record = report.bad_for_some
        raise SourceError(
            "a message could be read for some tables of the batch and not for others; nothing of the batch was"
            " committed",
            place=place,
            offset=record.position,
            reason=record.message,
            retryable=True,
            hint="a schema registry may have lost the schema in between: the next run reads all of the batch again",
        )

    # Commit

    def _commit(self, identity: BatchIdentity, report: BatchReport) -> set[str]:
        """Commit the batch and return the tables that may lack its compaction.

        Tables that another job wrote to in the meantime are read and written again on top of that job's commits.
        """
        run, stats = self.run, self.result.stats
        # Before the commit: after a crash between the two, nothing else would record that parked tables lack the batch.
        if run.parking.tables:
            run.parking.note(identity)
        if self.late is None:
            # In the snapshots too, which a new checkpoint looks at if this one is lost.
            identity = replace(identity, parked=tuple(sorted(run.parking.tables)))
        else:
            self._commit_late_letters(identity, self.late)
        watermarks = run.watermarks_at(identity, report)
        messages: Mapping[str, Sequence[CommitMessage]] = self.result.messages
        run.targets.report_options(messages)
        if self.late is None:
            messages = run.expected(self.result.messages)
            # A `BatchView` recognizes by this number that all tables have the batch. A late batch does not count
            # again: its other tables were counted when they were committed.
            identity = replace(identity, tables=len(messages))
        uncompacted: set[str] = set()
        snapshots: dict[str, Snapshot] = {}
        for attempt in range(1, MOST_FOREIGN + 2):
            done = run.commits.commit(identity, messages, watermarks)
            run.targets.put(done.schemas)
            run.targets.received.update(done.schemas)
            uncompacted |= done.uncompacted
            # Collected over all attempts: a table that is committed by a later attempt is missing from the earlier
            # results.
            snapshots |= done.snapshots
            stats.retries.update(done.retries)
            stats.conflicts.update([*done.foreign, *done.lost])
            for table, error in (done.failed | (done.foreign if attempt > MOST_FOREIGN else {})).items():
                if not self.policy.parks(table, error):
                    raise error
                # The table was parked by this batch, after the batch was noted for those parked before.
                run.parking.note(identity)
            if not done.foreign or attempt > MOST_FOREIGN:
                break
            log.warning("event=foreign_writer tables=%s attempt=%d", ",".join(done.foreign), attempt)
            # The next attempt commits only these tables; the others have the batch.
            messages = self._reread(frozenset(done.foreign)).messages
        # After the commits: a batch that is repeated after a crash in between finds its snapshots in the tables,
        # and records them then.
        if run.filled is not None:
            run.filled.record_batch(identity.number, report.sources, snapshots)
        return uncompacted

    def _commit_late_letters(self, identity: BatchIdentity, table: str) -> None:
        """Commit a late batch's dead letters under a separate name.

        Under the batch's own identity the dead-letter table has this batch already, with the letters of the other
        tables. It may never have seen the new name, however old the batch is, so expired snapshots prove nothing;
        replays are accepted because a letter that exists twice is read as one.
        """
        commits = replace(self.run.commits, accept_replay=True)
        tables = self.run.reader.errors.on_bad.letters & self.result.messages.keys()
        letters = {name: self.result.messages.pop(name) for name in tables}
        commits.commit(replace(identity, pipeline=f"{self.run.pipeline}.late.{table}"), letters, {})

    # Compact

    def _compact(self, identity: BatchIdentity, uncompacted: Collection[str]) -> None:
        """Compact buckets outside of this batch.

        Full compactions include buckets that this batch did not write. Where rows become visible only by compaction,
        none may stay undone because a compaction lost a commit conflict, a driver crashed before it, or the commit did
        not wait for it.
        """
        run = self.run
        for table, messages in self.result.messages.items():
            # A table that failed in this batch may lack its rows.
            if table in self.policy.parked:
                continue
            try:
                compact_owed(
                    run.reader.warehouse,
                    table,
                    run.targets.schemas[table],
                    identity,
                    messages,
                    run.compact,
                    whole=table not in uncompacted,
                    compacts_in_background=run.reader.compacts_in_background,
                )
            except PenstockError as error:
                # The table has the rows of this batch and lacks only its compaction, so it is parked from the next
                # batch on.
                if not self.policy.parks(table, error, self.number + 1):
                    raise
