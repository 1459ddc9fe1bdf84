"""The stderr of Spark's JVM and its Python processes, as log lines of this process."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) (.*)", re.DOTALL)
_LEVELS = {"WARN": logging.WARNING, "ERROR": logging.ERROR, "FATAL": logging.CRITICAL}
_NOISE = ("WARNING: Using incubator modules",)

spark = logging.getLogger("spark")
# What our own code logs in a process of Spark's, which has no settings of ours.
workers = logging.getLogger("penstock.worker")


@contextmanager
def stray_output_logged() -> Iterator[int]:
    """A file for the stderr of processes that are started in between; what they write to it, now and later, is logged.

    This process keeps its own: what it says when it dies must not hang on a thread of its own.
    """
    out, into = os.pipe()
    threading.Thread(target=_log_lines, args=(out,), name="penstock-stray-output", daemon=True).start()
    try:
        yield into
    finally:
        os.close(into)


def _log_lines(out: int) -> None:
    level = logging.WARNING
    with os.fdopen(out, errors="replace") as lines:
        for text in lines:
            level = log_line(text.rstrip("\n"), level)


def log_line(text: str, level: int = logging.WARNING) -> int:
    """Log a line of another process; gives its level, which holds for lines without one, as those of a stack."""
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
