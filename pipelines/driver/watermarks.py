"""Event times as watermarks of snapshots: how far the whole source has progressed, as Flink reports it to Paimon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.pipelines.tasks.reports import BatchReport
from penstock.table.options.flink_and_spark import SCAN_WATERMARK_IDLE_TIMEOUT
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
class Watermarks:
    """The newest event time of each place of the source, and when the place last had records."""

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
        times = [newest for newest, seen in self._places.values() if idle is None or now - seen <= idle]
        return min(times) - 1 if times else None
