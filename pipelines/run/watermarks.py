"""Event times as watermarks of snapshots: how far all of the source has come, as Flink tells it to Paimon."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.pipelines.run.reports import BatchReport
from penstock.table.schema.options import Options

log = logging.getLogger(__name__)

_ALIGNMENT = "scan.watermark.alignment."


def wants_watermark(options: Mapping[str, str]) -> bool:
    return options.get("tag.automatic-creation", "none").strip().lower() == "watermark"


def tell_of_alignment(options: Mapping[str, str]) -> None:
    """Flink holds fast partitions back for slow ones. Here a batch takes from all of them what they have, and the
    watermark is that of the slowest whatever the others do: there is nothing to hold back."""
    for name in sorted(options):
        if name.startswith(_ALIGNMENT):
            log.warning(
                "event=option_without_effect option=%s reason=a batch reads all partitions as far as they go,"
                " and its watermark is that of the slowest",
                name,
            )


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
