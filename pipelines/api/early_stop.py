"""Records SIGTERM from the start of a command: a run handles signals only after it has read its file and source."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.pipelines.errors import SparkEnded, StoppedEarly

if TYPE_CHECKING:
    from penstock.pipelines.config.model import PipelineSpec

log = logging.getLogger(__name__)

Asked = Callable[[], bool]


def never_asked() -> bool:
    return False


_noted: list[int] = []  # signals that came before a command noted them itself


def note_from_now_on() -> None:
    """Note SIGTERM for the command that this process runs, whose module is not imported yet."""
    signal.signal(signal.SIGTERM, lambda number, frame: _noted.append(number))


@contextmanager
def noted_sigterm() -> Iterator[Asked]:
    """Yield a function that returns whether SIGTERM came in this context, where SIGTERM does not end the process."""
    from penstock.ingest.source_waits import RepeatedSignals

    numbers: list[int] = []
    repeated = RepeatedSignals()

    def note(number: int, frame: FrameType | None) -> None:
        numbers.append(number)
        repeated.came(number, frame)

    # Only the main thread may set signal handlers.
    if current_thread() is not main_thread():
        yield never_asked
        return
    before = signal.signal(signal.SIGTERM, note)
    for number in _noted:
        repeated.came(number, None)  # as if it came now
    try:
        yield lambda: bool(numbers or _noted)
    finally:
        repeated.end()
        signal.signal(signal.SIGTERM, before)


@contextmanager
def asked_to_stop(asked: Asked, spec: PipelineSpec) -> Iterator[None]:
    """Let a stop end the wait for a source or a store that is not available, without an error."""
    from penstock.ingest.patience import patience_unless
    from penstock.pipelines.job.job import may_pass

    try:
        with patience_unless(asked):
            yield
    except (PenstockError, OSError) as error:
        if not (asked() and (may_pass(error) or isinstance(error, SparkEnded))):
            raise
        if spec.pipeline.until == "caught-up":
            raise stopped_early(spec.checkpoint) from error
        log.warning("event=stopped_at_start pipeline=%s reason=%s", spec.pipeline.name, error)


def stopped_early(checkpoint: str) -> StoppedEarly:
    return StoppedEarly(
        "the run was stopped before it had caught up with the source",
        checkpoint=checkpoint,
        hint="run it again: it continues after its last batch",
    )
