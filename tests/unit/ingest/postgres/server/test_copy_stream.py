"""Data of COPY and of the log, read from a socket: however it is cut, and whatever the server says in between."""

from __future__ import annotations

import fcntl
import random
import resource
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pytest

from penstock.ingest.postgres.received import Received
from penstock.ingest.postgres.server import copy_stream
from penstock.ingest.postgres.server.copy_frames import HEAD, data_frames
from penstock.ingest.postgres.server.copy_stream import SocketStream
from penstock.ingest.postgres.server.silence import ServerRefused, Silence
from penstock.ingest.postgres.server.waits import is_ready
from tests.waiting import LIMIT_S, at_most, ended


def frame(kind: bytes, body: bytes = b"") -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


OPEN, ENDED, READY = frame(b"H", b"\1\0\0"), frame(b"c") + frame(b"C", b"COPY 2\0"), frame(b"Z", b"I")
NOTICE = frame(b"N", b"SNOTICE\0Mlook\0\0")
ERROR = frame(b"E", b"SERROR\0VERROR\0C42P01\0Mno such table\0\0")


def bodies(found: Received) -> list[bytes]:
    return [found.body(number) for number in range(len(found))]


@contextmanager
def answered(*parts: bytes, asks: bytes = b"COPY t\0") -> Iterator[SocketStream]:
    """Yield a stream whose server reads the statement, sends these parts one by one, and closes the connection."""
    ours, servers = socket.socketpair()
    ours.setblocking(False)

    def serve() -> None:
        with servers:
            asked = servers.recv(1 << 16)
            assert asked == frame(b"Q", asks)
            with suppress(BrokenPipeError, ConnectionResetError):  # the reader may have seen enough
                for part in parts:
                    servers.sendall(part)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    stream = SocketStream(ours, Silence(lambda: None))
    try:
        yield stream
    finally:
        stream.close()
        ended(thread)


def all_read(stream: SocketStream, least: int) -> list[bytes]:
    stream.start("COPY t")
    found = []
    while stream.is_open:
        found += bodies(stream.read(least))
    return found


def messages(chance: random.Random, count: int) -> list[bytes]:
    """Return messages full of what looks like the beginning of a frame."""
    pieces = [
        b"d",
        b"\0",
        b"\0\0\0\7",
        b"d\0\0\0\5x",
        b"d\0\0\0\3",
        b"d\0\0\1\0",
        b"Z\0\0\0\5I",
        b"word",
        bytes(90),
        b"E\0\0\0\4",
    ]
    return [b"".join(chance.choices(pieces, k=chance.randrange(6))) for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_messages_are_found_in_pieces_of_any_size(seed: int) -> None:
    chance = random.Random(seed)
    sent = messages(chance, chance.choice((0, 1, 5, 300)))
    data = OPEN + b"".join(frame(b"d", data) for data in sent)
    for _ in range(chance.randrange(3)):
        data = NOTICE + data
    data += ENDED + READY + chance.choice((b"", NOTICE))
    sizes = chance.choice(((1, 3), (1, 40), (500, 5000)))
    parts, rest = [], data
    while rest:
        size = chance.randint(*sizes)
        parts.append(rest[:size])
        rest = rest[size:]
    with answered(*parts) as stream:
        assert all_read(stream, chance.choice((1, 100, 1 << 20))) == sent


def test_notices_between_messages_are_passed_over() -> None:
    data = OPEN + frame(b"d", b"one") + NOTICE + frame(b"S", b"a\0b\0") + frame(b"d", b"two") + ENDED + READY
    with answered(data) as stream:
        assert all_read(stream, 1 << 20) == [b"one", b"two"]


@pytest.mark.slow
def test_messages_larger_than_the_buffer_are_read() -> None:
    large = [bytes([number]) * (9 << 20) for number in (1, 2)]
    with answered(
        OPEN + b"".join(frame(b"d", content) for content in large), frame(b"d", b"3") + ENDED + READY
    ) as stream:
        assert all_read(stream, 1000) == [*large, b"3"]
    huge = bytes(17 << 20)  # the first byte of its length is not zero
    with answered(OPEN + frame(b"d", huge) + frame(b"d", b"3"), ENDED + READY) as stream:
        assert all_read(stream, 1000) == [huge, b"3"]


def test_an_error_has_its_state_and_the_next_statement_is_read_from_its_beginning() -> None:
    with answered(ERROR + READY) as stream, pytest.raises(ServerRefused) as caught:
        stream.start("COPY t")
    assert (caught.value.state, caught.value.text) == ("42P01", "no such table")
    data = OPEN + frame(b"d", b"one") + ERROR + READY
    with answered(data) as stream, pytest.raises(ServerRefused, match="42P01"):
        all_read(stream, 1 << 20)


@pytest.mark.parametrize("cut", range(1, 30, 4))
def test_a_connection_that_is_closed_is_an_error(cut: int) -> None:
    data = OPEN + frame(b"d", b"one") + frame(b"d", b"two") + ENDED
    with answered(data[:cut]) as stream, pytest.raises(ServerRefused, match="closed the connection"):
        all_read(stream, 1 << 20)


def test_the_reason_of_a_closed_connection_is_in_the_error() -> None:
    fatal = frame(b"E", b"SFATAL\0C57P01\0Mterminating connection\0\0")
    for data in (fatal, OPEN + fatal, OPEN + frame(b"d", b"one") + fatal):
        with answered(data) as stream, pytest.raises(ServerRefused, match="57P01"):
            all_read(stream, 1 << 20)


@pytest.mark.parametrize(
    "garbage", [b"HTTP/1.1 400 Bad", b"\0" * 20, b"E\xff\xff\xff\xff", b"N\0\0\0\0", b"d\xff\0\0\0", b"d\0\0\0\3abc"]
)
def test_answers_of_other_protocols_are_errors(garbage: bytes) -> None:
    for data in (garbage, OPEN + garbage):
        with answered(data) as stream, pytest.raises(ServerRefused, match="not of the protocol"):
            all_read(stream, 1 << 20)


@pytest.mark.slow
def test_the_log_is_read_as_it_arrives() -> None:
    both = frame(b"W", b"\1\0\0")
    ours, servers = socket.socketpair()
    ours.setblocking(False)
    with servers:
        stream = SocketStream(ours, Silence(lambda: None))
        servers.sendall(both + frame(b"d", b"kept"))
        stream.start("START")
        with at_most(LIMIT_S / 2):
            assert bodies(stream.read_now(LIMIT_S)) == [b"kept"]  # it came with the answer
        assert bodies(stream.read_now(0.01)) == []
        stream.send(b"r position")
        assert servers.recv(1000) == frame(b"Q", b"START\0") + frame(b"d", b"r position")
        servers.sendall(frame(b"d", b"one") + frame(b"d", b"two")[:4])
        assert bodies(stream.read_now(LIMIT_S)) == [b"one"]
        servers.sendall(frame(b"d", b"two")[4:] + frame(b"c"))
        assert bodies(stream.read_now(LIMIT_S)) == [b"two"]
        assert not stream.is_open
        stream.close()


@contextmanager
def connected_by_tcp(least_number: int = 0) -> Iterator[tuple[SocketStream, socket.socket]]:
    """Yield a stream, whose descriptor has at least this number, and the server's end of its connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with socket.create_connection(listening.getsockname()) as first:
            ours = socket.socket(fileno=fcntl.fcntl(first, fcntl.F_DUPFD_CLOEXEC, least_number))
        servers, _ = listening.accept()
    ours.setblocking(False)
    stream = SocketStream(ours, Silence(lambda: None))
    with servers:
        servers.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield stream, servers
    stream.close()


def test_many_small_messages_are_read_in_few_readings_and_blocks_are_not_copied() -> None:
    count = 30_000
    parts = [frame(b"d", b"%5d" % number + bytes(95)) for number in range(count)]
    with connected_by_tcp() as (stream, servers):

        def serve() -> None:
            for part in parts:
                servers.sendall(part)  # by itself, as the server does

        servers.sendall(frame(b"W", b"\1\0\0"))
        stream.start("START")
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        found: list[Received] = []
        while sum(map(len, found)) < count:
            found.append(stream.read_now(LIMIT_S))
        ended(thread)
        together = Received.joined(found)
        assert [body[:5] for body in bodies(together)] == [b"%5d" % number for number in range(count)]
        assert len(found) < count / 100
        assert together.data is found[0].data  # 3 MB are less than a buffer
        assert all(batch.data is found[0].data for batch in found)


@pytest.mark.parametrize("read", ["read", "read_now"])
def test_libpq_may_wait_for_one_byte_afterwards(read: str) -> None:
    with connected_by_tcp() as (stream, servers):
        servers.sendall(OPEN + frame(b"d", b"one"))
        stream.start("COPY t")
        assert bodies(stream.read_now(0.1)) == [b"one"]  # it came with the answer
        servers.sendall(frame(b"d", b"two") + ENDED + READY)
        assert bodies(stream.read_now(LIMIT_S) if read == "read_now" else stream.read(1 << 20)) == [b"two"]
        servers.sendall(b"Z")
        assert is_ready(stream.socket.fileno(), select.POLLIN, 1.0)


@pytest.fixture
def many_open_files() -> Iterator[None]:
    """Let this process have descriptors with numbers from 1024 on, which select() does not take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("this machine allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_open_files")
def test_a_process_may_have_many_open_files() -> None:
    with connected_by_tcp(least_number=1024) as (stream, servers):
        assert stream.socket.fileno() >= 1024
        threading.Timer(0.1, servers.sendall, (OPEN + frame(b"d", b"one"),)).start()
        stream.start("COPY t")
        assert bodies(stream.read_now(0.1)) == [b"one"]  # it came with the answer
        threading.Timer(0.1, servers.sendall, (frame(b"d", b"two") + ENDED + READY,)).start()
        assert bodies(stream.read(1 << 20)) == [b"two"]


def test_messages_are_not_changed_by_later_ones() -> None:
    with connected_by_tcp() as (stream, servers):
        servers.sendall(frame(b"W", b"\1\0\0"))
        stream.start("START")
        kept: list[Received] = []
        sent = [bytes([number]) * (400 << 10) for number in range(40)]  # of three buffers
        for content in sent:
            thread = threading.Thread(target=servers.sendall, args=(frame(b"d", content),), daemon=True)
            thread.start()
            while sum(map(len, kept)) <= content[0]:
                kept.append(stream.read_now(LIMIT_S))
            ended(thread)
        assert [body for part in kept for body in bodies(part)] == sent
        assert bodies(Received.joined(kept)) == sent
        assert len({id(batch.data) for batch in kept}) > 2


def test_a_server_that_always_sends_a_little_delays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_stream, "_GATHERED_S", LIMIT_S)  # no message comes so late after the one before it
    over = threading.Event()
    with connected_by_tcp() as (stream, servers):

        def serve() -> None:
            while not over.wait(0.001):  # a reading without an end gathers them for more than a minute
                servers.sendall(frame(b"d", b"a little"))

        servers.sendall(frame(b"W", b"\1\0\0"))
        stream.start("START")
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            assert 0 < stream.read_now(LIMIT_S).size < copy_stream._READ_BYTES // 4
        finally:
            over.set()
            ended(thread)


def followed(data: bytes, filled: int) -> tuple[list[int], int]:
    found, place = [], 0
    while place + HEAD <= filled and data[place : place + 1] == b"d":
        end = place + 1 + int.from_bytes(data[place + 1 : place + HEAD], "big")
        if not place + HEAD <= end <= filled:
            break
        found.append(place)
        place = end
    return found, place


@pytest.mark.parametrize("seed", range(200))
def test_frames_are_the_ones_that_follow_each_other(seed: int) -> None:
    chance = random.Random(seed)
    data = b"".join(frame(b"d", message) for message in messages(chance, chance.randrange(8))) + chance.choice(
        (b"", READY)
    )
    filled = chance.randint(0, len(data))
    places, after = data_frames(np.frombuffer(data + bytes(8), np.uint8), filled)
    assert (places.tolist(), after) == followed(data, filled)


def test_a_buffer_that_the_first_reading_fills_does_not_end_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, data = frame(b"W", b"\1\0\0"), frame(b"d", bytes(91))
    monkeypatch.setattr(copy_stream, "_READ_BYTES", 200)
    monkeypatch.setattr(copy_stream, "_BUFFER_BYTES", len(opened) + 10 * len(data))
    ours, servers = socket.socketpair()
    ours.setblocking(False)
    with servers:
        servers.sendall(opened + 10 * data)
        stream = SocketStream(ours, Silence(lambda: None))
        stream.start("START")
        assert len(stream.read_now(0.01)) == 10
        assert len(stream.read_now(0.01)) == 0
        servers.sendall(data)
        assert len(stream.read_now(LIMIT_S)) == 1
    stream.close()


def test_a_server_that_reads_no_byte_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_stream, "_WRITE_S", 0.1)
    ours, servers = socket.socketpair()
    ours.setblocking(False)
    stream = SocketStream(ours, Silence(lambda: None))
    with servers, pytest.raises(TimeoutError, match="reads no byte"):
        stream.send(b"x" * (64 << 20))
    stream.close()
