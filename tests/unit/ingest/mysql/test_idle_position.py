from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.ingest.mysql.idle_position import IdlePosition
from penstock.ingest.mysql.offsets import BatchContent, Progress
from penstock.ingest.mysql.position import LogPosition


def at(pos: int) -> LogPosition:
    return LogPosition("log.000001", pos)


BEFORE = Progress("a-server", at(100))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def idle(clock: Clock) -> IdlePosition:
    found = IdlePosition(10.0, clock)
    found.moved()
    return found


def test_a_position_without_changes_moves_once_per_time(idle: IdlePosition, clock: Clock) -> None:
    assert idle.unread_from(BEFORE) == at(100)
    assert idle.holds(BEFORE, replace(BEFORE, log=at(200)))
    assert idle.unread_from(BEFORE) == at(200)
    clock.now = 9.9
    assert idle.holds(BEFORE, replace(BEFORE, log=at(300)))
    assert idle.unread_from(BEFORE) == at(300)
    clock.now = 10.0
    assert not idle.holds(BEFORE, replace(BEFORE, log=at(400)))
    idle.moved()
    after = replace(BEFORE, log=at(400))
    assert idle.unread_from(after) == at(400)
    assert idle.holds(after, replace(after, log=at(500)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BEFORE, replace(BEFORE, log=at(200), batch=BatchContent(ignored=("truncate",)))),
        (BEFORE, replace(BEFORE, log=at(200), signals=("request-1.json",))),
        # The copy of a table is right once the log has passed this position.
        (replace(BEFORE, settle=at(150)), replace(BEFORE, settle=at(150), log=at(200))),
        (replace(BEFORE, by_gtid=True), replace(BEFORE, by_gtid=True, log=at(200))),
    ],
)
def test_a_batch_with_content_does_not_wait(idle: IdlePosition, before: Progress, after: Progress) -> None:
    assert not idle.holds(before, after)


def test_another_start_is_read_from_itself(idle: IdlePosition) -> None:
    assert idle.holds(BEFORE, replace(BEFORE, log=at(200)))
    assert idle.unread_from(replace(BEFORE, log=at(50))) == at(50)
    assert idle.unread_from(replace(BEFORE, by_gtid=True)) == at(100)
    idle.forget()
    assert idle.unread_from(BEFORE) == at(100)
