"""How long a call waits for a source that cannot be reached: a run waits for it, a read-only command does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_patience: ContextVar[float | None] = ContextVar("patience", default=None)


def patience_seconds(usual: float) -> float:
    """Return the seconds to wait in this context: `usual` unless it is limited."""
    limited = _patience.get()
    return usual if limited is None else limited


def is_patient() -> bool:
    """Return whether to wait for an unreachable source at all; `check` and `plan` report it instead."""
    return patience_seconds(1.0) > 0


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Limit the wait for unreachable sources in this context; with 0 report at once, for read-only commands."""
    before = _patience.set(seconds)
    try:
        yield
    finally:
        _patience.reset(before)
