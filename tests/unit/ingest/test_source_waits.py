"""Stops of waits that a library does not end."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType

import pytest

from penstock.errors import SourceError
from penstock.ingest import source_waits
from penstock.ingest.patience import patience_unless
from penstock.ingest.source_waits import RepeatedSignals, WaitEnded, ended_by_a_stop, waiting_for_source, writing_tables
from tests.waiting import LIMIT_S, until


@contextmanager
def repeating() -> Iterator[list[int]]:
    """Yield the signals that come, which are repeated every tenth of a second."""
    came: list[int] = []
    repeated = RepeatedSignals(0.1)

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        repeated.came(number, frame)

    before = signal.signal(signal.SIGUSR1, note)
    try:
        yield came
    finally:
        repeated.end()
        signal.signal(signal.SIGUSR1, before)


def wait_for(pipe: int) -> None:
    with waiting_for_source():
        os.kill(os.getpid(), signal.SIGUSR1)
        os.read(pipe, 1)


def test_a_signal_that_is_not_obeyed_ends_a_wait_within_a_library() -> None:
    reading, writing = os.pipe()
    with repeating() as came:
        with pytest.raises(SourceError, match="a stop ended the wait") as ended:
            wait_for(reading)
        assert ended.value.retryable
        assert len(came) > 1
    os.close(reading)
    os.close(writing)


def test_a_signal_ends_nothing_where_something_may_be_written() -> None:
    with repeating() as came:
        os.kill(os.getpid(), signal.SIGUSR1)
        until(lambda: len(came) > 3, "a signal that is repeated")
    with waiting_for_source():
        seen = len(came)
    assert len(came) == seen  # nothing is repeated any more


def test_a_signal_ends_no_part_that_writes_and_then_what_follows_it() -> None:
    reading, writing = os.pipe()
    ends: list[int] = []

    def write_and_wait(came: list[int]) -> None:
        with waiting_for_source():
            with writing_tables():
                os.kill(os.getpid(), signal.SIGUSR1)
                until(lambda: len(came) > 3, "a signal that is repeated")
                ends.append(len(came))
            os.read(reading, 1)

    with repeating() as came:
        with pytest.raises(WaitEnded):
            write_and_wait(came)
        assert ends
        assert len(came) > ends[0]
    os.close(reading)
    os.close(writing)


def test_the_first_signal_leaves_time_to_end_in_order() -> None:
    with repeating() as came, waiting_for_source():
        os.kill(os.getpid(), signal.SIGUSR1)
        assert came == [signal.SIGUSR1]


def test_a_stop_ends_the_wait_for_a_call_that_no_signal_can_end() -> None:
    over, began = threading.Event(), threading.Event()

    def work() -> bool:
        began.set()
        return over.wait(LIMIT_S)

    with patience_unless(began.is_set), pytest.raises(LookupError):
        ended_by_a_stop(work, lambda: LookupError("stopped"))
    over.set()


def test_a_result_that_comes_as_the_wait_for_it_ends_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(Future[int]):
        def result(self, timeout: float | None = None) -> int:
            found = super().result()
            if timeout is not None:
                raise TimeoutError
            return found

    monkeypatch.setattr(source_waits, "Future", Late)
    assert ended_by_a_stop(lambda: 7, AssertionError) == 7


def test_results_and_errors_of_such_a_call_are_its_own() -> None:
    def fail() -> None:
        raise KeyError("own")

    assert ended_by_a_stop(lambda: 7, AssertionError) == 7

    def expire() -> None:
        raise TimeoutError("own")

    with pytest.raises(KeyError, match="own"):
        ended_by_a_stop(fail, AssertionError)
    with pytest.raises(TimeoutError, match="own"):
        ended_by_a_stop(expire, AssertionError)


def test_a_context_that_a_signal_meets_at_any_instruction_is_counted_right() -> None:
    """A context that still counted after its end would let a later signal end a commit."""
    repeated, steps = RepeatedSignals(0.0), 0
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    repeated.came(signal.SIGUSR1, None)
    repeated.end()
    repeated._repeats = True
    while True:
        left = steps

        def look(frame: FrameType, event: str, _: object) -> object:
            nonlocal left
            frame.f_trace_opcodes = True
            if event == "opcode" and frame.f_code is not body.__code__:
                left -= 1
                if left == 0:
                    repeated.came(signal.SIGUSR1, frame)
            return look

        def body() -> None:
            with waiting_for_source():
                pass

        before = sys.gettrace()
        sys.settrace(look)
        try:
            body()
        except SourceError:
            pass
        finally:
            sys.settrace(before)
        assert not source_waits._contexts, f"after a signal at instruction {steps}"
        if left > 0:
            break
        steps += 1
    assert steps > 10
