"""The patience with an unreachable source: commands and runs limit how long the code that they call waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_patience: ContextVar[Callable[[float], float]] = ContextVar("patience", default=lambda usual: usual)


def patience_seconds(usual: float) -> float:
    """Return the seconds to wait in this context, `usual` unless it is limited. Asked again during the wait."""
    return _patience.get()(usual)


def is_patient() -> bool:
    """Return whether to wait for an unreachable source at all; `check` and `plan` report it instead."""
    return patience_seconds(1.0) > 0


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Limit the wait for unreachable sources in this context; with 0 report at once, for read-only commands."""
    with _waiting(lambda usual: seconds):
        yield


@contextmanager
def patience_unless(stopped: Callable[[], bool]) -> Iterator[None]:
    """End the wait for unreachable sources in this context as soon as `stopped` is true."""
    with _waiting(lambda usual: 0.0 if stopped() else usual):
        yield


@contextmanager
def _waiting(seconds: Callable[[float], float]) -> Iterator[None]:
    before = _patience.set(seconds)
    try:
        yield
    finally:
        _patience.reset(before)
