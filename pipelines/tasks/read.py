"""The reading half of a batch: ranges in, blobs and reports out. Runs in the planner and in tasks."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.errors import DecodeError, PenstockError
from penstock.formats.change import BAD_VALUE, NO_NAME, BadRecord, ChangeBatch, DecodeOptions, RowBatch, SourceSchema
from penstock.ingest.carried_errors import ErrorMark
from penstock.ingest.decoded_source import ChangeSource, Chunk
from penstock.ingest.fetched_chunk import Fetched
from penstock.ingest.source import NO_LIMIT, Limit, Offsets, Range, grouped
from penstock.pipelines.ledger.batch_identity import NOW
from penstock.pipelines.ledger.lineage import Reached
from penstock.pipelines.ledger.parked_tables import is_of_its_table
from penstock.pipelines.mapping.partial_images import updates
from penstock.pipelines.mapping.table_mapping import SeenSchema, TableMapping
from penstock.pipelines.mapping.target_tables import Schemas, Version, Versions, known_tables, versions_now
from penstock.pipelines.tasks import dead_letters
from penstock.pipelines.tasks.bad_records import FAIL, OnBad
from penstock.pipelines.tasks.reports import BadRecords, RangeReport, timed
from penstock.pipelines.tasks.router import Router
from penstock.pipelines.tasks.shuffle_rows import NO_TABLE, Blob, RowWindow, as_batch, pieces
from penstock.row_kinds import INSERT
from penstock.table.buckets.layout import Layout
from penstock.table.catalog.settings import CatalogSettings

_END_OF_BATCH = 1 << 62  # sorts after all ranges
BLOBS_A_BATCH = 64  # rows of the fixed schema passed to Spark at a time


@dataclass(frozen=True, slots=True)
class TaskInput:
    """One read task's part of a batch.

    `only`: in a replay, the tables that are read again. `late`: the batch is read for tables that were parked when it
    was first read; dead letters for its unreadable messages were written then.
    """

    ranges: tuple[Range, ...]
    versions: Versions
    now_millis: int
    span: tuple[Offsets, Offsets] | None = None
    only: frozenset[str] | None = None
    left_out: frozenset[str] = frozenset()
    late: bool = False


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
    on_bad: OnBad = FAIL
    resumes: Reached | None = None
    ignore_incompatible: bool = False
    compacts_in_background: bool = False
    isolates: bool = False  # a table's failure is reported, and the other tables are read on
    mark: ErrorMark = field(default_factory=ErrorMark)  # marks errors that return from tasks
    leaves_out: bool = False  # a new table that cannot be created is left out, and the other tables are read on

    def initial_offsets(self) -> Offsets:
        return self.resumes.start if self.resumes else self.source.initial_offsets()

    def available(self) -> Offsets:
        return self.source.available()

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None) -> Offsets:
        """Return the source's newest offsets and the instant at which they were determined.

        That instant is the value of now(), whenever the batch is read.
        """
        if self.resumes is not None and start == self.resumes.start:
            return self.resumes.end
        end = self.source.latest_offsets(start, limit, until)
        return start if end == start else end | {NOW: self.warehouse.now_millis()}

    def at_barrier(self) -> bool:
        return self.source.at_barrier()

    def late_shares(
        self, start: Offsets, end: Offsets, schemas: Schemas, only: frozenset[str], left_out: frozenset[str]
    ) -> list[TaskInput]:
        """Return the shares of a past batch, for the tables that lack it."""
        versions = versions_now(self.warehouse, {name: id_ for name, id_ in schemas.items() if name in only})
        now = int(end.get(NOW, 0))
        return [
            TaskInput(tuple(group), versions, now, None if number else (start, end), only, left_out, late=True)
            for number, group in enumerate(grouped(self.source.plan(start, end, self.tasks), self.tasks))
        ]

    def shares(self, start: Offsets, end: Offsets) -> list[TaskInput]:
        schemas, left_out = known_tables(self.folder)
        versions = versions_now(self.warehouse, {name: id_ for name, id_ in schemas.items() if name not in left_out})
        ranges = self.source.plan(start, end, self.tasks)
        groups = grouped(ranges, self.tasks)
        now = int(end.get(NOW, 0))
        return [
            TaskInput(tuple(group), versions, now, None if number else (start, end), left_out=left_out)
            for number, group in enumerate(groups)
        ]

    def read(self, share: TaskInput) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)  # one task uses one core; set here for workers that the daemon did not prepare
        options = self._options(share)
        for number, range_ in enumerate(share.ranges):
            yield from RangeReader(self, share, range_, None if number else share.span).blobs(options)

    def _options(self, share: TaskInput) -> DecodeOptions:
        known = {
            table: self.warehouse.layout(table, version.schema).schema for table, version in share.versions.items()
        }
        return self.mapping.decode_options(known)

    def close(self) -> None:
        self.source.close()


class RangeReader:
    """Turns one range into blobs. In memory: one window of rows."""

    def __init__(
        self, reading: BatchReader, share: TaskInput, range_: Range, span: tuple[Offsets, Offsets] | None
    ) -> None:
        self._reading, self._share, self._range = reading, share, range_
        self._window = RowWindow()
        self._report = RangeReport(range_, span)
        self._drifted: set[str] = set()
        self._position = 0
        self._routers: dict[str, Router] = {}
        self._left_out: dict[tuple[str, SourceSchema], tuple[str, ...]] = {}  # by updates

    def blobs(self, options: DecodeOptions) -> Iterator[pa.RecordBatch]:
        """Yield the blobs, and the report last.

        An error that a retry cannot fix replaces the report, so that Spark does not run the task four times.
        """
        try:
            seconds = self._report.seconds
            for chunk in timed(self._reading.source.chunks(self._range, options), seconds, "decode"):
                began = time.perf_counter()
                self._take(chunk)
                seconds["route"] += time.perf_counter() - began
                if self._window.is_full:
                    yield from timed(self._flushed(), seconds, "route")
            yield from timed(self._flushed(), seconds, "route")
        except PenstockError as error:
            if error.retryable:
                raise
            yield self._told(error)
        else:
            yield self._told(self._report)

    def _told(self, content: RangeReport | PenstockError) -> pa.RecordBatch:
        blob = Blob(NO_TABLE, Version(0), b"", 0, self._range.number, 1, pickle.dumps(content))
        return as_batch(self._range.number, self._position, [blob])

    def _take(self, chunk: Chunk) -> None:
        report, decoded = self._report, chunk.decoded
        report.messages += chunk.messages
        report.bytes += chunk.bytes
        report.skipped.update(decoded.skipped)
        report.truncations += decoded.truncations
        report.repaired += decoded.repaired
        report.barriers += chunk.barriers
        self._bad(decoded.bad, report.bad, chunk.fetched, None)
        for change in decoded.batches:
            self._shape(change, chunk.fetched)

    def _shape(self, change: ChangeBatch, fetched: Fetched | None) -> None:
        given = len(change)
        change, unread = self._reading.mapping.transformed(change, fetched, self._share.now_millis)
        if given and not len(change) and not unread:
            self._report.filtered += given
            return
        try:
            table = self._reading.mapping.target(change.schema.database, change.schema.table)
        except DecodeError as error:
            self._nameless(change, error, fetched)
            return
        if table is None or table in self._share.left_out:
            self._report.filtered += len(change)
            return
        if not (self._takes(table) or self._keeps_letters):
            return
        report = self._report.table(table)
        if report.error is not None:
            return
        report.sources.add((change.schema.database or "", change.schema.table or ""))
        try:
            self._fit(table, change, unread, fetched)
        except PenstockError as error:
            self._fail(table, error)

    def _nameless(self, change: ChangeBatch, error: DecodeError, fetched: Fetched | None) -> None:
        """Report messages whose table cannot be determined as bad records.

        If that stops the job, the error says what to do.
        """
        values = dict(zip(fetched.messages.offsets.tolist(), fetched.messages.values, strict=True)) if fetched else {}
        records = [
            BadRecord(pos, NO_NAME, error.message, values.get(pos) or b"")
            for pos in np.unique(change.positions).tolist()
        ]
        try:
            self._bad(records, self._report.bad, fetched, None)
        except DecodeError as bad:
            error.facts |= bad.facts
            raise error from bad

    def _fail(self, table: str, error: PenstockError) -> None:
        """Stop sending rows of the table. If tables are not isolated, the error ends the range."""
        if not self._reading.isolates or not is_of_its_table(error):
            raise error
        self._report.table(table).error = error
        self._window.forget(table)

    def _fit(self, table: str, change: ChangeBatch, unread: Sequence[BadRecord], fetched: Fetched | None) -> None:
        taken, layout = self._takes(table), self._layout(table)
        fitted = (
            None
            if layout is None
            else self._reading.mapping.fit(change, layout.schema, fetched, self._share.now_millis)
        )
        if fitted is None:
            if self._is_nonsense(table, change, layout, fetched):
                return
            if taken and not self._bad_anyway(table, change, fetched):
                self._drift(table, change, by_message=fetched is not None)
            return
        if fitted.bad or unread:
            self._bad((*unread, *fitted.bad), self._report.table(table).bad, fetched, table)
        if not taken:
            return
        report = self._report.table(table)
        report.dropped += fitted.dropped
        report.nulled += fitted.nulled
        report.count(fitted.batch.kinds)
        report.see(change.event_times)
        self._look_at_images(table, change, layout, fetched)
        self._note_comments(table, change)
        if table not in self._drifted:
            self._window.add(table, fitted.batch)

    def _note_comments(self, table: str, change: ChangeBatch) -> None:
        """Record the newest comments.

        They are applied after the batch's rows are written, so no row is read again for them.
        """
        schema = change.schema
        comments = (schema.comment, *(one.comment for one in schema.fields))
        if not schema.comments_follow or all(comment is None for comment in comments):
            return
        source = (schema.database or "", schema.table or "")
        # A change without rows is a definition, and the last one is valid at the end of the batch.
        place = (self._range.number, int(change.positions.max())) if len(change) else (_END_OF_BATCH, 0)
        newest = self._report.table(table).commented
        if source not in newest or newest[source].first <= place:
            newest[source] = SeenSchema(table, schema, place, self._range.place)

    def _look_at_images(self, table: str, change: ChangeBatch, layout: Layout | None, fetched: Fetched | None) -> None:
        """Count updates with incomplete row images.

        One update per schema is examined and represents all of the range.
        """
        count = updates(change)
        if not count or layout is None:
            return
        known = self._left_out.get((table, change.schema))
        if known is None:
            known = self._reading.mapping.left_out(change, layout.schema, fetched)
            self._left_out[table, change.schema] = known
        if known:
            report = self._report.table(table)
            report.partial += count
            report.omitted = report.omitted or known

    def _is_nonsense(self, table: str, change: ChangeBatch, layout: Layout | None, fetched: Fetched | None) -> bool:
        """Return whether the messages declare an impossible schema; each is then reported as a bad record.

        Only messages can be wrong in this way: a binlog declares existing schemas.
        """
        if fetched is None:
            return False
        reason = self._reading.mapping.nonsense(change.schema, None if layout is None else layout.schema)
        if reason is None:
            return False
        values = dict(zip(fetched.messages.offsets.tolist(), fetched.messages.values, strict=True))
        records = [
            BadRecord(pos, BAD_VALUE, reason, values.get(pos) or b"") for pos in np.unique(change.positions).tolist()
        ]
        self._bad(records, self._report.table(table).bad, fetched, table)
        return True

    def _bad_anyway(self, table: str, change: ChangeBatch, fetched: Fetched | None) -> bool:
        """Return whether no row would fit the table even after its schema change.

        The rows are then reported as bad records. Bad records must not change a schema.
        """
        layout, mapping = self._layout(table), self._reading.mapping
        if layout is None or self._reading.on_bad.action == "fail" or not len(change):
            return False
        foreseen = mapping.foreseen(table, layout.schema, change.schema)
        fitted = foreseen and mapping.fit(change, foreseen, fetched, self._share.now_millis)
        if not fitted or not fitted.bad or len(fitted.batch) or fitted.dropped:
            return False
        self._bad(fitted.bad, self._report.table(table).bad, fetched, table)
        return True

    def _drift(self, table: str, change: ChangeBatch, *, by_message: bool) -> None:
        """Report the schema.

        No more rows of the table are sent in this reading, because the driver has it read again.
        """
        report = self._report.table(table)
        if not any(drift.schema == change.schema for drift in report.drifts):
            first = (self._range.number, int(change.positions[0]) if len(change) else 0)
            report.drifts.append(SeenSchema(table, change.schema, first, self._range.place, by_message))
        self._drifted.add(table)
        report.unfitted += len(change)
        self._window.forget(table)

    def _takes(self, table: str) -> bool:
        return self._share.only is None or table in self._share.only

    @property
    def _keeps_letters(self) -> bool:
        """True if this reading writes the dead letters.

        It then writes those of all tables, whichever tables it reads for.
        """
        letters = self._reading.on_bad.table
        return letters is not None and self._takes(letters)

    def _bad(self, records: Sequence[BadRecord], into: BadRecords, fetched: Fetched | None, table: str | None) -> None:
        on_bad = self._reading.on_bad
        if not records:
            return
        if on_bad.action == "fail":
            raise on_bad.error(records[0], self._range.place, table)
        into.add(records)
        if on_bad.table is not None and self._keeps_letters and not (self._share.late and table is None):
            letters = dead_letters.rows(
                records,
                pipeline=on_bad.pipeline,
                place=self._range.place,
                fetched=fetched,
                table=table,
                now_millis=self._share.now_millis,
                schema=self._layout_of_letters(on_bad.table).schema,
            )
            count = len(records)
            positions = np.fromiter((record.pos for record in records), np.int64, count)
            kinds, subs = np.full(count, INSERT, np.int8), np.zeros(count, np.int32)
            self._window.add(on_bad.table, RowBatch(letters, kinds, positions, subs))

    def _layout_of_letters(self, table: str) -> Layout:
        return self._reading.warehouse.layout(table, self._share.versions[table].schema)

    def _layout(self, table: str) -> Layout | None:
        version = self._share.versions.get(table)
        return None if version is None else self._reading.warehouse.layout(table, version.schema)

    def _flushed(self) -> Iterator[pa.RecordBatch]:
        held: list[Blob] = []
        size = 0
        for blob in self._routed():
            held.append(blob)
            size += blob.size
            if len(held) >= BLOBS_A_BATCH or size >= 4 << 20:
                yield self._numbered(held)
                held, size = [], 0
        if held:
            yield self._numbered(held)

    def _numbered(self, blobs: list[Blob]) -> pa.RecordBatch:
        batch = as_batch(self._range.number, self._position, blobs)
        self._position += len(blobs)
        return batch

    def _routed(self) -> Iterator[Blob]:
        for table, batch in self._window.drain():
            try:
                yield from self._parts(table, batch)
            except PenstockError as error:
                self._fail(table, error)

    def _parts(self, table: str, batch: RowBatch) -> Iterator[Blob]:
        router = self._router(table)
        for part in router.parts(batch.rows, self._range.number):
            whole = len(part.rows) == len(batch)
            rows = batch.rows if whole else batch.rows.take(pa.array(part.rows))
            for count, data in pieces(rows, batch.kinds if whole else batch.kinds[part.rows], table):
                yield Blob(table, router.version, part.partition, part.bucket, part.writer, count, data)

    def _router(self, table: str) -> Router:
        found = self._routers.get(table)
        if found is None:
            reading = self._reading
            found = Router(reading.warehouse, table, self._share.versions[table], reading.writers)
            self._routers[table] = found
        return found
