"""Stops of waits for a source that the libraries of its clients do not end: a server that is there and says nothing.

A stop only sets flags, which waits look at as far as Penstock waits itself. Within a library they may last for minutes.
So a signal is repeated while the stop has not been obeyed, and then ends what waits by an error. No table is written
in such a place, and an error that may pass is what a lost connection gives. Files of the checkpoint are replaced whole.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import FrameType
from typing import TypeVar

from penstock.errors import SourceError
from penstock.ingest.patience import is_patient

_T = TypeVar("_T")
_LOOK_S = 0.2
# In seconds. Within this time most waits end by themselves, without an error in the middle of a library.
GRACE_S = 2.0
_contexts: list[bool] = []  # that the main thread is in; whether a signal may end what it does there


class WaitEnded(SourceError):
    """The error of a wait for the source that a stop has ended."""

    advice = "run it again: it continues after its last batch"


class _Context:
    """A part of the work of the main thread. In other threads it has no effect.

    No signal ends it while it begins or ends. A context that was left half way would count as one for ever, and a later
    signal would end a commit. A generator as a context would run code of the library there.
    """

    may_end = False

    def __enter__(self) -> None:
        self._counts = threading.current_thread() is threading.main_thread()
        if self._counts:
            _contexts.append(self.may_end)

    def __exit__(self, *_: object) -> None:
        if self._counts:
            _contexts.pop()


class waiting_for_source(_Context):  # noqa: N801 -- as a function that returns a context
    """Let a signal that is repeated end the context at any place: it only reads from a source."""

    may_end = True


class writing_tables(_Context):  # noqa: N801
    """Let no signal end the context, which is a part of one that waits for a source: it writes tables."""


class RepeatedSignals:
    """Repeats signals to this process. Signal handlers call `came`, in the main thread."""

    def __init__(self, grace: float = GRACE_S) -> None:
        self._grace = grace
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._repeats = False

    def came(self, number: int, frame: FrameType | None) -> None:
        """Note a signal. If it is repeated, end the wait for the source that it interrupts by WaitEnded.

        `frame` is the code that the signal interrupts.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._repeat, args=(number,), name="penstock-stop", daemon=True)
            self._thread.start()
        elif self._repeats and _contexts and _contexts[-1] and not _is_boundary(frame):
            raise WaitEnded("a stop ended the wait for the source", retryable=True)

    def end(self) -> None:
        """Repeat nothing more. To be called before the handlers are removed."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _repeat(self, number: int) -> None:
        while not self._over.wait(self._grace):
            self._repeats = True
            # Of this thread alone, so that a call of the system which it waits in ends.
            signal.pthread_kill(threading.main_thread().ident or 0, number)


def _is_boundary(frame: FrameType | None) -> bool:
    return frame is not None and frame.f_code in _BOUNDARIES


_BOUNDARIES = {_Context.__enter__.__code__, _Context.__exit__.__code__}


def ended_by_a_stop(work: Callable[[], _T], ended: Callable[[], Exception]) -> _T:
    """Return the result of a call of a library that no signal can end. After a stop, raise `ended` instead.

    The call goes on in a thread of its own, whose result nobody gets.
    """
    waits = is_patient()
    if threading.current_thread() is not threading.main_thread():
        return work()
    # Not that of an executor, for whose threads a process waits at its end.
    answer: Future[_T] = Future()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:  # noqa: BLE001 -- raised where the answer is awaited
            answer.set_exception(error)

    threading.Thread(target=run, name="penstock-request", daemon=True).start()
    while True:
        try:
            return answer.result(timeout=_LOOK_S)
        except TimeoutError:
            if answer.done():  # meanwhile, or this error is its own
                return answer.result()
            if waits and not is_patient():
                raise ended() from None
