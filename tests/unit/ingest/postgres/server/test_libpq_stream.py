"""Answers that libpq has read in part: the rest of a TLS record is not on the socket any more."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import pytest

from penstock.ingest.postgres.server import libpq_stream
from penstock.ingest.postgres.server.libpq_stream import LibpqStream, run
from penstock.ingest.postgres.server.silence import Silence

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn


class Result:
    status = 1  # a command that returns no data has succeeded


class PartlyRead:
    """A connection on which libpq holds the rest of a record, which it hands out when it is asked to read."""

    def __init__(self, descriptor: int) -> None:
        self.socket, self.held, self.results = descriptor, 2, [Result(), None]

    def send_query(self, _: bytes) -> None: ...

    def consume_input(self) -> None:
        self.held -= 1

    def is_busy(self) -> bool:
        return self.held > 0

    def get_result(self) -> Result | None:
        return self.results.pop(0)

    def get_copy_data(self, _: int) -> tuple[int, bytes]:
        return (0, b"") if self.held > 0 else (-1, b"") if self.held < 0 else (self._take(), b"row")

    def _take(self) -> int:
        self.held = -1
        return 3


@pytest.fixture
def raw() -> Iterator[PGconn]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield cast("PGconn", PartlyRead(ours.fileno()))


@pytest.fixture
def silence() -> Silence:
    return Silence(lambda: "the server has sent what it has", 3600.0)


def test_the_result_of_a_query_is_complete_without_another_byte(raw: PGconn, silence: Silence) -> None:
    run(raw, "SELECT 1", silence)


def test_the_rows_of_a_copy_are_complete_without_another_byte(raw: PGconn, silence: Silence) -> None:
    assert len(LibpqStream(raw, silence, is_open=True).read(1)) == 1


def test_a_message_of_the_log_is_complete_without_another_byte(raw: PGconn, silence: Silence) -> None:
    stream = LibpqStream(raw, silence, is_open=True)
    raw.consume_input()
    assert len(stream.read_now(0.0)) == 1


class Unsent:
    """A connection to a server that reads nothing; it may go on to send."""

    def __init__(self, ours: socket.socket) -> None:
        self.ours, self.socket, self.nonblocking, self.unsent = ours, ours.fileno(), 0, b""

    def put_copy_data(self, data: bytes) -> None:
        self.unsent = data

    def flush(self) -> int:
        assert self.nonblocking, "libpq waits without end"
        try:
            self.unsent = self.unsent[self.ours.send(self.unsent, socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            return 1
        return int(bool(self.unsent))

    def consume_input(self) -> None: ...


@pytest.mark.parametrize("sends", [False, True], ids=["silent", "sends"])
def test_a_server_that_reads_no_byte_ends_the_stream(
    monkeypatch: pytest.MonkeyPatch, silence: Silence, sends: bool
) -> None:
    monkeypatch.setattr(libpq_stream, "_WRITE_S", 0.1)
    ours, servers = socket.socketpair()
    with ours, servers:
        if sends:
            servers.send(b"x")
        began = time.monotonic()
        with pytest.raises(TimeoutError, match="reads no byte"):
            LibpqStream(cast("PGconn", Unsent(ours)), silence, is_open=True).send(b"x" * (64 << 20))
        assert time.monotonic() - began >= 0.1


def test_a_report_that_the_server_accepts_leaves_libpq_as_it_was(silence: Silence) -> None:
    ours, servers = socket.socketpair()
    with ours, servers:
        raw = Unsent(ours)
        LibpqStream(cast("PGconn", raw), silence, is_open=True).send(b"report")
        assert (servers.recv(100), raw.nonblocking) == (b"report", 0)
