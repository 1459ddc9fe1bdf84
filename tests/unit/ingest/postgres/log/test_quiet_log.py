from __future__ import annotations

import pytest

from penstock.ingest.postgres.log.quiet_log import QuietLog


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def quiet(clock: Clock) -> QuietLog:
    found = QuietLog(10.0, clock)
    found.moved()
    return found


def fail() -> bool:
    raise AssertionError("the log was read")


def test_a_log_without_changes_moves_once_per_time(quiet: QuietLog, clock: Clock) -> None:
    for now in (0.0, 5.0, 9.9):
        clock.now = now
        assert quiet.holds(lambda: False)
    clock.now = 10.0
    assert not quiet.holds(fail)
    quiet.moved()
    assert quiet.holds(lambda: False)


def test_a_busy_log_is_not_read_ahead_of_each_batch(quiet: QuietLog, clock: Clock) -> None:
    assert not quiet.holds(lambda: True)
    for now in (1.0, 9.0):
        clock.now = now
        quiet.moved()
        assert not quiet.holds(fail)
    clock.now = 10.0
    assert quiet.holds(lambda: False)


def test_the_first_batch_does_not_wait(clock: Clock) -> None:
    assert not QuietLog(10.0, clock).holds(fail)
