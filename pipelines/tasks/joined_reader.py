"""Reads several small ranges as one, if all of their messages become rows that fit.

Whatever needs the place of a message is left to the reader of single ranges, which reads the same messages again: bad
records, schema drift, comments, failures of tables. So a joined reading is either complete, or has no effect.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import DecodeError, PenstockError
from penstock.formats import format_named
from penstock.formats.change import BadRecord, ChangeBatch, DecodeOptions, RowBatch, SourceSchema
from penstock.ingest.decoded_source import DecodedChunk, DecodedSource
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.ingest.freshness_source import source_of_messages
from penstock.ingest.joined_ranges import PLACES_KEPT, JoinedRanges, fetched_together, joinable, remember
from penstock.ingest.source import Offsets, Range
from penstock.pipelines.tasks.bad_record_collector import BadRecordCollector
from penstock.pipelines.tasks.range_findings import RangeFindings
from penstock.pipelines.tasks.range_output import BlobPacker
from penstock.pipelines.tasks.range_reader import RangeReader
from penstock.pipelines.tasks.range_report import RangeReport
from penstock.pipelines.tasks.task_input import TaskContext
from penstock.table.buckets.layout import Layout

MOST_PAUSES = 64


class NeedsPlaces(Exception):
    """Joined ranges have more than rows that fit. To handle it, the place of each message must be known."""


@dataclass(slots=True)
class Pauses:
    """How many joinable groups are read one by one after a joined reading had no effect: 1, 2, 4 and so on."""

    left: int = 0
    next: int = 1

    def is_over(self) -> bool:
        """Return whether ranges may be joined again."""
        self.left -= self.left > 0
        return self.left == 0

    def note(self, *, worked: bool) -> None:
        """Note how a joined reading ended."""
        self.left, self.next = (0, 1) if worked else (self.next + 1, min(2 * self.next, MOST_PAUSES))


# By the place at which groups begin, so that bad records of one producer do not keep ranges of others apart.
_pauses: dict[str, Pauses] = {}


def _pauses_at(place: str) -> Pauses:
    if len(_pauses) >= PLACES_KEPT:
        _pauses.clear()
    return _pauses.setdefault(place, Pauses())


def ranges_together(context: TaskContext) -> Iterator[Sequence[Range]]:
    """Yield the ranges of a task in order, several at once if they may be joined."""
    task, source = context.task, source_of_messages(context.source)
    # Joined ranges are read for all tables, and again for some of them one by one. Messages that belong together are of
    # one partition: the first of a pair must not meet the second of another one.
    pairs = source is not None and format_named(source.format).leads is not None
    if source is None or pairs or context.mapping.reads_places or task.readings or task.only is not None or task.late:
        yield from ([range_] for range_ in task.ranges)
    else:
        yield from joinable(task.ranges, context.joined_bytes)


def read_together(
    context: TaskContext, ranges: Sequence[Range], span: tuple[Offsets, Offsets] | None, options: DecodeOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the blobs and the reports of these ranges."""
    began = time.perf_counter()
    source, place = source_of_messages(context.source) if len(ranges) > 1 else None, ranges[0].place
    parts: list[list[FetchedMessages]] | None = None
    if source is not None and _pauses_at(place).is_over():
        parts = fetched_together(source, ranges, context.joined_bytes)
    if source is not None and parts is not None and any(parts):
        try:
            found = _joined(context, source, JoinedRanges.of(ranges, parts), span, options, began)
        except NeedsPlaces:
            _pauses_at(place).note(worked=False)
        else:
            _pauses_at(place).note(worked=True)
            del parts  # the blobs have what their messages contain
            yield from found
            return
    seconds = time.perf_counter() - began
    for number, range_ in enumerate(ranges):
        reader = RangeReader(context, range_, None if number else span)
        reader.report.seconds["decode"] += 0 if number else seconds
        if source is not None and parts is not None:
            yield from reader.blobs(source.decoded(parts[number], options))
            parts[number].clear()
        else:
            yield from reader.blobs(context.source.chunks(range_, options))
        report = reader.report
        remember(range_, report.messages, report.bytes, len(report.tables))


def _joined(
    context: TaskContext,
    source: DecodedSource,
    joined: JoinedRanges,
    span: tuple[Offsets, Offsets] | None,
    options: DecodeOptions,
    began: float,
) -> list[pa.RecordBatch]:
    """Return the blobs and the reports of joined ranges, whose messages were fetched since `began`."""
    reader = JoinedReader(context, joined, span)
    reader.report.seconds["decode"] += time.perf_counter() - began
    found = list(reader.blobs(joined.decoded(source, options)))
    found += [BlobPacker(context, report.range.number).report(report) for report in reader.others]
    for report in (reader.report, *reader.others):
        remember(report.range, report.messages, report.bytes, len(report.tables))
    return found


class JoinedReader(RangeReader):
    """Turns joined ranges into blobs, which have the number of the first one. Raises NeedsPlaces.

    The report of the first range has the counts of all of them; each range has its own messages, bytes and event times.
    """

    def __init__(self, context: TaskContext, joined: JoinedRanges, span: tuple[Offsets, Offsets] | None) -> None:
        super().__init__(context, joined.ranges[0], span)
        self._joined = joined
        self._blobs = BlobPacker(context, self._range.number, joined.numbers)
        self._bad = _NoBadRecords(context, self._range, self.report, self._blobs)
        self.others = [RangeReport(range_) for range_ in joined.ranges[1:]]
        self._findings = _JoinedFindings(context, joined, [self.report, *self.others])

    def _add_chunk(self, chunk: DecodedChunk) -> None:
        if chunk.decoded.truncations:
            raise NeedsPlaces
        super()._add_chunk(chunk)
        counts = (self._joined.bounds[1:] - self._joined.bounds[:-1]).tolist()
        for report, count, size in zip((self.report, *self.others), counts, self._joined.sizes, strict=True):
            report.messages, report.bytes = count, size

    def _ended(self, error: PenstockError) -> pa.RecordBatch:
        raise NeedsPlaces from error

    def _fail(self, table: str, error: PenstockError) -> None:
        raise NeedsPlaces from error

    def _fail_source(self, change: ChangeBatch, error: PenstockError) -> None:
        raise NeedsPlaces from error

    def _drift(self, table: str, change: ChangeBatch, *, by_message: bool) -> None:
        raise NeedsPlaces


class _JoinedFindings(RangeFindings):
    """The findings of joined ranges. All but event times and incomplete updates need the places of single messages."""

    def __init__(self, context: TaskContext, joined: JoinedRanges, reports: Sequence[RangeReport]) -> None:
        super().__init__(context.mapping, reports[0])
        self._joined, self._reports = joined, reports

    def see(self, table: str, change: ChangeBatch) -> None:
        edges = self._joined.edges(change.positions)
        for report, begin, end in zip(self._reports, edges[:-1], edges[1:], strict=True):
            if begin < end:
                report.table(table).see(change.event_times[begin:end])

    def note_comments(self, table: str, change: ChangeBatch) -> None:
        super().note_comments(table, change)
        if self._report.table(table).commented:
            raise NeedsPlaces

    def count_unordered(
        self, table: str, rows: RowBatch, source: SourceSchema, layout: Layout, fetched: FetchedMessages
    ) -> None:
        super().count_unordered(table, rows, source, layout, fetched)
        if self._report.table(table).unordered:
            raise NeedsPlaces


class _NoBadRecords(BadRecordCollector):
    """Joined ranges have no bad records."""

    def add(
        self,
        records: Sequence[BadRecord],
        fetched: FetchedMessages | None,
        table: str | None,
        read: ChangeBatch | None = None,
    ) -> None:
        if records:
            raise NeedsPlaces

    def add_nameless(self, change: ChangeBatch, error: DecodeError, fetched: FetchedMessages | None) -> None:
        raise NeedsPlaces from error

    def add_nonsense(
        self, table: str, change: ChangeBatch, layout: Layout | None, fetched: FetchedMessages | None
    ) -> bool:
        raise NeedsPlaces
