"""One batch in the driver, from the results of its tasks to its commits. Independent of Spark."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from penstock.errors import PenstockError, SchemaConflict, SourceError
from penstock.ingest.source import Barrier, Offsets, RereadableSource
from penstock.pipelines.driver.batch_context import BatchContext, FailurePolicy
from penstock.pipelines.driver.commit_phase import CommitPhase
from penstock.pipelines.driver.table_evolution import NO_SOURCES, TableEvolution, apply_barriers
from penstock.pipelines.driver.unlogged_values import fill_logged_columns
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.ledger.unfinished_replay import check_replay
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.pipelines.tasks.batch_result import BatchResult
from penstock.table.buckets.bucket_files import discard

log = logging.getLogger(__name__)

# One replay is normal. A second is needed if another job alters the table in between.
MOST_REPLAYS = 5


@dataclass(slots=True)
class Batch:
    """One batch. `take` settles the results of its tasks, evolves tables and reads them again, commits and compacts.

    `late` is the table that missed this batch and receives it now; all other tables have it. Files of a phase that
    fails are removed where it is certain that no commit refers to them; others become orphans.
    """

    run: BatchContext
    number: int
    checkpoint: str
    result: BatchResult
    policy: FailurePolicy
    late: str | None = None
    _letters_stale: bool = False  # the dead letters include letters of tables that were parked after their reading

    def take(self) -> tuple[BatchIdentity, BatchReport] | None:
        """Go through all phases. Return None if the batch has no range to read.

        Called again for a batch that is committed, it changes nothing.
        """
        self._settle(self.result)
        # Barriers come before drift: the batch also has the new definition of a table with renamed columns, and a
        # column that does not have its new name yet would be added as another one.
        self._apply_barriers()
        self._evolve_and_reread()
        self._note_keyless(BatchReport(self.result.reports))
        # Again, because evolution may have parked or left out further tables, whose files are written already.
        self._forget_left_out(self.result)
        # After all failures are known: the files may have letters of tables that were parked since.
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
        phase = CommitPhase(self.run, self.number, self.result, self.policy, self._reread, self.late)
        with report.stats.stage("commit"):
            uncompacted = phase.commit(identity, report)
        if self.late is None:  # else later batches have reported newer comments
            self._evolution.comment(report.commented, self.policy.parked | self.run.targets.left_out)
        # After the commit: a compaction that fails or loses a conflict must not cost the rows of the batch.
        with report.stats.stage("compact"):
            phase.compact(identity, uncompacted)
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
        self._confirm(result)
        self._forget_left_out(result)

    def _confirm(self, result: BatchResult) -> None:
        """Raise a SourceError if the source may have given other data than those that were planned."""
        span, ranges = BatchReport(self.result.reports).span, [report.range for report in result.reports]
        if span is None or not ranges:
            return
        try:
            self.run.reader.confirm(ranges, span[1])
        except SourceError:
            self._discard(result, list(result.messages))
            raise

    def _forget_left_out(self, result: BatchResult) -> None:
        """Remove the reports and the files of tables that are parked or left out."""
        left_out = self.run.targets.left_out
        self._discard(result, left_out)
        for report in result.reports:
            for table in left_out:
                self._letters_stale |= report.forget(table) > 0

    def _discard(self, result: BatchResult, tables: Collection[str]) -> None:
        """Delete the files that were written to these tables. A table that cannot be created has no files."""
        for table in result.messages.keys() & set(tables):
            discard(self.run.reader.warehouse.store(table), result.messages.pop(table))

    @property
    def _barriers(self) -> list[Barrier]:
        return [barrier for report in self.result.reports for barrier in report.barriers]

    def _apply_barriers(self) -> None:
        barriers = self._barriers
        # The identity of the batch, by which a repetition finds that a barrier was applied, needs the span.
        if barriers and (span := BatchReport(self.result.reports).span):
            sources = NO_SOURCES if self.run.filled is None else self.run.filled.sources
            identity, run = self._identity(span), self.run
            if any(barrier.kind == "read-again" for barrier in barriers):
                check_replay(run.parking.checkpoint)
            apply_barriers(barriers, identity, run.reader, run.targets, self.policy.parks, sources)

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
            f"the schema still changes after {MOST_REPLAYS} replays of a batch",
            tables=", ".join(sorted(drifted)),
            hint="run the pipeline again; a smaller max-batch puts fewer schema changes into one batch",
        )

    def _leave_out_drifted(self) -> Collection[str]:
        """Drop the drift and the files of left-out tables. Return these tables."""
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
            # Ranges keep their numbers, by which the reports of both readings are joined.
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
        """Record the source tables that were left out because they have no key, and tables that have one now."""
        targets = self.run.targets
        for table, source in report.keyless:
            targets.leave_out_keyless(table, ".".join(filter(None, source)))
        for table, sources in report.sources.items():
            if table not in targets.keyless:
                targets.reasons.pop(table, None)  # it could not be captured when the run began
            for source in sorted(sources):
                targets.take_in_keyed(table, ".".join(filter(None, source)))

    def _request_reading(self, report: BatchReport) -> None:
        """Request another reading of the source tables with rows or values that the batch lacks.

        By now, the batch has created and altered its tables. If the batch is repeated, the reading is requested once
        more. A late batch requests none, because it was requested with the batch of the other tables.
        """
        source = self.run.reader.source
        if self.late is not None or not isinstance(source, RereadableSource):
            return
        tables = self.run.targets.schemas.keys() - self.run.targets.left_out
        fill_logged_columns(self.run.reader, self._barriers, tables)
        for table in sorted(report.lacks_rows_of):
            source.read_again(table)

    def _rewrite_dead_letters(self) -> None:
        """Write the dead letters again, without those of parked tables: they are written later, with the rows."""
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
        except PenstockError:
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
