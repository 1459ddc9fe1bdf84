"""A live line in a terminal: rates, freshness, what is left. One line, rewritten."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from typing import Any, TextIO

from penstock.errors import PenstockError
from penstock.pipelines.monitor.facts import BatchFacts, Look
from penstock.pipelines.monitor.snapshot_progress import SnapshotProgress
from penstock.pipelines.monitor.status_text import span

_CLEAR = "\r\033[2K"


class LiveProgress:
    """An observer. Log lines that come between erase it first: see `clear`."""

    def __init__(self, pipeline: str, stream: TextIO | None = None, snapshot: Callable[[], Any] | None = None) -> None:
        self._pipeline, self._stream = pipeline, stream or sys.stderr
        self._snapshot = snapshot
        self._line = ""
        self._lag: int | None = None

    def batch(self, facts: BatchFacts) -> None:
        rate = facts.total_rows / facts.seconds
        newest = max(facts.newest.values(), default=None)
        fresh = "" if newest is None else f"   fresh {span((facts.millis - newest) / 1000)}"
        lag = "" if self._lag is None else ("   caught up" if self._lag == 0 else f"   {self._lag:,} behind")
        bad = f"   {sum(facts.bad.values())} bad" if facts.bad else ""
        found = self._snapshot() if self._snapshot else None
        copying = f"   {found.line()}" if isinstance(found, SnapshotProgress) and found.tables else ""
        self._show(
            f"{self._pipeline}  batch {facts.number:,}  {facts.total_rows:,} rows in {len(facts.rows)} tables"
            f"  {rate:,.0f} rows/s{copying}{lag}{fresh}{bad}"
        )

    def looked(self, look: Look) -> None:
        self._lag = sum(look.lag.values())

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
