"""The protocols of a run of a job: its start, and its control while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.pipelines.driver.batch_driver import OnBatch

_LOOK_S = 0.5


def pause_before_retry(seconds: float, sleep: Callable[[float], None], is_over: Callable[[], bool]) -> None:
    """Sleep for so long, which may be minutes, or until a signal: handlers of signals do not end a sleep."""
    while seconds > 0 and not is_over():
        sleep(min(seconds, _LOOK_S))
        seconds -= _LOOK_S


class RunControl(Protocol):
    """A run that can be stopped and paused. The methods only set flags, so that signal handlers may call them."""

    @property
    def is_resting(self) -> bool:
        """Return whether the run has a signal to pause and no batch is running."""
        ...

    def stop(self) -> None:
        """Ask the run to stop."""
        ...

    def pause(self) -> None:
        """Ask the run to wait after its batch."""
        ...

    def resume(self) -> None:
        """Ask a waiting run to continue."""
        ...


class Run(RunControl, Protocol):
    """A run of a job. `run` returns when it has caught up or was stopped, and raises the error that ended it."""

    on_batch: OnBatch | None

    @property
    def has_caught_up(self) -> bool:
        """Return whether the run has read all that the source had."""
        ...

    def run(self) -> None:
        """Take batches until the run ends."""
        ...
