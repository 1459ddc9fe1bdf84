"""The watermarks that commits write into snapshots: the progress of the source by the event times of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.table.options.flink import SCAN_WATERMARK_IDLE_TIMEOUT
from penstock.table.options.partitions import TAG_AUTOMATIC_CREATION
from penstock.table.options.table_options import TableOptions


def wants_watermark(options: Mapping[str, str]) -> bool:
    return TableOptions(options)[TAG_AUTOMATIC_CREATION] == "watermark"


def idle_millis(options: Mapping[str, str]) -> int | None:
    """Return the idle timeout.

    A place of the source that was silent for this long no longer delays the watermark.
    """
    return TableOptions(options)[SCAN_WATERMARK_IDLE_TIMEOUT]


@dataclass(slots=True)
class SourceWatermark:
    """The watermark of the whole source, as Flink reports it to Paimon.

    It keeps the newest event time of each place of the source, and when the place last had records. With
    `passes_places`, later ranges have other places (files, positions of a log), so all places count as one.
    """

    passes_places: bool = False
    _places: dict[str, tuple[int, int]] = field(default_factory=dict)

    def see(self, report: BatchReport, now: int) -> None:
        for part in report.ranges:
            newest, place = part.newest, "" if self.passes_places else part.range.place
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
class TableWatermarks:
    """The watermarks of target tables: one of the source for each interval, since deferred tables lack newer rows."""

    passes_places: bool = False
    _by_interval: dict[int, SourceWatermark] = field(default_factory=dict)

    def of_batch(self, report: BatchReport, options: Mapping[str, Mapping[str, str]], planned: int) -> dict[str, int]:
        """Return the watermarks of tables after a batch that was planned at this time, given their options.

        A repeated batch has the same time, and so finds the same places idle.
        """
        for interval in set[int]().union(*(range_.intervals for range_ in report.ranges)):
            ranges = [range_ for range_ in report.ranges if interval in range_.intervals]
            own = self._by_interval.setdefault(interval, SourceWatermark(self.passes_places))
            own.see(BatchReport(ranges), planned)
        found: dict[str, int] = {}
        for table, texts in options.items():
            if wants_watermark(texts):
                times = [watermark.at(planned, idle_millis(texts)) for watermark in self._of_table(table, report)]
                known = [time for time in times if time is not None]
                found |= {table: min(known)} if known else {}
        return found

    def _of_table(self, table: str, report: BatchReport) -> list[SourceWatermark]:
        """Return the watermarks of the intervals in which the batch has the table."""
        intervals = set[int]().union(*(range_.intervals for range_ in report.ranges if table in range_.tables)) or {0}
        return [self._by_interval[interval] for interval in intervals if interval in self._by_interval]
