"""Plans that are repeated, and what a source over a database sends to tasks."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from penstock.errors import SourceError
from penstock.ingest.database.settings import CapturedTables, DatabaseSettings, RereadRequests
from penstock.ingest.database.source import DatabaseSource
from penstock.ingest.patience import patience_unless
from penstock.ingest.source import Limit, Offsets
from penstock.storage.state_folder import StateFolder


@dataclass(frozen=True)
class Server:
    patience: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Settings(DatabaseSettings[Server]):
    @property
    def reads_tables(self) -> bool:
        return True


@dataclass
class State:
    log: int

    def to_json(self) -> Offsets:
        return {"server": "s", "log": self.log}


class Planner:
    at_barrier = False

    def begin(self) -> State:
        return State(10)

    def next(self, before: State, limit: Limit, until: int | None) -> State | None:
        if Source.failures:
            raise Source.failures.pop()
        end = before.log + 5 if until is None else min(until, before.log + 5)
        return State(end) if end > before.log else None


class Source(DatabaseSource[Settings, Planner]):
    failures: ClassVar[list[SourceError]] = []
    planners = 0

    def new_planner(self) -> Planner:
        Source.planners += 1
        return Planner()

    def progress_at(self, offsets: Offsets) -> State:
        return State(offsets["log"])

    def position_at(self, offsets: Offsets) -> Any:
        return offsets["log"]


@pytest.fixture
def source() -> Source:
    Source.failures, Source.planners = [], 0
    settings = Settings(server=Server(), tables=CapturedTables(), requests=RereadRequests(StateFolder("/requests")))
    return Source(settings)


def test_batch_without_a_checkpoint_begins_where_the_planner_says(source: Source) -> None:
    assert source.initial_offsets() == {}
    assert source.latest_offsets({}, Limit()) == {"server": "s", "log": 15}


def test_nothing_to_read_returns_the_start(source: Source) -> None:
    start = {"server": "s", "log": 7, "batch": {}}
    assert source.latest_offsets(start, Limit(), {"log": 7}) is start
    assert source.latest_offsets({}, Limit(), {"log": 10}) == {"server": "s", "log": 10}


def test_plan_that_failed_for_a_moment_is_repeated_by_a_new_planner(source: Source) -> None:
    Source.failures = [SourceError("busy", retryable=True), SourceError("busy", retryable=True)]
    assert source.latest_offsets({}, Limit()) == {"server": "s", "log": 15}
    assert Source.planners == 3


def test_third_failure_and_one_that_stays_are_raised(source: Source) -> None:
    Source.failures = [SourceError("busy", retryable=True) for _ in range(3)]
    with pytest.raises(SourceError, match="busy"):
        source.latest_offsets({}, Limit())
    Source.failures = [SourceError("never"), SourceError("wrong")]
    with pytest.raises(SourceError, match="wrong"):
        source.latest_offsets({}, Limit())
    assert len(Source.failures) == 1


def test_a_plan_that_failed_after_a_stop_is_not_repeated(source: Source, caplog: pytest.LogCaptureFixture) -> None:
    Source.failures = [SourceError("away", retryable=True) for _ in range(2)]
    with patience_unless(lambda: True), pytest.raises(SourceError, match="away"):
        source.latest_offsets({}, Limit())
    assert (len(Source.failures), caplog.text) == (1, "")


def test_tasks_get_the_settings_without_the_planner(source: Source) -> None:
    assert source.planner is source.planner
    copied = pickle.loads(pickle.dumps(source))
    assert copied.settings == source.settings
    assert copied._planner is None
    source.close()
    assert source._planner is None
