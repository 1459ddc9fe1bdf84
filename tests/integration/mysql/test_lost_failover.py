"""Failovers to a MariaDB replica that had not received the last transactions, and then wrote others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.formats.change import DecodeOptions
from penstock.ingest.mysql.config import MySqlConfig
from penstock.ingest.mysql.errors import GtidDiverged
from penstock.ingest.mysql.source import MySqlSource
from penstock.ingest.source import Limit
from penstock.pipelines.job.source_request import connector, request_of
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync
from tests.servers.launch import running

pytestmark = [pytest.mark.slow, pytest.mark.mariadb]


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[Playground]:
    """A server with its own server id."""
    with running("mariadb", tmp_path / "replica", "--server-id=12") as port:
        found = Playground("mariadb", port)
        found.run(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4", f"USE {DATABASE}")
        yield found


def replicated(source: Playground, replica: Playground, *statements: str) -> None:
    """Run statements on both, with the source's GTIDs, as replication does."""
    for statement in statements:
        source.run(statement)
        sequence = source.here().gtid.rpartition("-")[2]
        replica.run("SET SESSION server_id = 1", f"SET SESSION gtid_seq_no = {sequence}", statement)
    replica.run("SET SESSION server_id = 12")


def test_a_replica_without_the_last_transactions_is_refused_after_it_wrote_more(
    mariadb: Playground, replica: Playground, tmp_path: Path
) -> None:
    mariadb.start_over()
    replicated(mariadb, replica, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    sync = Sync(mariadb, tmp_path)
    sync.run()
    mariadb.run("INSERT INTO t VALUES (2)", "INSERT INTO t VALUES (3)")
    sync.run()
    replica.run(*[f"INSERT INTO t VALUES ({number})" for number in range(10, 15)])
    sync.server = replica
    for _ in range(2):
        with pytest.raises(GtidDiverged) as caught:
            sync.run()
        assert caught.value.exit_code == 4
    sync.flags = ["--resnapshot"]
    sync.run()
    assert sync.ids("t") == [1, 10, 11, 12, 13, 14]


def test_a_replica_that_has_them_and_wrote_more_is_followed(
    mariadb: Playground, replica: Playground, tmp_path: Path
) -> None:
    mariadb.start_over()
    replicated(mariadb, replica, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    sync = Sync(mariadb, tmp_path)
    sync.run()
    replicated(mariadb, replica, "INSERT INTO t VALUES (2)")
    sync.run()
    replicated(mariadb, replica, "INSERT INTO t VALUES (3)")
    replica.run("INSERT INTO t VALUES (10)")
    sync.server = replica
    sync.run()
    assert sync.ids("t") == [1, 2, 3, 10]


def exact_source(server: Playground, folder: Path) -> MySqlSource:
    spec = Sync(server, folder).spec
    assert isinstance(spec.source, MySqlConfig)
    source = connector(spec).open(spec.source, request_of(spec))
    assert isinstance(source, MySqlSource)
    source.settings = replace(source.settings, snapshot="exact")
    return source


def test_tables_are_not_read_as_of_a_position_of_the_former_server(
    mariadb: Playground, replica: Playground, tmp_path: Path
) -> None:
    """The position may be another one there, or none: rows would be newer than the log that follows."""
    mariadb.start_over()
    tables = [f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in "ab"]
    replicated(mariadb, replica, *tables, "INSERT INTO a VALUES (1, 1)", "INSERT INTO b VALUES (1, 1)")
    source = exact_source(mariadb, tmp_path)
    start = source.initial_offsets()
    end = source.latest_offsets(start, Limit(rows=1))
    ranges = source.plan(start, end, 1)
    source.close()
    replicated(mariadb, replica, "UPDATE b SET v = 2")
    # Its log is longer than that of the former server, so that the position may be in it.
    replica.run("FLUSH BINARY LOGS", "CREATE TABLE own (id INT)", *["INSERT INTO own VALUES (1)"] * 50)
    source = exact_source(replica, tmp_path)
    with pytest.raises(GtidDiverged, match="as of a position of another server"):
        list(source.chunks(ranges[0], DecodeOptions()))
    for _ in range(2):
        with pytest.raises(GtidDiverged, match="another server"):
            source.latest_offsets(end, Limit(rows=1))
    source.close()
