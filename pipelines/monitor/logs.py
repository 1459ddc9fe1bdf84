"""Log lines on stderr: `event key=value`, or JSON, with a live line of progress kept below them.

The stderr of Spark's JVM and its Python processes becomes log lines of this process.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

from penstock.errors import PenstockError
from penstock.ingest.connector import RECORDS
from penstock.pipelines.monitor.facts import BatchFacts, Look, SnapshotProgress
from penstock.pipelines.monitor.measures import lag_text, span

# A value may contain spaces: it ends before the next word that is followed by an equals sign.
_PAIR = re.compile(r"(\w+)=(.*?)(?=\s\w+=|$)")


# An error as a value has a line per fact.
_BREAK = re.compile(r"\s*\n\s*")


def one_line(message: str) -> str:
    """Return the message of an event in one line, so that programs which read lines get all of it."""
    return _BREAK.sub("; ", message.strip()) if message.startswith("event=") else message


class _Plain(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the name is that of the base class
        record.message = one_line(record.message)
        return super().formatMessage(record)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message = one_line(record.getMessage())
        found = dict(_PAIR.findall(message))
        facts = found if "event" in found else {"logger": record.name, "message": message}
        if record.exc_info:
            facts["error"] = self.formatException(record.exc_info)
        return json.dumps({"at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"), "level": record.levelname, **facts})


class _Above(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes above the live line."""

    progress: LiveProgress | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(self.stream, "closed", False):  # by a notebook or a test, which replaced stderr for a while
            self.stream = sys.stderr
        if getattr(self.stream, "closed", False):  # stderr itself: no stream is left to report this to
            return
        if self.progress is not None:
            self.progress.clear()
        super().emit(record)
        if self.progress is not None:
            self.progress.redraw()


# py4j logs these with a traceback: calls to a JVM that has ended, and each error of a batch on its way through Spark.
# The errors that are raised afterwards say the same in a sentence.
_RAISED_TOO = ("Exception while sending", "There was an exception while executing the Python Proxy")


def _is_of_others(record: logging.LogRecord) -> bool:
    """Return whether a library logged the record: our own lines have a separate handler."""
    return record.name.partition(".")[0] != "penstock" and not str(record.msg).startswith(_RAISED_TOO)


def log_to_stderr(level: str = "info", form: str = "logfmt") -> None:
    """Write all log lines of this process in one form: Penstock's from `level` on, others from WARNING on."""
    own = logging.getLogger("penstock")
    own.setLevel(level.upper())
    # Replaced and not added, so that a second run of this process does not write each line twice.
    own.handlers[:] = [_handler(form, "%(asctime)s %(levelname)s %(message)s")]
    # Handlers that a notebook or another library has installed stay as they are.
    if not logging.root.handlers or all(isinstance(handler, _Above) for handler in logging.root.handlers):
        others = _handler(form, "%(asctime)s %(levelname)s %(name)s: %(message)s")
        others.addFilter(_is_of_others)
        logging.root.handlers[:] = [others]


def _handler(form: str, plain: str) -> _Above:
    handler = _Above(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Plain(plain, "%Y-%m-%d %H:%M:%S"))
    return handler


def keep_above(progress: LiveProgress | None) -> None:
    for handler in (*logging.getLogger("penstock").handlers, *logging.root.handlers):
        if isinstance(handler, _Above):
            handler.progress = progress


_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) (.*)", re.DOTALL)
_LEVELS = {"WARN": logging.WARNING, "ERROR": logging.ERROR, "FATAL": logging.CRITICAL}
# The JVM warns of the vector module, which Spark adds to its command line.
_NOISE = ("WARNING: Using incubator modules",)

spark = logging.getLogger("spark")
# For lines that our own code logs in a process of Spark, where logging is not configured.
workers = logging.getLogger("penstock.worker")


@contextmanager
def stray_output_logged() -> Iterator[int]:
    """Yield a file for the stderr of processes that are started in this context. Their output is logged, also later.

    This process keeps its own stderr, because its last words must not depend on the thread that logs.
    """
    out, into = os.pipe()
    log_lines_of(out)
    try:
        yield into
    finally:
        # The started processes have inherited the pipe. Its reader ends when the last of them has ended.
        os.close(into)


def log_lines_of(out: int) -> None:
    """Log the lines that other processes write into a pipe, until the last of them has ended."""
    threading.Thread(target=_log_lines, args=(out,), name="penstock-stray-output", daemon=True).start()


def _log_lines(out: int) -> None:
    level = logging.WARNING
    # Other processes may write bytes in any encoding.
    with os.fdopen(out, errors="replace") as lines:
        for text in lines:
            level = log_line(text.rstrip("\n"), level)


def log_line(text: str, level: int = logging.WARNING) -> int:
    """Log a line of another process. Return its level, for lines without one that follow, such as a stack trace."""
    if not text.strip() or text.startswith(_NOISE):
        return level
    if text.startswith("event="):
        workers.warning("%s", text)
        return logging.WARNING
    found = _LINE.fullmatch(text)
    if found is not None:
        level = _LEVELS.get(found[1], logging.INFO)
        text = found[2]
    spark.log(level, "%s", text)
    return level


# Go to the first column and erase the line.
_CLEAR = "\r\033[2K"


class LiveProgress:
    """An observer that draws the line. Log lines in between erase it first, by `clear`."""

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
        """Draw the line again, because an idle source has no batch that would."""
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
        """Erase the line, so that something else can be written."""
        if self._line:
            self._stream.write(_CLEAR)

    def redraw(self) -> None:
        if self._line:
            self._stream.write(self._line)
            self._stream.flush()

    def _show(self, text: str) -> None:
        width = shutil.get_terminal_size().columns
        self.clear()
        # One column less than the terminal: a wrapped line would be erased only in its last row.
        self._line = text[: width - 1]
        self.redraw()
