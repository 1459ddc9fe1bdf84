"""The sample of the log in the offsets: a server that does not show its log stops no pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import SourceError
from penstock.ingest.database.findings import ConnectionLost, MissingGrant
from penstock.ingest.patience import is_patient
from penstock.ingest.postgres import kept_sample
from penstock.ingest.postgres.errors import Diverged
from penstock.ingest.postgres.kept_sample import KeptSample
from penstock.ingest.postgres.offsets import PgProgress
from penstock.ingest.postgres.server.log_sample import LogSample
from penstock.ingest.postgres.server.server_identity import ServerIdentity

NOON, ONE = (ServerIdentity("77", "shop", 1, 5000, started) for started in ("noon", "one"))
SERVER: Any = SimpleNamespace(where="h:5432/shop")
LOST = ConnectionLost("lost", retryable=True, reason="exceeds max_wal_senders")
SENT: list[SourceError] = [LOST, MissingGrant("denied", reason="no pg_hba.conf entry")]


@dataclass
class Server:
    """What a server answers: an error, or the sample that it is asked for, None if it does not show it."""

    error: SourceError | None = None
    shows: bool = True
    asked: int = 0
    blank: int = 0  # the bytes before the position that are zeros
    seconds: float = 0.0
    kept: KeptSample = field(init=False)

    def __post_init__(self) -> None:
        self.kept = KeptSample(lambda: self.seconds)

    def sample(self, _: object, position: int, timeline: int) -> LogSample | None:
        self.require()
        last = position - self.blank
        return LogSample(last - 10, last, timeline, "new", "noon") if self.shows else None

    def require(self, *_: object) -> None:
        assert not is_patient()  # a plan would wait for a minute each time
        self.asked += 1
        if self.error is not None:
            raise self.error

    def taken(self, progress: PgProgress) -> PgProgress:
        return self.kept.taken(SERVER, progress)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()
    monkeypatch.setattr(kept_sample, "sample_before", found.sample)
    monkeypatch.setattr(kept_sample, "require_same_log", found.require)
    return found


def at(position: int, sample: LogSample | None = None) -> PgProgress:
    return PgProgress(server="77", database="shop", slot="slot", timeline=1, log=position, sample=sample)


def sample_at(position: int, started: str = "noon") -> LogSample:
    return LogSample(position - 10, position, 1, "old", started)


def test_sample_is_read_once_at_each_position(server: Server) -> None:
    first = server.taken(at(100, sample_at(50)))
    assert first.sample is not None
    assert (first.sample.last, server.asked) == (100, 1)
    assert (server.taken(first), server.asked) == (first, 1)


def test_sample_that_ends_before_its_position_is_read_once(server: Server) -> None:
    server.blank = 50
    first = server.taken(at(100, sample_at(30)))
    assert first.sample is not None
    assert (first.sample.last, server.asked) == (50, 1)
    assert (server.taken(first), server.asked) == (first, 1)
    assert KeptSample().taken(SERVER, first) == first  # in the next process, without a batch


def test_plan_that_is_made_again_has_the_same_sample(server: Server) -> None:
    server.blank = 50
    assert server.taken(at(100)).sample == server.taken(at(100)).sample
    assert server.taken(at(100, sample_at(30))).sample != sample_at(30)


@pytest.mark.parametrize("error", SENT, ids=["lost", "denied"])
def test_plan_keeps_the_former_sample_when_none_can_be_read(
    server: Server, error: SourceError, caplog: pytest.LogCaptureFixture
) -> None:
    server.error = error
    former = at(100, sample_at(50))
    assert [server.taken(former) for _ in range(3)] == [former] * 3
    assert (server.asked, len(caplog.messages)) == (1, 1)
    assert f"reason={error.facts['reason']}" in caplog.text
    server.error, server.seconds = None, 61
    assert server.taken(former).sample is not None


def test_server_that_does_not_show_its_log_is_tried_again_after_an_hour(server: Server) -> None:
    server.shows = False
    for seconds in range(0, 3601, 400):
        server.seconds = seconds
        assert server.taken(at(100, sample_at(50))).sample == sample_at(50)
    assert server.asked == 2


def test_sample_is_compared_although_a_newer_one_was_not_shown(server: Server) -> None:
    """Otherwise the tasks would compare it, each of them."""
    server.shows, former = False, at(100, sample_at(50))
    assert server.taken(former) == former
    assert server.kept.compared(SERVER, ONE, former).sample == sample_at(50, "one")


@pytest.mark.parametrize("error", SENT, ids=["lost", "denied"])
def test_sample_that_cannot_be_compared_after_a_restart_is_kept_and_compared_later(
    server: Server, error: SourceError, caplog: pytest.LogCaptureFixture
) -> None:
    server.error, former = error, at(100, sample_at(50))
    for _ in range(3):
        assert server.kept.compared(SERVER, ONE, former) == former
        assert server.taken(former) == former  # a new one would hide that the log is another
    assert (server.asked, len(caplog.messages)) == (1, 1)
    server.seconds = 59.9
    assert server.kept.compared(SERVER, ONE, former) == former
    server.error, server.seconds = None, 61
    assert server.taken(former) == former
    assert server.kept.compared(SERVER, ONE, former).sample == sample_at(50, "one")


def test_another_log_is_reported(server: Server) -> None:
    server.error = Diverged("another log")
    with pytest.raises(Diverged):
        server.kept.compared(SERVER, ONE, at(100, sample_at(100)))


def test_log_of_a_server_that_has_run_since_the_sample_is_not_read(server: Server) -> None:
    progress = at(100, sample_at(100))
    assert server.kept.compared(SERVER, NOON, progress) == progress
    assert server.kept.compared(SERVER, ONE, at(100)) == at(100)
    assert server.asked == 0
