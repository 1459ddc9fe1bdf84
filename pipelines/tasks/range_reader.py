"""Reads one range: decodes its chunks, fits them to their target tables, and packs the rows for the shuffle."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.errors import DecodeError, PenstockError, PositionLost
from penstock.formats.change import BadRecord, ChangeBatch
from penstock.ingest.decoded_source import DecodedChunk
from penstock.ingest.deferred_ranges import lost_for
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.ingest.source import Offsets, Range
from penstock.pipelines.ledger.parked_tables import is_of_its_table
from penstock.pipelines.mapping.lookup_run import LookupRun
from penstock.pipelines.mapping.table_mapping import SeenSchema
from penstock.pipelines.tasks.bad_record_collector import BadRecordCollector
from penstock.pipelines.tasks.keyless_sources import KeylessSources
from penstock.pipelines.tasks.range_findings import RangeFindings
from penstock.pipelines.tasks.range_output import BlobPacker, left_out_rows
from penstock.pipelines.tasks.range_report import RangeReport
from penstock.pipelines.tasks.task_input import TaskContext
from penstock.pipelines.tasks.task_stats import timed
from penstock.schema_evolution.fit import FittedRows
from penstock.schema_evolution.row_versions import stream_of
from penstock.table.buckets.layout import Layout
from penstock.table.options.changelogs import CHANGELOG_PRODUCER


@dataclass(frozen=True, slots=True)
class TransformedChange:
    """A change after the transforms.

    `read` is the change before them, which dead letters contain. `refused` are the messages that transforms and quality
    rules refused.
    """

    change: ChangeBatch
    read: ChangeBatch
    fetched: FetchedMessages | None
    refused: Sequence[BadRecord]


class RangeReader:
    """Turns one range into blobs. In memory: one window of rows."""

    def __init__(self, context: TaskContext, range_: Range, span: tuple[Offsets, Offsets] | None) -> None:
        self._context, self._task, self._range = context, context.task, range_
        self._blobs = BlobPacker(context, range_.number)
        self._reading = context.task.readings.get(range_.number)
        self.report = RangeReport(range_, span, self._reading)
        self._bad = BadRecordCollector(context, range_, self.report, self._blobs)
        self._drifted: set[str] = set()
        self._lookups = LookupRun(dict(context.task.lookups))
        self._keyless = KeylessSources(context)
        self._findings = RangeFindings(context.mapping, self.report)

    def blobs(self, chunks: Iterator[DecodedChunk]) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of the range, whose chunks these are, and the report last.

        An error that a retry cannot fix replaces the report, so that Spark does not run the task four times.
        """
        try:
            seconds = self.report.seconds
            for chunk in timed(chunks, seconds, "decode"):
                began = time.perf_counter()
                self._add_chunk(chunk)
                seconds["route"] += time.perf_counter() - began
                if self._blobs.is_full:
                    yield from timed(self._blobs.packed(self._fail), seconds, "route")
            yield from timed(self._blobs.packed(self._fail), seconds, "route")
        except PenstockError as error:
            if isinstance(error, PositionLost) and self._reading is not None and self._reading.is_again:
                error = lost_for(error, self._reading.text)
            # Raised, such an error lets Spark try the task again, perhaps on another machine.
            if error.retryable:
                raise
            yield self._ended(error)
        else:
            self.report.missed, self.report.lookups = self._lookups.missed, self._lookups.used
            yield self._blobs.report(self.report)

    def _ended(self, error: PenstockError) -> pa.RecordBatch:
        """Return the error that replaces the report of the range."""
        return self._blobs.report(error)

    def _add_chunk(self, chunk: DecodedChunk) -> None:
        report, decoded = self.report, chunk.decoded
        report.messages += chunk.messages
        report.bytes += chunk.bytes
        report.barriers += chunk.barriers
        report.lacks_rows_of.update(chunk.lacks_rows_of)
        if not report.is_again:  # else these were counted before
            report.skipped.update(decoded.skipped)
            report.truncations += decoded.truncations
            report.repaired += decoded.repaired
        self._bad.add(decoded.bad, chunk.fetched, None)
        for change in decoded.batches:
            self._add_change(change, chunk.fetched)

    def _add_change(self, read: ChangeBatch, fetched: FetchedMessages | None) -> None:
        if self._reading is not None and not self._reading.takes(read.schema.database, read.schema.table):
            return
        rows = self._transformed(read, fetched)
        if rows is None:
            return
        change = rows.change
        left_out = left_out_rows(read, change, rows.refused)
        self.report.filtered += left_out
        # A change that was empty before the transforms is a definition of a table, and is used below.
        if len(read) and not len(change) and not rows.refused:
            return
        try:
            table = self._context.mapping.target(change.schema.database, change.schema.table)
        except DecodeError as error:
            self._bad.add_nameless(change, error, fetched)
            return
        if table is None or table in self._task.left_out:
            # With the rows of messages that the transform refused, which are bad records of no table.
            self.report.filtered += len(read) - left_out
            return
        # A replay skips the rows of other tables, unless it writes the dead letters of all tables again.
        if not (self._context.reads(table) or self._context.keeps_letters):
            return
        if self._keyless.leaves_out(table, change.schema):
            self.report.filtered += len(read) - left_out
            self.report.keyless.add((table, _source_of(change)))
            return
        self._check(table, rows)

    def _transformed(self, read: ChangeBatch, fetched: FetchedMessages | None) -> TransformedChange | None:
        """Return the change after the transforms; None if a transform failed."""
        place, numbered = self._range.place, fetched is not None and fetched.ids is None
        now = self._task.now_millis
        stream = stream_of(place, self._range.number, now, numbered=numbered)
        try:
            change, refused = self._context.mapping.transformed(read, fetched, now, self._lookups, stream)
        except PenstockError as error:
            self._fail_source(read, error)
            return None
        return TransformedChange(change, read, fetched, refused)

    def _check(self, table: str, rows: TransformedChange) -> None:
        """Apply the quality rules of the table, then send the rows that fit."""
        source = _source_of(rows.change)
        try:
            checked = self._context.mapping.checked(rows.change, rows.fetched, self._task.now_millis)
        except PenstockError as error:
            error.facts.setdefault("source", ".".join(source))
            self._fail(table, error)
            return
        # A reading for one table, or for dead letters, checks other tables too, whose counts were reported before.
        if self._context.reads(table):
            self.report.expectations.update(checked.counts or {})
        rows = replace(rows, change=checked.change, refused=(*rows.refused, *checked.bad))
        # A change without rows is a definition of a table, but not if all its rows were dropped.
        if len(rows.read) and not len(rows.change) and not rows.refused:
            return
        report = self.report.table(table)
        if report.error is not None:
            return
        report.sources.add(source)
        if checked.never_added and self._repeats_input(table):
            report.never_added += checked.never_added
        try:
            self._fit(table, rows)
        except PenstockError as error:
            self._fail(table, error)

    def _repeats_input(self, table: str) -> bool:
        """Return whether the changelog of the table has the unchanged rows of messages."""
        layout = self._context.layout(table)
        return layout is not None and layout.schema.typed[CHANGELOG_PRODUCER].copies_input

    def _fail(self, table: str, error: PenstockError) -> None:
        """Stop sending rows of the table. If tables are not isolated, the error ends the range."""
        if not self._context.errors.isolates or not is_of_its_table(error):
            raise error
        self.report.table(table).error = error
        # Blobs that were sent already become files, which the driver discards.
        self._blobs.forget(table)

    def _fail_source(self, change: ChangeBatch, error: PenstockError) -> None:
        """Stop sending rows of the table that a source table goes to, whose rules do not fit the rows."""
        try:
            table = self._context.mapping.target(change.schema.database, change.schema.table)
        except DecodeError:
            table = None
        if table is None:
            raise error
        if table in self._task.left_out or not self._context.reads(table):
            self.report.filtered += len(change)  # these rows are passed over anyway
            return
        self.report.table(table).sources.add(_source_of(change))
        self._fail(table, error)

    def _fit(self, table: str, rows: TransformedChange) -> None:
        """Send the rows that fit."""
        change, fetched = rows.change, rows.fetched
        is_read, layout = self._context.reads(table), self._context.layout(table)
        fitted = None
        if layout is not None:
            fitted = self._context.mapping.fit(change, layout.schema, fetched, self._task.now_millis)
        # Drift, unless no valid message can declare such a schema, or none of its rows would fit after the change.
        if layout is None or fitted is None:
            if self._bad.add_nonsense(table, change, layout, fetched) or self._bad_anyway(table, rows):
                # Messages that a transform or a quality rule refused: no other reading records them.
                self._bad.add(rows.refused, fetched, table, rows.read)
            # A replay that only writes dead letters again must not report drift of other tables.
            elif is_read:
                self._drift(table, change, by_message=fetched is not None)
            return
        if fitted.bad or rows.refused:
            self._bad.add((*rows.refused, *fitted.bad), fetched, table, rows.read)
        if is_read:
            self._send(table, rows, fitted, layout)

    def _send(self, table: str, rows: TransformedChange, fitted: FittedRows, layout: Layout) -> None:
        """Count the rows that fit and pack them for the shuffle."""
        report, change, fetched = self.report.table(table), rows.change, rows.fetched
        report.dropped += fitted.dropped
        report.nulled += fitted.nulled
        report.inexact += fitted.inexact
        report.count(fitted.batch.kinds)
        self._findings.see(table, change)
        self._findings.count_incomplete(table, change, layout, fetched)
        if fetched is not None:  # readers of databases count their own
            self._findings.count_unordered(table, fitted.batch, change.schema, layout, fetched)
        self._findings.note_comments(table, change)
        # A drifted table is read again as a whole, so rows that fit are counted here but not sent.
        if table not in self._drifted:
            self._blobs.add(table, fitted.batch)

    def _bad_anyway(self, table: str, rows: TransformedChange) -> bool:
        """Return whether no row would fit the table even after its schema change.

        The rows are then reported as bad records. Bad records must not change a schema.
        """
        layout, mapping, change = self._context.layout(table), self._context.mapping, rows.change
        if layout is None or self._context.errors.on_bad.action == "fail" or not len(change):
            return False
        # The rows are fitted to the schema that the table would get. If no row fits, the schema change would be
        # useless.
        foreseen = mapping.foreseen(table, layout.schema, change.schema)
        fitted = foreseen and mapping.fit(change, foreseen, rows.fetched, self._task.now_millis)
        if not fitted or not fitted.bad or len(fitted.batch) or fitted.dropped:
            return False
        self._bad.add(fitted.bad, rows.fetched, table, rows.read)
        return True

    def _drift(self, table: str, change: ChangeBatch, *, by_message: bool) -> None:
        """Report the schema.

        No more rows of the table are sent in this reading, because the driver has it read again.
        """
        report = self.report.table(table)
        if not any(drift.schema == change.schema for drift in report.drifts):
            # A change without rows has no positions: only its range orders it.
            first = (self._range.number, int(change.positions[0]) if len(change) else 0)
            report.drifts.append(SeenSchema(table, change.schema, first, self._range.place, by_message))
        self._drifted.add(table)
        report.unfitted += len(change)
        self._blobs.forget(table)


def _source_of(change: ChangeBatch) -> tuple[str, str]:
    return change.schema.database or "", change.schema.table or ""
