"""Options of Flink's lookup joins that are accepted and change nothing: lookups are made batch by batch.

Statements are copied from Flink's jobs with them, and the rows are the same.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

log = logging.getLogger(__name__)

_TOGETHER = "the keys of a batch are looked up together, so no row waits for another of its batch"
# The value with which Flink would do the same, and why another value changes no rows.
_WITHOUT_EFFECT = {
    "async": ("false", _TOGETHER),
    "capacity": (None, _TOGETHER),
    "shuffle": ("false", "one process looks up all rows"),
}
# output-mode is not logged: both values are obeyed, since allow_unordered permits any order, also the original one.
HINTS = (*_WITHOUT_EFFECT, "output-mode")
HINT_VALUES = {
    "async": ("true", "false"),
    "output-mode": ("ordered", "allow_unordered"),
    "shuffle": ("true", "false"),
}
_lock = threading.Lock()
_reported: set[tuple[str, str, str]] = set()


def report_hints(table: str, options: Mapping[str, str]) -> None:
    """Log the options that have no effect, once per process for each dimension."""
    for key, value in options.items():
        same, why = _WITHOUT_EFFECT.get(key, (value, ""))
        if value == same:
            continue
        with _lock:
            known = (table, key, value) in _reported
            _reported.add((table, key, value))
        if not known:
            log.warning(
                'event=lookup_option_without_effect table=%s option="%s = %s" reason="%s"', table, key, value, why
            )
