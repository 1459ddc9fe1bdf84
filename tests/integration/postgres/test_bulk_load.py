"""A pipeline goes on while a long transaction of another session writes the log or is open."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from penstock.ingest.postgres.config import PostgresConfig
from penstock.ingest.postgres.server.connection import connected
from penstock.ingest.postgres.server.lsn import reachable_end
from penstock.ingest.postgres.source import PgSource
from penstock.ingest.source import NO_LIMIT
from penstock.pipelines.job.source_request import connector, request_of
from tests.integration.postgres.sync import DATABASE, PgPlayground, PgSync
from tests.integration.postgres.test_connection import address
from tests.integration.postgres.test_quiet_tables import read

pytestmark = pytest.mark.postgres


@pytest.fixture
def source(server: PgPlayground, tmp_path: Path) -> Iterator[PgSource]:
    server.create("wanted", "id int PRIMARY KEY")
    server.create("other", "id int, filler text")
    spec = PgSync(server, tmp_path, "wanted", ["table-name=wanted", "scan.startup.mode=latest-offset"]).spec
    assert isinstance(spec.source, PostgresConfig)
    opened = connector(spec).open(spec.source, request_of(spec))
    assert isinstance(opened, PgSource)
    yield opened
    opened.close()


def session(server: PgPlayground) -> psycopg.Connection:
    return psycopg.connect(f"host=127.0.0.1 port={server.port} user=postgres dbname={DATABASE}")


def load(server: PgPlayground, ends: threading.Event) -> None:
    with session(server) as connection:
        while not ends.is_set():
            connection.execute("INSERT INTO other SELECT n, repeat('x', 200) FROM generate_series(1, 100) n")
        connection.rollback()


def test_the_log_moves_on_during_a_bulk_load(source: PgSource, server: PgPlayground) -> None:
    """The newest record is never flushed then."""
    at = source.latest_offsets(source.initial_offsets(), NO_LIMIT)
    ends = threading.Event()
    writer = threading.Thread(target=load, args=(server, ends))
    writer.start()
    try:
        with connected(address(server)) as connection:
            for number in range(3):
                server.run(f"INSERT INTO wanted VALUES ({number})")
                found = source.latest_offsets(at, NO_LIMIT)
                assert found["log"] != at["log"], f"change {number} is not read"
                assert read(source, at, found) == [{"id": number}]
                at = found
            assert reachable_end(connection) > 0
    finally:
        ends.set()
        writer.join()


def test_batches_grow_with_what_is_decoded_again(
    source: PgSource, server: PgPlayground, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server decodes the log from the oldest open transaction for each of them."""
    monkeypatch.setattr("penstock.ingest.postgres.log_end._SHOWN_FROM_BYTES", 1 << 20)
    usual = 200_000
    source = PgSource(replace(source.settings, log_bytes=usual))
    at = source.latest_offsets(source.initial_offsets(), NO_LIMIT)
    with session(server) as connection:
        connection.execute("INSERT INTO other VALUES (0)")
        for number in range(10):
            server.run(
                f"INSERT INTO wanted VALUES ({number})",
                "INSERT INTO other SELECT n, repeat('x', 200) FROM generate_series(1, 3000) n",
            )
        rows, sizes = [], []
        while (found := source.latest_offsets(at, NO_LIMIT)) != at:
            sizes.append(source.position_at(found) - source.position_at(at))
            rows += read(source, at, found)
            source.mirror(found)
            at = found
        connection.rollback()
    assert rows == [{"id": number} for number in range(10)]
    assert sum(sizes) > 30 * usual
    assert len(sizes) < 16
    assert caplog.text.count("event=log_decoded_again") == 1


def test_batches_of_a_backlog_do_not_grow(source: PgSource, server: PgPlayground) -> None:
    """No transaction is open. The slot is confirmed a batch late, and restarts before that."""
    usual = 200_000
    source = PgSource(replace(source.settings, log_bytes=usual))
    at = source.latest_offsets(source.initial_offsets(), NO_LIMIT)
    for _ in range(30):
        server.run("INSERT INTO other SELECT n, repeat('x', 200) FROM generate_series(1, 1000) n", "CHECKPOINT")
    sizes = []
    while (found := source.latest_offsets(at, NO_LIMIT)) != at:
        sizes.append(source.position_at(found) - source.position_at(at))
        read(source, at, found)
        source.mirror(found)
        at = found
    # Autovacuum may have a transaction open beside one or two of them.
    assert sorted(sizes)[-3] < 2 * usual
    assert len(sizes) > 20


def test_a_user_that_only_reads_by_default_makes_the_server_flush(server: PgPlayground) -> None:
    server.create("other", "id int")
    server.run("ALTER ROLE cdc SET default_transaction_read_only = on")
    try:
        with session(server) as connection, connected(address(server)) as other:
            connection.execute("INSERT INTO other VALUES (0)")
            assert reachable_end(other) > 0
            connection.rollback()
    finally:
        server.run("ALTER ROLE cdc RESET default_transaction_read_only")
