"""Connections that stay open and carry nothing more, beside servers that need long for a statement."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest

from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.postgres.server import silence
from penstock.ingest.postgres.server.address import PgAddress
from penstock.ingest.postgres.server.connection import PgConnection, connected
from tests.chaos.proxy import Proxy, proxied
from tests.integration.postgres.sync import DATABASE, PgPlayground
from tests.integration.postgres.test_connection import address, encrypting
from tests.waiting import LIMIT_S, ended, until

pytestmark = pytest.mark.postgres
MODES = ["disable", "require"]
LONG = "SELECT n, repeat('x', 1000) FROM generate_series(1, 100000) n"


@pytest.fixture
def proxy(server: PgPlayground, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    monkeypatch.setattr(silence, "_LONGEST_S", 0.5)
    with encrypting(server), proxied(server.port) as found:
        yield found


def through(server: PgPlayground, proxy: Proxy, mode: str) -> PgAddress:
    return replace(address(server), port=proxy.port, options=(("sslmode", mode),))


def copy_and_hush(connection: PgConnection, proxy: Proxy) -> None:
    blocks = connection.copied(LONG, 1 << 16)
    next(blocks)
    proxy.hush()
    for _ in blocks:
        pass


@pytest.mark.parametrize("mode", MODES)
def test_a_copy_whose_rows_do_not_come_is_a_lost_connection(server: PgPlayground, proxy: Proxy, mode: str) -> None:
    with pytest.raises(ConnectionLost) as caught, connected(through(server, proxy, mode)) as connection:
        copy_and_hush(connection, proxy)
    assert caught.value.retryable
    assert "the server has sent what it has" in caught.value.facts["reason"]
    assert str(caught.value.facts["statement"]).startswith("COPY")


def ask_while_silent(connection: PgConnection, proxy: Proxy, *, all_connections: bool) -> None:
    if all_connections:
        connection.server = replace(connection.server, connect_timeout=2)
        connection.wait_for_slow_statements()  # whose connections have this limit
        proxy.pause(60)
    else:
        proxy.hush()
    connection.rows("SELECT 1")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("all_connections", [False, True])
def test_a_query_whose_answer_does_not_come_is_a_lost_connection(
    server: PgPlayground, proxy: Proxy, mode: str, *, all_connections: bool
) -> None:
    with pytest.raises(ConnectionLost) as caught, connected(through(server, proxy, mode)) as connection:
        ask_while_silent(connection, proxy, all_connections=all_connections)
    expected = "another connection fails too" if all_connections else "the server has sent what it has"
    assert expected in caught.value.facts["reason"]


@contextmanager
def lock_until_asked(server: PgPlayground, caplog: pytest.LogCaptureFixture, times: int) -> Iterator[str]:
    """Hold a lock until the server was asked so often what a statement does; yields the call that waits for it."""
    place = f"host=127.0.0.1 port={server.port} user=postgres dbname={DATABASE}"
    with psycopg.connect(place, autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(%s)", [times])

        def release() -> None:
            until(lambda: caplog.text.count("event=slow_statement") >= times, "the questions to the server")
            holder.execute("SELECT pg_advisory_unlock(%s)", [times])

        thread = threading.Thread(target=release)
        thread.start()
        yield f"pg_advisory_lock({times})"
        ended(thread)


@pytest.mark.parametrize("mode", MODES)
def test_a_slow_statement_is_waited_for(
    server: PgPlayground, proxy: Proxy, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO), connected(through(server, proxy, mode)) as connection:
        with lock_until_asked(server, caplog, 2) as waits:
            assert connection.rows(f"SELECT 1 FROM {waits}") == [("1",)]
        with lock_until_asked(server, caplog, 4) as waits:
            slow = f"SELECT n, CASE WHEN n = 3 THEN {waits} END FROM generate_series(1, 5) n"
            assert sum(len(part) for part in connection.copied(slow)) >= 6
    assert "state=active waits_for=advisory" in caplog.text


@pytest.mark.parametrize("mode", MODES)
def test_a_reader_that_pauses_asks_nothing(
    server: PgPlayground, proxy: Proxy, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO), connected(through(server, proxy, mode)) as connection:
        blocks = connection.copied(LONG, 1 << 16)
        next(blocks)
        connection.silence.longest_s = LIMIT_S  # a busy server may pause, too
        connection.silence._since -= 3600
        assert sum(len(part) for part in itertools.chain(blocks)) > 90_000
    assert "event=slow_statement" not in caplog.text
