"""A live line in a terminal: rates, freshness, what is left. One line, rewritten."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from penstock.errors import PenstockError
from penstock.ingest.connector import RECORDS
from penstock.pipelines.monitor.facts import BatchFacts, Look
from penstock.pipelines.monitor.snapshot_progress import SnapshotProgress
from penstock.pipelines.monitor.status_text import lag_text, span

_CLEAR = "\r\033[2K"


class LiveProgress:
    """An observer. Log lines that come between erase it first: see `clear`."""

    def __init__(
        self,
        pipeline: str,
        stream: TextIO | None = None,
        snapshot: Callable[[], Any] | None = None,
        unit: str = RECORDS,
    ) -> None:
        self._unit = unit
        self._pipeline, self._stream = pipeline, stream or sys.stderr
        self._snapshot = snapshot
        self._line = ""
        self._lag: Mapping[str, int] | None = None
        self._facts: BatchFacts | None = None

    def batch(self, facts: BatchFacts) -> None:
        self._facts = facts
        newest = max(facts.newest.values(), default=None)
        self._draw(facts, None if newest is None else (facts.millis - newest) / 1000)

    def _draw(self, facts: BatchFacts, fresh_seconds: float | None) -> None:
        rate = facts.total_rows / facts.seconds
        fresh = "" if fresh_seconds is None else f"   fresh {span(fresh_seconds)}"
        lag = "" if self._lag is None else f"   {lag_text(self._lag, self._unit)}"
        bad = f"   {sum(facts.bad.values())} bad" if facts.bad else ""
        found = self._snapshot() if self._snapshot else None
        copying = f"   {found.line()}" if isinstance(found, SnapshotProgress) and found.tables else ""
        self._show(
            f"{self._pipeline}  batch {facts.number:,}  {facts.total_rows:,} records in {len(facts.rows)} tables"
            f"  {rate:,.0f}/s{copying}{lag}{fresh}{bad}"
        )

    def looked(self, look: Look) -> None:
        """Draw the line again: after the last batch of an idle source nothing else would."""
        self._lag = look.lag
        if self._facts is not None:
            newest = max(self._facts.newest.values(), default=None)
            age = None if newest is None else (look.millis - newest) / 1000
            self._draw(self._facts, 0.0 if look.caught_up else age)

    def ended(self, error: PenstockError | None) -> None:
        if self._line:
            self._stream.write("\n")
            self._stream.flush()
            self._line = ""

    def clear(self) -> None:
        """Take the line away, for something else to be written."""
        if self._line:
            self._stream.write(_CLEAR)

    def redraw(self) -> None:
        if self._line:
            self._stream.write(self._line)
            self._stream.flush()

    def _show(self, text: str) -> None:
        width = shutil.get_terminal_size().columns
        self.clear()
        self._line = text[: width - 1]
        self.redraw()
