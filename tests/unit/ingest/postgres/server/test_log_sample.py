"""Samples of the log: what is compared after a restart, and what a server that shows no log means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import SourceError
from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.postgres.errors import Diverged, SlotLost
from penstock.ingest.postgres.received import Received
from penstock.ingest.postgres.server import log_sample
from penstock.ingest.postgres.server.log_sample import LogSample, require_same_log, sample_before
from penstock.ingest.postgres.server.lsn import parse_lsn
from penstock.ingest.postgres.server.server_identity import ServerIdentity

SEGMENT = 16 << 20
POSITION = 2 * SEGMENT + 100_000
IDENTITY = ServerIdentity("77", "shop", 2, POSITION + 5000, "noon")


@dataclass
class Server:
    """A server with a log, which it sends in messages of this size, up to its end."""

    log: bytes = bytes(range(250)) * 200_000
    started: str = "noon"
    end: int = POSITION + 5000
    size: int = 9000
    error: SourceError | None = None
    is_open: bool = True
    asked: list[tuple[int, int]] = field(default_factory=list)
    server: Any = field(default_factory=lambda: SimpleNamespace(where="h:5432/shop"))
    _next: int = 0

    def rows(self, sql: str) -> list[tuple[str, str]]:
        assert "pg_postmaster_start_time" in sql
        return [(self.started, str(SEGMENT))]

    def fact(self, sql: str) -> tuple[str, str]:
        return self.rows(sql)[0]

    def start_stream(self, statement: str) -> Server:
        if self.error is not None:
            raise self.error
        *words, first, _, timeline = statement.split()
        assert words == ["START_REPLICATION", "PHYSICAL"]
        self._next = parse_lsn(first)
        self.asked.append((self._next, int(timeline)))
        return self

    def received(self, _: Server, wait_s: float) -> Received:
        assert wait_s < 1
        data = self.log[self._next : min(self._next + self.size, self.end)]
        self._next += len(data)
        self.is_open = self._next < self.end
        keepalive = b"k" + bytes(17)
        return Received.of([keepalive, b"w" + bytes(24) + data] if data else [keepalive])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = Server()

    @contextmanager
    def connected(address: object, *, replication: bool) -> Iterator[Server]:
        assert replication
        assert address is found.server
        yield found

    monkeypatch.setattr(log_sample, "connected", connected)
    return found


def sampled(server: Any) -> LogSample:
    found = sample_before(server, POSITION, 2)
    assert found is not None
    return found


def test_sample_is_of_the_bytes_before_the_position(server: Any) -> None:
    found = sampled(server)
    assert (found.first, found.last, found.timeline, found.started) == (POSITION - (16 << 10), POSITION, 2, "noon")
    assert server.asked == [(found.first, 2)]
    assert LogSample.from_json(found.to_json()) == found
    server.size = 50  # of the messages
    assert sampled(server) == found


@pytest.mark.parametrize(("beyond", "bytes_"), [(0, 16 << 10), (1, 1), (300, 300), (16 << 10, 16 << 10)])
def test_sample_is_of_one_file_of_the_log(server: Any, beyond: int, bytes_: int) -> None:
    found = sample_before(server, SEGMENT + beyond, 1)
    assert found is not None
    assert found.last - found.first == bytes_


@pytest.mark.parametrize("records", [24, 5000, 20_000, 100_000, SEGMENT - 20_000])
def test_sample_after_a_change_of_the_file_is_of_the_last_records_in_it(server: Any, records: int) -> None:
    """The rest of the file is zeros in any log."""
    end = SEGMENT + records
    server.log = server.log[: end - 1] + b"\x01" + bytes(2 * SEGMENT - end) + server.log[2 * SEGMENT :]
    found = sample_before(server, 2 * SEGMENT, 1)
    assert found is not None
    assert (found.first, found.last) == (max(SEGMENT, end - (16 << 10)), end)
    server.log = server.log[: end - 1] + b"\x02" + server.log[end:]
    with pytest.raises(Diverged, match="is not the log of the server"):
        require_same_log(server.server, replace(IDENTITY, started="one"), found)


def test_file_of_zeros_is_no_sample(server: Any, caplog: pytest.LogCaptureFixture) -> None:
    server.log = bytes(3 * SEGMENT)
    assert sample_before(server, 2 * SEGMENT, 1) is None
    assert "event=log_not_compared position=0/2000000 reason=the bytes before the position are zeros" in caplog.text


@pytest.mark.parametrize("place", [POSITION - (16 << 10), POSITION - 9000, POSITION - 1])
def test_other_bytes_before_the_position_are_reported_after_a_restart(server: Any, place: int) -> None:
    sample = sampled(server)
    server.log = server.log[:place] + b"\xff" + server.log[place + 1 :]
    server.asked.clear()
    require_same_log(server.server, IDENTITY, sample)
    assert not server.asked  # a server that has run since then is not asked
    with pytest.raises(Diverged, match="is not the log of the server") as caught:
        require_same_log(server.server, replace(IDENTITY, started="one"), sample)
    assert "--resnapshot" in (caught.value.hint or "")
    assert server.asked == [(sample.first, 2)]


@pytest.mark.parametrize("place", [POSITION - (16 << 10) - 1, POSITION])
def test_bytes_elsewhere_do_not_matter(server: Any, place: int) -> None:
    sample = sampled(server)
    server.log = server.log[:place] + b"\xff" + server.log[place + 1 :]
    require_same_log(server.server, replace(IDENTITY, started="one"), sample)


@pytest.mark.parametrize(
    "refusal", [SourceError("no", reason="permission denied"), SlotLost("removed", reason="already been removed")]
)
def test_server_that_shows_no_log_is_named_and_read(
    server: Any, refusal: SourceError, caplog: pytest.LogCaptureFixture
) -> None:
    sample = sampled(server)
    server.error = refusal
    assert sample_before(server, POSITION, 2) is None
    require_same_log(server.server, replace(IDENTITY, started="one"), sample)
    lines = [one for one in caplog.messages if "event=log_not_compared" in one]
    assert len(lines) == 2
    assert all(str(refusal.facts["reason"]) in one for one in lines)


def test_server_that_ends_the_log_early_is_named_and_read(server: Any, caplog: pytest.LogCaptureFixture) -> None:
    server.end = POSITION - 10
    assert sample_before(server, POSITION, 2) is None
    assert "reason=10 bytes were not sent" in caplog.text


def test_connection_that_is_lost_is_tried_again(server: Any) -> None:
    sample = sampled(server)
    server.error = ConnectionLost("lost", retryable=True)
    with pytest.raises(ConnectionLost):
        sample_before(server, POSITION, 2)
    with pytest.raises(ConnectionLost):
        require_same_log(server.server, replace(IDENTITY, started="one"), sample)


def test_sample_of_another_server_than_the_position_is_none(server: Any) -> None:
    before: Any = Server(started="one", server=server.server)
    with pytest.raises(ConnectionLost, match="another server") as caught:
        sample_before(before, POSITION, 2)
    assert caught.value.retryable
