"""Connections and statements of a steady batch without Spark, and the end of a connection between two batches."""

from __future__ import annotations

import os
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.ingest.database.findings import MissingGrant
from penstock.ingest.postgres.server import connection as connections
from penstock.ingest.postgres.server import libpq_stream
from penstock.ingest.postgres.server.address import PgAddress
from penstock.ingest.postgres.server.connection import PgConnection, kept_connected
from tests.integration.postgres.sync import DATABASE, PgPlayground, PgSync
from tests.sync_flags import spec_of_action
from tests.waiting import LIMIT_S, until
from tests.without_spark import run_here

pytestmark = pytest.mark.postgres
# The first batches copy the table and wait until the log has passed that.
SETTLED, BATCHES = 6, 12
# Each batch may open this many connections and run this many statements, with the starts of streams.
OPENED, STATEMENTS = 2, 13
ENDED = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'cdc' AND state = 'idle'"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the connections that are opened and the statements that are run."""
    counts: Counter[str] = Counter()

    def counted(kind: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            counts[kind] += 1
            return work(*given, **named)

        return call

    monkeypatch.setattr(connections, "_open", counted("opened", connections._open))
    monkeypatch.setattr(connections, "run", counted("statements", libpq_stream.run))
    monkeypatch.setattr(PgConnection, "_start", counted("statements", PgConnection._start))
    return counts


@pytest.fixture
def sync(server: PgPlayground, tmp_path: Path) -> PgSync:
    server.create("t", "id int PRIMARY KEY, amount numeric(10, 2), note varchar(40)")
    server.run("INSERT INTO t VALUES (0, 1, 'a')")
    return PgSync(server, tmp_path, "t", ["table-name=t"])


def run_with(sync: PgSync, after_batch: Callable[[int], object], batches: int = BATCHES) -> None:
    """Run so many batches. There is another row, and a call, after each of them."""

    def taken(identity: Any, report: Any) -> None:
        after_batch(identity.number)
        sync.server.run(f"INSERT INTO t VALUES ({identity.number + 1}, 2.5, 'b')")

    words = [word for word in sync.words if word != "--until-caught-up"]
    run_here(spec_of_action(sync.command, [*words, "--trigger", "continuous"]), taken, batches)


def test_a_steady_batch_asks_for_as_much_as_it_needs(
    sync: PgSync, asked: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_SURE_S", LIMIT_S)  # a batch of a busy machine may last long
    seen: list[Counter[str]] = []
    run_with(sync, lambda _: seen.append(asked.copy()))
    assert len(seen) == BATCHES
    per_batch = [after - before for before, after in zip(seen[SETTLED:], seen[SETTLED + 1 :], strict=False)]
    assert per_batch == [Counter(opened=OPENED, statements=STATEMENTS)] * len(per_batch)
    run_here(sync.spec)
    assert len(sync.rows()) == BATCHES + 1


def test_batches_continue_after_their_idle_connections_were_ended(
    sync: PgSync, caplog: pytest.LogCaptureFixture
) -> None:
    found: list[int] = []
    run_with(sync, lambda _: found.append(int(sync.server.run(ENDED))))
    assert any(found)
    # It is noticed before a statement is lost.
    assert not [text for text in caplog.messages if "event=plan_again" in text or "not_confirmed" in text]
    run_here(sync.spec)
    assert len(sync.rows()) == BATCHES + 1


def test_a_batch_does_not_wait_in_a_transaction(sync: PgSync) -> None:
    states: Counter[str] = Counter()
    query = (
        "SELECT string_agg(state || coalesce(backend_xmin::text, ''), ' ') FROM pg_stat_activity WHERE usename='cdc'"
    )
    run_with(sync, lambda _: states.update(sync.server.run(query).split()))
    assert set(states) == {"idle"}


@pytest.fixture
def address(server: PgPlayground) -> Iterator[PgAddress]:
    yield PgAddress("127.0.0.1", server.port, "cdc", "cdc", DATABASE)
    connections._kept.close()


def backend(address: PgAddress) -> str:
    with kept_connected(address) as connection:
        return str(connection.value("SELECT pg_backend_pid()"))


def test_an_ended_connection_is_replaced_at_its_next_use(server: PgPlayground, address: PgAddress) -> None:
    first = backend(address)
    assert backend(address) == first
    server.run(f"SELECT pg_terminate_backend({first})")
    until(
        lambda: server.run(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {first}") == "0",
        "the end of the connection",
    )
    assert backend(address) != first


def test_a_connection_in_a_transaction_is_not_used_again(address: PgAddress) -> None:
    first = backend(address)
    with kept_connected(address) as connection:
        connection.rows("BEGIN")
    assert backend(address) != first


def test_a_revoked_right_is_noticed_by_the_next_statement(server: PgPlayground, address: PgAddress) -> None:
    server.run("DROP ROLE IF EXISTS reads", "CREATE ROLE reads LOGIN PASSWORD 'reads'", "CREATE TABLE secret (id int)")
    server.run("GRANT SELECT ON secret TO reads")
    reads = replace(address, user="reads", password="reads")
    with kept_connected(reads) as connection:
        assert connection.rows("SELECT * FROM secret") == []
    server.run("REVOKE ALL ON secret FROM reads")
    with pytest.raises(MissingGrant), kept_connected(reads) as connection:
        connection.rows("SELECT * FROM secret")


def test_an_idle_connection_that_does_not_answer_is_not_used(
    address: PgAddress, server: PgPlayground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped process stands for a machine that is gone: the system confirms bytes, and nobody reads them."""
    first = backend(address)
    monkeypatch.setattr(connections, "_SURE_S", 0.0)
    monkeypatch.setattr(connections, "_ANSWER_S", LIMIT_S)
    assert backend(address) == first
    monkeypatch.setattr(connections, "_ANSWER_S", 0.1)
    os.kill(int(first), signal.SIGSTOP)
    try:
        assert backend(address) != first
    finally:
        os.kill(int(first), signal.SIGCONT)


def test_the_time_for_unconfirmed_bytes_is_limited(address: PgAddress) -> None:
    with kept_connected(address) as connection, socket.socket(fileno=os.dup(connection.raw.socket)) as found:
        assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 120_000
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
