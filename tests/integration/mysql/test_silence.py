"""Connections that end, or stay open and carry nothing more: as after a device in between forgot them."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.mysql.binlog.dump import dumping
from penstock.ingest.mysql.binlog.event_stream import DumpRequest
from penstock.ingest.mysql.server.address import ServerAddress
from penstock.ingest.mysql.server.connection import connected
from penstock.ingest.mysql.server.login import GuardedConnection
from penstock.ingest.mysql.server.wire import read_timeout
from penstock.ingest.mysql.snapshot.chunk import Chunk
from penstock.ingest.mysql.snapshot.read import SnapshotOptions, chunk_batches
from tests.chaos.proxy import Proxy, proxied
from tests.integration.mysql.playground import DATABASE, Playground

SMALL = 1 << 16


def with_rows(server: Playground) -> None:
    """A table of several blocks."""
    server.run("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
    server.run(*(f"INSERT INTO t VALUES ({number}, REPEAT('x', 1000000))" for number in range(20)))


def dump_while_silent(address: ServerAddress, proxy: Proxy, request: DumpRequest) -> None:
    with dumping(address, request) as segments:
        next(segments)
        proxy.hush()
        list(segments)


def read_while_silent(address: ServerAddress, proxy: Proxy) -> None:
    with connected(address) as connection:
        rows = chunk_batches(connection, Chunk(DATABASE, "t", 0), SnapshotOptions(block_bytes=SMALL))
        next(rows)
        read_timeout(connection, 1)
        proxy.hush()
        list(rows)


def test_a_dump_from_a_silent_server_is_a_lost_connection(server: Playground) -> None:
    start = server.here()
    with_rows(server)
    request = DumpRequest(start, 6061, block_bytes=SMALL, silence_s=1.5)
    # No other limit ends the wait before the test is over.
    address = replace(server.address, read_timeout=3600)
    with proxied(server.port) as proxy, pytest.raises(ConnectionLost) as caught:
        dump_while_silent(replace(address, port=proxy.port), proxy, request)
    assert caught.value.retryable
    assert caught.value.facts["position"] == start


def test_a_dump_continues_after_a_pause_of_the_server(server: Playground) -> None:
    start = server.here()
    with_rows(server)
    request = DumpRequest(start, 6061, block_bytes=SMALL, heartbeat_s=0.2)
    with proxied(server.port) as proxy, dumping(replace(server.address, port=proxy.port), request) as segments:
        next(segments)
        proxy.pause(2)
        assert list(segments)[-1].after == server.here().pos


def test_a_connection_that_fails_between_rows_of_a_chunk_is_a_lost_connection(server: Playground) -> None:
    with_rows(server)
    with proxied(server.port) as proxy:
        address = replace(server.address, port=proxy.port)
        with pytest.raises(ConnectionLost) as caught:
            read_while_silent(address, proxy)
    assert caught.value.retryable


def test_the_operating_system_probes_a_connection_that_waits_for_rows(server: Playground) -> None:
    with connected(server.address) as connection:
        assert isinstance(connection, GuardedConnection)
        probed = connection._sock
        assert probed.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        waits = [
            probed.getsockopt(socket.IPPROTO_TCP, option) for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL)
        ]
    assert waits == [60, 15]
