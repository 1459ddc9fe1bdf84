"""Connections that break, and slots that are in use."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import ConfigError, SourceError
from penstock.ingest.database.findings import ConnectionLost, MissingGrant
from penstock.ingest.postgres.errors import SlotBusy, SlotMissing
from penstock.ingest.postgres.log import stream
from penstock.ingest.postgres.log.stream import WalRange, streamed
from penstock.ingest.postgres.server import connection as connections
from penstock.ingest.postgres.server.address import PgAddress
from penstock.ingest.postgres.server.connection import connected
from penstock.ingest.postgres.server.copy_stream import SocketStream
from penstock.ingest.postgres.server.libpq_stream import LibpqStream
from penstock.ingest.postgres.server.lsn import reachable_end
from penstock.ingest.postgres.server.publication import Publication
from penstock.ingest.postgres.server.slot import create_slot, free_slot
from tests.chaos.proxy import Proxy, proxied
from tests.integration.postgres.sync import DATABASE, PgPlayground, PgSync
from tests.waiting import ended, until

pytestmark = pytest.mark.postgres


def address(server: PgPlayground, password: str = "cdc", name: str = "penstock/test") -> PgAddress:
    return PgAddress("127.0.0.1", server.port, "cdc", password, DATABASE, name=name)


def test_broken_connections_can_be_retried(server: PgPlayground) -> None:
    with connected(address(server)) as connection:
        pid = connection.value("SELECT pg_backend_pid()")
        server.run(f"SELECT pg_terminate_backend({pid})")
        with pytest.raises(ConnectionLost) as caught:
            connection.rows("SELECT 1")
    assert caught.value.retryable


def read_and_end_the_reader(server: PgPlayground, part: WalRange) -> None:
    with connected(address(server), replication=True) as stream:
        for _ in streamed(stream, part):
            server.run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")


def test_a_stream_that_ends_early_is_an_error(server: PgPlayground) -> None:
    server.create("t", "id int PRIMARY KEY")
    with connected(address(server)) as connection:
        Publication("pub").require(connection, [("public", "t")])
        slot = create_slot(connection, "ends", failover=False)
        end = reachable_end(connection) + (1 << 30)
        part = WalRange("ends", ("pub",), slot.confirmed, end, binary=True)
        server.run("INSERT INTO t SELECT generate_series(1, 300000)")
        with pytest.raises(ConnectionLost):
            read_and_end_the_reader(server, part)


def test_a_reader_replaces_one_of_the_same_pipeline_only(server: PgPlayground) -> None:
    server.create("t", "id int PRIMARY KEY")
    with connected(address(server)) as connection:
        Publication("pub").require(connection, [("public", "t")])
        slot = create_slot(connection, "busy", failover=False)
        part = WalRange("busy", ("pub",), slot.confirmed, slot.confirmed + 1, binary=True)
        with connected(address(server, name="other"), replication=True) as first:
            first.start_stream(
                "START_REPLICATION SLOT \"busy\" LOGICAL 0/0 (proto_version '1', publication_names 'pub')"
            )
            with pytest.raises(SlotBusy), connected(address(server), replication=True) as second:
                list(streamed(second, part))
        with connected(address(server), replication=True) as first:
            first.start_stream(
                "START_REPLICATION SLOT \"busy\" LOGICAL 0/0 (proto_version '1', publication_names 'pub')"
            )
            free_slot(connection, "busy", part.start)
            with connected(address(server), replication=True) as second:
                assert list(streamed(second, part)) == []


def test_a_second_attempt_of_a_task_waits_for_the_first(server: PgPlayground, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with spark.speculation. Each would end the one before, until Spark gives the batch up."""
    server.create("t", "id int PRIMARY KEY")
    with connected(address(server)) as connection, connected(address(server)) as other:
        Publication("pub").require(connection, [("public", "t")])
        slot = create_slot(connection, "twice", failover=False)
        server.run("INSERT INTO t SELECT generate_series(1, 250000)")
        end = reachable_end(connection)
        part = WalRange("twice", ("pub",), slot.confirmed, end, binary=True)
        with connected(address(server), replication=True) as first:
            blocks = streamed(first, part)
            read = len(next(blocks))
            monkeypatch.setattr(connections, "_backends", set())  # the first attempt is of another process
            second = threading.Thread(target=free_slot, args=(other, "twice", part.start))
            second.start()
            second.join(2)
            assert second.is_alive()
            assert read + sum(map(len, blocks)) > 250_000
        ended(second)


def test_a_reader_of_this_process_that_failed_is_ended(server: PgPlayground) -> None:
    """An error that is kept for a report keeps what it failed in, with its connection."""
    server.create("t", "id int PRIMARY KEY")
    with connected(address(server)) as connection:
        Publication("pub").require(connection, [("public", "t")])
        slot = create_slot(connection, "failed", failover=False)
        server.run("INSERT INTO t SELECT generate_series(1, 250000)")
        part = WalRange("failed", ("pub",), slot.confirmed, reachable_end(connection), binary=True)
        with (
            connected(address(server), replication=True) as first,
            connected(address(server), replication=True) as second,
        ):
            blocks = streamed(first, part)
            next(blocks)
            free_slot(connection, "failed", part.start)
            assert sum(map(len, streamed(second, part))) > 250_000


def test_a_reader_reports_while_its_task_waits(server: PgPlayground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server ends readers that do not, and a second attempt waits for the end of the first."""
    server.create("t", "id int PRIMARY KEY")
    monkeypatch.setattr(stream, "_STATUS_S", 0.2)
    with connected(address(server)) as connection:
        Publication("pub").require(connection, [("public", "t")])
        slot = create_slot(connection, "slow", failover=False)
        server.run("INSERT INTO t SELECT generate_series(1, 250000)")
        part = WalRange("slow", ("pub",), slot.confirmed, reachable_end(connection), binary=True)
        with connected(address(server), replication=True) as first:
            pid = first.value("SELECT pg_backend_pid()")
            replies = f"SELECT coalesce(reply_time::text, 'none') FROM pg_stat_replication WHERE pid = {pid}"
            blocks = streamed(first, part)
            read = len(next(blocks))
            # Spark takes no rows meanwhile. The server notes when it got a report.
            for _ in range(3):
                before = server.run(replies)
                assert before, "the server has ended the reader"
                until(lambda before=before: server.run(replies) != before, "another report of the reader")  # type: ignore[misc]
            assert read + sum(map(len, blocks)) > 250_000


def read_while_silent(address: PgAddress, proxy: Proxy, part: WalRange) -> None:
    with connected(address, replication=True) as connection:
        blocks = streamed(connection, part)
        next(blocks)
        proxy.hush()
        list(blocks)


def test_a_stream_from_a_silent_server_is_a_lost_connection(
    server: PgPlayground, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.create("t", "id int PRIMARY KEY")
    monkeypatch.setattr(stream, "_UNANSWERED", 2)
    with proxied(server.port) as proxy, connected(address(server)) as connection:
        Publication("pub").require(connection, [("public", "t")])
        slot = create_slot(connection, "silent", failover=False)
        server.run("INSERT INTO t SELECT generate_series(1, 250000)")
        part = WalRange("silent", ("pub",), slot.confirmed, reachable_end(connection) + (1 << 30), binary=True)
        with pytest.raises(ConnectionLost, match="does not answer") as caught:
            read_while_silent(replace(address(server), port=proxy.port), proxy, part)
    assert caught.value.retryable


@pytest.mark.parametrize("mode", ["disable", "require"])
def test_a_large_row_that_arrives_in_many_parts_is_no_silence(
    server: PgPlayground, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    server.create("t", "id int PRIMARY KEY, v text")
    monkeypatch.setattr(stream, "_UNANSWERED", 5)
    with encrypting(server), proxied(server.port) as proxy, connected(address(server)) as connection:
        Publication("pub").require(connection, [("public", "t")])
        slot = create_slot(connection, "large", failover=False)
        server.run("INSERT INTO t SELECT 1, repeat('x', 1000000)")
        part = WalRange("large", ("pub",), slot.confirmed, reachable_end(connection), binary=True)
        through = replace(address(server), port=proxy.port, options=(("sslmode", mode),))
        with connected(through, replication=True) as reader:
            proxy.delay = 0.02
            assert sum(block.size for block in streamed(reader, part)) > 1_000_000


def test_errors_of_the_server_have_classes(server: PgPlayground) -> None:
    with pytest.raises(MissingGrant), connected(address(server)) as connection:
        connection.rows("SELECT pg_read_file('/etc/passwd')")
    with pytest.raises(SlotMissing), connected(address(server), replication=True) as stream:
        list(streamed(stream, WalRange("none", ("pub",), 0, 1, binary=True)))
    with pytest.raises(MissingGrant), connected(PgAddress("127.0.0.1", server.port, "nobody", "", DATABASE)):
        pass
    with pytest.raises(ConnectionLost), connected(PgAddress("127.0.0.1", 1, "cdc", "", DATABASE)):
        pass
    with pytest.raises(ConfigError), connected(address(server, password="${NOT_SET_ANYWHERE}")):
        pass


TABLE = ("table-name=t",)


@contextmanager
def encrypting(server: PgPlayground) -> Iterator[None]:
    """Let the server accept encrypted connections too."""
    certificate = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.crt"
    server.run(f"COPY (SELECT 1) TO PROGRAM '{certificate} 2>/dev/null && chmod 600 server.key'")
    server.run("ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()")
    until(lambda: server.run("SHOW ssl") == "on", "the setting for encrypted connections")
    try:
        yield
    finally:
        server.run("ALTER SYSTEM RESET ssl", "SELECT pg_reload_conf()")


def test_encrypted_connections_read_the_same(server: PgPlayground, tmp_path: Path) -> None:
    """Libpq reads them; the others are read from their socket."""
    with encrypting(server):
        server.create("t", "id int PRIMARY KEY, name text")
        server.run("INSERT INTO t SELECT n, 'read ' || n FROM generate_series(1, 20000) n")
        syncs = [
            PgSync(server, tmp_path / mode, "t", (*TABLE, f"debezium.database.sslmode={mode}", f"slot.name={mode}"))
            for mode in ("require", "disable")
        ]
        for sync in syncs:
            sync.run()
        server.run("UPDATE t SET name = 'read again ' || id WHERE id % 2 = 0", "DELETE FROM t WHERE id = 7")
        for sync in syncs:
            sync.run()
        with connected(address(server)) as connection:  # libpq prefers encryption
            assert isinstance(connection._start("COPY (SELECT 1) TO STDOUT"), LibpqStream)
        plain = replace(address(server), options=(("sslmode", "disable"),))
        with connected(plain) as connection:
            assert isinstance(connection._start("COPY (SELECT 1) TO STDOUT"), SocketStream)
    encrypted, direct = (sync.rows("t") for sync in syncs)
    assert encrypted == direct
    assert len(direct) == 19_999
    assert direct[2]["name"] == "read again 2"


def test_a_database_that_does_not_exist_is_named(server: PgPlayground) -> None:
    with (
        pytest.raises(SourceError, match="no such database") as caught,
        connected(replace(address(server), database="x")),
    ):
        pass
    assert (type(caught.value), caught.value.hint) == (SourceError, "correct database-name")


@pytest.mark.parametrize("addresses", [("127.0.0.1", "::1"), ("::1", "127.0.0.1")])
def test_a_host_with_an_address_that_does_not_answer_has_the_same_errors(
    server: PgPlayground, monkeypatch: pytest.MonkeyPatch, addresses: tuple[str, ...]
) -> None:
    def looked_up(_host: str, port: str, **_: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, int(port))) for each in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    named = replace(address(server), host="db.example")
    with connected(named) as connection:
        assert connection.value("SELECT 1") == "1"
    with pytest.raises(SourceError, match="no such database"), connected(replace(named, database="x")):
        pass
    with pytest.raises(MissingGrant), connected(replace(named, user="nobody")):
        pass


def test_a_host_that_is_no_name_cannot_be_reached(server: PgPlayground) -> None:
    with pytest.raises(ConnectionLost, match="cannot be reached"), connected(replace(address(server), host="db..x")):
        pass


def test_a_user_who_does_not_exist_is_no_missing_database(server: PgPlayground) -> None:
    with pytest.raises(MissingGrant), connected(replace(address(server), user="database_reader")):
        pass


def test_a_new_pipeline_says_that_its_slot_existed(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.create("t", "id int PRIMARY KEY")
    with caplog.at_level(logging.INFO):
        PgSync(server, tmp_path / "first").run()
    assert "event=slot_existed" not in caplog.text
    with caplog.at_level(logging.INFO):
        PgSync(server, tmp_path / "second").run()
    assert caplog.text.count("event=slot_existed") == 1
    with caplog.at_level(logging.INFO):
        PgSync(server, tmp_path / "second").run()
    assert caplog.text.count("event=slot_existed") == 1


@pytest.mark.parametrize("replication", [False, True])
def test_limits_of_a_role_for_statements_and_transactions_do_not_apply(server: PgPlayground, replication: bool) -> None:
    limits = ["statement_timeout", "idle_in_transaction_session_timeout", "transaction_timeout"]
    with connected(address(server)) as connection:
        known = [name for (name,) in connection.rows(f"SELECT name FROM pg_settings WHERE name IN {tuple(limits)}")]
    try:
        server.run(*(f"ALTER ROLE cdc SET {name} = '100ms'" for name in known))
        with connected(address(server), replication=replication) as connection:
            for name in known:
                assert connection.value(f"SHOW {name}") == "0"
            connection.rows("SELECT pg_sleep(0.3)")
    finally:
        server.run("ALTER ROLE cdc RESET ALL")


def test_the_operating_system_probes_a_connection_that_waits_for_rows(server: PgPlayground) -> None:
    with connected(address(server)) as connection, socket.socket(fileno=os.dup(connection.raw.socket)) as probed:
        assert probed.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert probed.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
