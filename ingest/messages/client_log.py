"""The log lines of clients of message brokers, which are written by libraries."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable


class Seldom(logging.Filter):
    """Pass the same message only twice a minute: a client that looks for its broker logs many times per second."""

    def __init__(self, seconds: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds, self._clock = seconds, clock
        self.error_text: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        words, now = re.sub(r"\d+(?=ms\b)|(?<=producer-)\d+|(?<=consumer-)\d+", "", record.getMessage()), self._clock()
        if now - self.error_text.get(words, -self._seconds) < self._seconds:
            return False
        # Texts contain names of hosts and topics, so their number is not bounded by itself.
        if len(self.error_text) > 1000:
            self.error_text.clear()
        self.error_text[words] = now
        return True
