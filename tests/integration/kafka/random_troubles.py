"""What may happen during a run of a random play: kills, calls that fail, and records that are sent meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.errors import PenstockError, SourceError
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.ingest.kafka.source import KafkaSource
from penstock.ingest.source import Range
from penstock.pipelines.driver.batch_driver import BatchDriver
from penstock.pipelines.driver.commit import Commits
from penstock.pipelines.ledger.batch_logs import BatchLogs
from penstock.storage.local import LocalStorage
from penstock.table.commit.committer import Committer
from tests.integration.failing_calls import Countdown, die

_KILLS: tuple[tuple[type, str], ...] = (
    (BatchLogs, "plan"),
    (BatchLogs, "finish"),
    (BatchDriver, "take"),
    (Commits, "commit"),
)
_RESTARTS = 0.03  # the share of runs in which the broker restarts, which takes seconds
_FILES = ("/checkpoint/", "/snapshot/", "/schema/", "/bucket-", "/manifest/")


@dataclass(frozen=True, slots=True)
class Troubles:
    """`change` changes topics during a run, `restart` restarts the broker.

    `parked` is the table whose commits fail, if tables may be parked, and `source` the class that reads.
    """

    draw: random.Random
    tell: Callable[[str], None]
    change: Callable[[], None]
    restart: Callable[[], None]
    parked: str | None = None
    source: Any = KafkaSource

    def happen(self, patch: pytest.MonkeyPatch) -> None:
        """Let one of them happen while the patches are valid, or none."""
        ways: list[Callable[[pytest.MonkeyPatch], None]] = [self._kill, self._kill_at_file, self._fail_file]
        ways += [self._fail_reading, self._change, lambda _: None]
        ways += [self._park] if self.parked else []
        if self.draw.random() < _RESTARTS:
            self._restart(patch)
        else:
            self.draw.choice(ways)(patch)

    def _kill(self, patch: pytest.MonkeyPatch) -> None:
        place, name = self.draw.choice(_KILLS)
        kill = Countdown(self.draw.randint(1, 3), die, after=self.draw.random() < 0.5)
        self.tell(f"killed {'after' if kill.after else 'before'} {name} {kill.left}")
        patch.setattr(place, name, kill.around(getattr(place, name)))

    def _kill_at_file(self, patch: pytest.MonkeyPatch) -> None:
        self._at_file(patch, die, "killed")

    def _fail_file(self, patch: pytest.MonkeyPatch) -> None:
        def fails() -> None:
            raise OSError(5, "Input/output error")

        self._at_file(patch, fails, "call fails")

    def _at_file(self, patch: pytest.MonkeyPatch, happens: Callable[[], None], what: str) -> None:
        place = self.draw.choice(_FILES)
        count = Countdown(self.draw.randint(1, 8), happens, after=self.draw.random() < 0.5)
        self.tell(f"{what} at file {count.left} of {place}, after={count.after}")
        for name in ("write", "create", "delete"):
            function = getattr(LocalStorage, name)
            counted = count.around(function)

            def chosen(*args: Any, _plain: Any = function, _counted: Any = counted, **kwargs: Any) -> Any:
                return (_counted if place in args[1] else _plain)(*args, **kwargs)

            patch.setattr(LocalStorage, name, chosen)

    def _fail_reading(self, patch: pytest.MonkeyPatch) -> None:
        def fails() -> None:
            raise SourceError("no records", retryable=True)

        failure = Countdown(self.draw.randint(1, 5), fails)
        self.tell(f"reading {failure.left} fails")
        at_chunk, whole = failure.around(lambda: None), self.source.read

        def read(self: Any, range_: Range) -> Iterator[FetchedMessages]:
            for fetched in whole(self, range_):
                at_chunk()
                yield fetched

        patch.setattr(self.source, "read", read)

    def _change(self, patch: pytest.MonkeyPatch) -> None:
        def happens() -> None:
            self.tell("meanwhile")
            self.change()

        change = Countdown(self.draw.randint(1, 5), happens)
        patch.setattr(self.source, "read", change.around(self.source.read))

    def _restart(self, patch: pytest.MonkeyPatch) -> None:
        def happens() -> None:
            self.tell("the broker restarts")
            self.restart()

        restart = Countdown(self.draw.randint(1, 3), happens)
        patch.setattr(self.source, "read", restart.around(self.source.read))

    def _park(self, patch: pytest.MonkeyPatch) -> None:
        self.tell(f"commits to {self.parked} fail")
        commit, parked = Committer.commit, self.parked

        def fails(self: Committer, *given: Any, **named: Any) -> Any:
            if self.store.name == parked:
                raise PenstockError("the table is broken")
            return commit(self, *given, **named)

        patch.setattr(Committer, "commit", fails)
