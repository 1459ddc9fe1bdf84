"""Log lines on stderr: `event key=value`, or JSON, with a live line of progress kept below them."""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.pipelines.observe.progress import LiveProgress

_PAIR = re.compile(r"(\w+)=(.*?)(?=\s\w+=|$)")


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        found = dict(_PAIR.findall(message))
        facts = found if "event" in found else {"message": message}
        return json.dumps({"at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"), "level": record.levelname, **facts})


class _Above(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes above the live line."""

    progress: LiveProgress | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.progress is not None:
            self.progress.clear()
        super().emit(record)
        if self.progress is not None:
            self.progress.redraw()


def _is_of_others(record: logging.LogRecord) -> bool:
    """Our own lines have a handler; and py4j gives everybody a traceback for each call to a JVM that is gone, of which
    the error tells."""
    return record.name.partition(".")[0] != "penstock" and not str(record.msg).startswith("Exception while sending")


def log_to_stderr(level: str = "info", form: str = "logfmt") -> None:
    handler = _Above(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S")
    handler.setFormatter(_Json() if form == "json" else plain)
    root = logging.getLogger("penstock")
    root.setLevel(level.upper())
    root.handlers[:] = [handler]
    if not logging.root.handlers:
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%Y-%m-%d %H:%M:%S")
        logging.root.handlers[0].addFilter(_is_of_others)


def keep_above(progress: LiveProgress | None) -> None:
    for handler in logging.getLogger("penstock").handlers:
        if isinstance(handler, _Above):
            handler.progress = progress
