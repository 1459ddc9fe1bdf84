"""Ctrl-C while DuckDB works: Python raises it only between its own instructions, and a call may take minutes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread, current_thread, main_thread
from typing import Any, TypeVar

_Result = TypeVar("_Result")
# Between attempts, too: DuckDB ignores an interruption that comes before its query has begun.
_PAUSE_S = 0.1


def interruptible(
    connection: Any, work: Callable[[], _Result], discard: Callable[[_Result], object] | None = None
) -> _Result:
    """Return the result of work on a DuckDB connection; Ctrl-C, or another signal that raises, ends it.

    The main thread, which alone handles signals, waits for the work of another thread. A second signal does not wait
    for the end of the work. `discard` closes a result that nobody gets, because the work ended in spite of the signal.
    """
    if current_thread() is not main_thread():
        return work()
    ended: Future[_Result] = Future()
    try:
        _await(ended, connection, work, discard)
        return ended.result()
    finally:
        del ended  # an error refers to this frame, and would keep what the frame has, such as an open result


def _await(
    ended: Future[_Result], connection: Any, work: Callable[[], _Result], discard: Callable[[_Result], object] | None
) -> None:
    try:
        Thread(target=_settle, args=(ended, work), name="sql", daemon=True).start()
        while not ended.done():
            # The system may hand the signal to another thread, and Python raises it here: at the next look.
            wait([ended], _PAUSE_S)
    except BaseException:
        while not (ended.cancel() or ended.done()):
            connection.interrupt()
            wait([ended], _PAUSE_S)
        # An open result would refuse the next statement on this connection: the other thread still refers to it.
        if discard is not None and not ended.cancelled() and ended.exception() is None:
            discard(ended.result())
        raise
    finally:
        del ended, work  # as above


def _settle(ended: Future[_Result], work: Callable[[], _Result]) -> None:
    if not ended.set_running_or_notify_cancel():
        return
    try:
        ended.set_result(work())
    except BaseException as reason:  # noqa: BLE001 -- the thread that waits raises it
        ended.set_exception(reason)
        del ended, work  # as above
