"""Durations, times, sizes and the lag of a source as texts for people."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from penstock.errors import counted
from penstock.ingest.connector import BYTES, ENTRIES, RECORDS, ROWS


def span(seconds: float) -> str:
    whole = max(0, round(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    days, rest = divmod(whole, 86_400)
    clock = f"{rest // 3600:02}:{rest % 3600 // 60:02} h"
    return f"{days} d {clock}" if days else clock


def moment(millis: int | None) -> str | None:
    return None if millis is None else datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds")


_SINGULAR: dict[str, str] = {RECORDS: "record", ENTRIES: "entry", ROWS: "row"}
OF_LOG = " of "  # between the measure and the log, in the unit of a log
_LOG = "log"  # the place of the log in the lag of a server; its other places are tables that are still to be copied


def lag_text(lag: Mapping[str, int], unit: str) -> str:
    """Return the lag for people: `caught up`, `1.7 MB of the log behind, 3 tables to copy`, `494 records behind`."""
    if not any(lag.values()):
        return "caught up"
    measure, is_of_log, log = unit.partition(OF_LOG)
    if is_of_log:
        behind = lag.get(_LOG, 0)
        size = counted(behind, "second") if measure == "seconds" else size_text(behind)
        tables = sum(1 for place, count in lag.items() if place != _LOG and count)
        parts = [f"{size} of {log} behind"] if behind else []
        return ", ".join([*parts, *([f"{counted(tables, 'table')} to copy"] if tables else [])])
    places = sum(1 for count in lag.values() if count)
    if unit == BYTES:
        return f"{size_text(sum(lag.values()))} behind in {counted(places, 'file')}"
    behind_in = counted(places, "table" if unit == ROWS else "partition")
    behind = sum(lag.values())
    return f"{behind:,} {_SINGULAR.get(unit, unit) if behind == 1 else unit} behind in {behind_in}"


def size_text(count: int) -> str:
    if count < 1000:
        return f"{count} bytes"
    number = float(count)
    for unit in ("kB", "MB", "GB"):
        number /= 1000
        if number < 1000:
            return f"{number:.1f} {unit}"
    return f"{number / 1000:,.1f} TB"
