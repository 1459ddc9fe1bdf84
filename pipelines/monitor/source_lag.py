"""How far a pipeline is behind its source, in the unit in which the source counts."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.ingest.connector import BYTES, LOG_BYTES

_LOG = "log"  # the place of the log in the lag of a server; its other places are tables that are still to be copied


def lag_text(lag: Mapping[str, int], unit: str) -> str:
    """Return the lag for people: `caught up`, `1.7 MB of the log behind, 3 tables to copy`, `494 records behind`."""
    if not any(lag.values()):
        return "caught up"
    if unit == LOG_BYTES:
        behind = lag.get(_LOG, 0)
        tables = sum(1 for place, count in lag.items() if place != _LOG and count)
        parts = [f"{size_text(behind)} of the binlog behind"] if behind else []
        return ", ".join([*parts, *([f"{tables} tables to copy"] if tables else [])])
    places = sum(1 for count in lag.values() if count)
    if unit == BYTES:
        return f"{size_text(sum(lag.values()))} behind in {places} files"
    return f"{sum(lag.values()):,} records behind in {places} partitions"


def size_text(count: int) -> str:
    if count < 1000:
        return f"{count} bytes"
    number = float(count)
    for unit in ("kB", "MB", "GB"):
        number /= 1000
        if number < 1000:
            return f"{number:.1f} {unit}"
    return f"{number / 1000:,.1f} TB"
