"""Connections between two uses: which one is used again, and when it is closed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from penstock.ingest.database.kept_connections import KeptConnections
from tests.waiting import ended, until


@dataclass(eq=False)
class Opened:
    """A connection, and how long it was idle whenever it was asked whether it is usable."""

    idle: list[float] = field(default_factory=list)
    is_alive: bool = True
    is_closed: bool = False

    def is_usable(self, idle_seconds: float) -> bool:
        self.idle.append(idle_seconds)
        return self.is_alive

    def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True


@dataclass
class Play:
    """The kept connections to two servers, all that were opened, and the time."""

    seconds: float = 0.0
    opened: list[Opened] = field(default_factory=list)
    kept: KeptConnections[str, Opened] = field(init=False)

    def __post_init__(self) -> None:
        self.kept = KeptConnections(10.0, 60.0, lambda: self.seconds)

    def open(self) -> Opened:
        self.opened.append(Opened())
        return self.opened[-1]

    def use(self, key: str = "a") -> Opened:
        with self.kept.used(key, self.open) as connection:
            assert not connection.is_closed
        return connection


@pytest.fixture
def play() -> Iterator[Play]:
    found = Play()
    yield found
    found.kept.close()


def test_the_next_use_has_the_connection_of_the_one_before(play: Play) -> None:
    first = play.use()
    play.seconds = 3.0
    assert play.use() is first
    assert first.idle == [3.0]
    assert play.use("b") is not first


def test_a_connection_that_is_in_use_is_not_given_to_another_one(play: Play) -> None:
    with play.kept.used("a", play.open) as first:
        second = play.use()
        assert second is not first
    assert first.is_closed  # one waits already
    assert play.use() is second


def test_a_connection_that_was_lost_meanwhile_is_closed_and_replaced(play: Play) -> None:
    first = play.use()
    first.is_alive = False
    assert play.use() is not first
    assert first.is_closed


def test_a_connection_is_closed_after_an_error(play: Play) -> None:
    with pytest.raises(ValueError, match="lost"), play.kept.used("a", play.open) as first:
        raise ValueError("lost")
    assert first.is_closed
    assert play.use() is not first


def test_a_reader_that_is_abandoned_closes_its_connection(play: Play) -> None:
    def read() -> Iterator[int]:
        with play.kept.used("a", play.open):
            yield from range(3)

    reader = read()
    next(reader)
    del reader
    assert [connection.is_closed for connection in play.opened] == [True]


@pytest.mark.parametrize("in_use", [False, True])
def test_an_old_connection_is_not_used_again(play: Play, *, in_use: bool) -> None:
    with play.kept.used("a", play.open) as first:
        play.seconds = 60.0 if in_use else 0.0
    play.seconds = 60.0
    assert play.use() is not first
    assert first.is_closed


def test_an_idle_connection_is_closed_and_the_thread_that_closes_it_ends() -> None:
    kept: KeptConnections[str, Opened] = KeptConnections(idle_seconds=0.05)
    first = Opened()
    for _ in range(2):
        with kept.used("a", lambda: first):
            pass
    threads = [thread for thread in threading.enumerate() if thread.name == "penstock-kept-connections"]
    until(lambda: first.is_closed, "the end of the idle connection")
    for thread in threads:
        ended(thread)
    second = Opened()
    with kept.used("a", lambda: second):
        pass
    until(lambda: second.is_closed, "the end of the next one")


def in_child(work: Callable[[], bool]) -> bool:
    """Return what the work returns in a process that is forked from this one."""
    child = os.fork()
    if not child:
        done = False
        try:
            done = work()
        finally:
            os._exit(0 if done else 1)
    return os.waitpid(child, 0)[1] == 0


def test_a_forked_process_neither_uses_nor_closes_the_connections_of_its_parent(play: Play) -> None:
    first = play.use()

    def child() -> bool:
        own = play.use()
        play.kept.close()
        return own is not first and own.is_closed and not first.is_closed

    assert in_child(child)
    assert play.use() is first


def test_a_process_that_is_forked_during_a_use_leaves_the_connection_alone(play: Play) -> None:
    with play.kept.used("a", play.open) as first:
        child = os.fork()
    if not child:
        is_alone = not first.is_closed and play.use() is not first
        os._exit(0 if is_alone else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert play.use() is first
