"""Parts of a table are read again while a session changes its rows, and the pipeline crashes now and then."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from tests.waiting import until

Change = Callable[[list[int], str], object]  # adds 1 to `n` and sets `v` in the rows with these ids
CONDITIONS = ("v = 'a'", "v <> 'a' and id > 20")
ROWS = 120


class CrashError(Exception):
    """The end of a run at a random batch."""


class Writer(threading.Thread):
    """A session that changes random rows, so that they meet a condition on `v`, or do so no longer."""

    def __init__(self, session: Callable[[], AbstractContextManager[Change]]) -> None:
        super().__init__()
        self.session, self.random, self.stopped = session, random.Random(6), threading.Event()
        self.changes = 0

    def run(self) -> None:
        with self.session() as change:
            while not self.stopped.wait(0.002):
                ids = [self.random.randrange(ROWS) for _ in range(3)]
                change(ids, self.random.choice("ab"))
                self.changes += 1


def read_parts(
    session: Callable[[], AbstractContextManager[Change]],
    request: Callable[[str, int], object],
    run: Callable[[Callable[..., None]], object],
) -> None:
    """Request a part four times while rows change. `run` is passed what to call for each batch."""
    crashes, writer = random.Random(5), Writer(session)

    def crash(*_: object) -> None:
        if crashes.random() < 0.3:
            raise CrashError

    writer.start()
    try:
        for number in range(4):
            request(CONDITIONS[number % 2], number)
            until(lambda number=number: writer.changes > 10 * number, "changes of the writer")  # type: ignore[misc]
            try:
                run(crash)
            except CrashError:
                continue
    finally:
        writer.stopped.set()
        writer.join()


def expect_each_change_once(rows: Iterable[Mapping[str, Any]]) -> None:
    """Compare a table with all versions of its rows: each update adds 1, so one set back, repeated or lost shows."""
    versions: dict[int, list[int]] = {}
    for row in rows:
        versions.setdefault(row["id"], []).append(row["n"])
    assert {key: sorted(numbers) for key, numbers in versions.items()} == {
        key: list(range(max(numbers) + 1)) for key, numbers in versions.items()
    }
    assert sum(map(len, versions.values())) > 130
