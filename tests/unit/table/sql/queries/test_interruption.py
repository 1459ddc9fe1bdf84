"""Ctrl-C ends a statement while DuckDB computes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread, current_thread
from types import FrameType
from weakref import ReferenceType, ref

import pytest

import penstock
from penstock.table.sql.interpreter import Interpreter
from penstock.table.sql.queries import session as session_module
from penstock.table.sql.queries.interruption import interruptible
from penstock.table.sql.queries.session import Session
from tests.waiting import LIMIT_S, ended, until

# DuckDB needs hours for these 10^13 rows.
_LONG = "(SELECT a.range AS id FROM range(100000000) a, range(1000000) b WHERE a.range % 7 = b.range % 11)"


class Connection:
    """Stands in for a connection of DuckDB."""

    def __init__(self) -> None:
        self.interrupted = Event()

    def interrupt(self) -> None:
        self.interrupted.set()


class Stopped(Exception):
    """What the handler of the signal raises."""


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Stopped

    before = signal.signal(signal.SIGUSR1, stop)
    yield
    signal.signal(signal.SIGUSR1, before)


@contextmanager
def in_the_middle() -> Iterator[None]:
    """Send the signal once the statement has computed for a second."""
    before = signal.signal(signal.SIGPROF, signal.getsignal(signal.SIGUSR1))
    signal.setitimer(signal.ITIMER_PROF, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def test_a_signal_interrupts_the_work() -> None:
    connection, ends = Connection(), []

    def work() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        ends.append(connection.interrupted.wait(LIMIT_S))

    with pytest.raises(Stopped):
        interruptible(connection, work)
    assert ends == [True]


def test_the_error_of_an_interruption_keeps_no_result_of_work_that_ended_nevertheless() -> None:
    kept = list[ReferenceType[Event]]()

    def work() -> Event:
        os.kill(os.getpid(), signal.SIGUSR1)
        result = Event()
        kept.append(ref(result))
        return result

    with pytest.raises(Stopped) as caught:
        interruptible(Connection(), work)
    until(lambda: kept[0]() is None, "the result was dropped")
    assert caught.type is Stopped


def test_the_result_of_work_that_ended_nevertheless_is_discarded() -> None:
    def work() -> int:
        os.kill(os.getpid(), signal.SIGUSR1)
        return 7

    discarded: list[int] = []
    with pytest.raises(Stopped):
        interruptible(Connection(), work, discarded.append)
    assert discarded == [7]


def test_rows_that_were_interrupted_at_their_begin_leave_the_session_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []

    def interrupted(_: object, work: Callable[[], object], discard: Callable[[object], object]) -> object:
        results.append(work())
        discard(results[0])
        raise Stopped

    with Session(penstock.Catalog(tmp_path)) as session:
        monkeypatch.setattr(session_module, "interruptible", interrupted)
        with pytest.raises(Stopped):
            next(session.batches(f"SELECT * FROM {_LONG}"))
        monkeypatch.undo()
        assert session.query("SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_the_work_returns_its_result_or_its_error() -> None:
    assert interruptible(Connection(), lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        interruptible(Connection(), lambda: 1 // 0)


def test_another_thread_does_its_work_itself() -> None:
    workers: list[Thread] = []
    thread = Thread(target=lambda: workers.append(interruptible(Connection(), current_thread)))
    thread.start()
    ended(thread)
    assert workers == [thread]


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT count(*) FROM {_LONG}",
        f"CREATE TABLE copied AS SELECT id FROM {_LONG}",
        f"INSERT INTO t SELECT id, id FROM {_LONG}",
        f"DELETE FROM t WHERE id IN {_LONG}",
        f"MERGE INTO t USING {_LONG} s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ],
)
def test_an_interrupted_statement_changes_nothing(statement: str, tmp_path: Path) -> None:
    catalog = penstock.Catalog(tmp_path / "warehouse", {"local.sync": "false"})
    with Interpreter(catalog, "shop") as interpreter:
        list(interpreter.run("CREATE DATABASE shop; CREATE TABLE t (id BIGINT, v BIGINT); INSERT INTO t VALUES (1, 1)"))
        files = sorted((tmp_path / "warehouse").rglob("*"))
        with in_the_middle(), pytest.raises(Stopped):
            list(interpreter.run(statement))
        assert sorted((tmp_path / "warehouse").rglob("*")) == files
        [rows] = interpreter.run("SELECT count(*) AS rows FROM t")
        assert rows.to_pylist() == [{"rows": 1}]
