"""Event times as watermarks of snapshots: how far all of the source has come, as Flink tells it to Paimon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.pipelines.tasks.reports import BatchReport
from penstock.table.schema.options import Options


def wants_watermark(options: Mapping[str, str]) -> bool:
    return options.get("tag.automatic-creation", "none").strip().lower() == "watermark"


def idle_millis(options: Mapping[str, str]) -> int | None:
    """After so long a silence a place of the source holds the others back no more."""
    return Options(options).duration("scan.watermark.idle-timeout", None)


@dataclass(slots=True)
class Watermarks:
    """Remembers each place of the source with its newest event time, and when it last had records."""

    _places: dict[str, tuple[int, int]] = field(default_factory=dict)

    def see(self, report: BatchReport, now: int) -> None:
        for one in report.ranges:
            newest = max(one.newest.values(), default=-1)
            if newest >= 0:
                before, _ = self._places.get(one.range.place, (newest, now))
                self._places[one.range.place] = (max(before, newest), now)

    def at(self, now: int, idle: int | None = None) -> int | None:
        """Rows of this time may still come, earlier ones are not expected. None before any row had a time."""
        times = [newest for newest, seen in self._places.values() if idle is None or now - seen <= idle]
        return min(times) - 1 if times else None
