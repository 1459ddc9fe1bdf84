"""Failures caused by servers: binlogs purged and reset, another server after a failover, missing privileges."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import PenstockError, SourceError
from penstock.ingest.database.findings import ConnectionLost, MissingGrant, SourceNotReady, require_ready
from penstock.ingest.mysql.binlog.dump import dumping
from penstock.ingest.mysql.binlog.event_stream import DumpRequest
from penstock.ingest.mysql.binlog.log_plan import PlanLimits
from penstock.ingest.mysql.binlog.plan import plan_log
from penstock.ingest.mysql.binlog.resume import check_position, resume
from penstock.ingest.mysql.ddl.history import SchemaHistory
from penstock.ingest.mysql.errors import BinlogPurged, BinlogReset, GtidDiverged, RowImageError
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.server.address import Secret, Tls
from penstock.ingest.mysql.server.checks import check_source
from penstock.ingest.mysql.server.connection import connected, server_facts
from penstock.ingest.mysql.server.table_checks import CheckedPlan
from penstock.pipelines.api.dead_letters import letters_of
from penstock.pipelines.api.replay_dead_letters import replay
from penstock.pipelines.config.rules import TransformConfig
from tests.here import run
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync
from tests.servers.launch import running
from tests.waiting import until

Pair = tuple[Playground, Playground]


def drain(server: Playground, start: LogPosition) -> None:
    with dumping(server.address, DumpRequest(start, 6060)) as segments:
        for _ in segments:
            pass


def test_a_purged_binlog_is_reported_by_name_before_and_during_a_read(server: Playground) -> None:
    start = server.here()
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    server.run(f"PURGE BINARY LOGS TO '{server.here().file}'")
    with pytest.raises(BinlogPurged, match="--resnapshot") as caught:
        drain(server, start)
    assert caught.value.exit_code == 4
    with connected(server.address) as connection, pytest.raises(BinlogPurged) as before:
        check_position(connection, start)
    assert before.value.facts["oldest"] == server.here().file


def _has_log(server: Playground, position: LogPosition) -> bool:
    with connected(server.address) as connection:
        try:
            check_position(connection, position)
        except BinlogPurged:
            return False
    return True


class _StopError(Exception):
    pass


def test_a_binlog_purged_after_planning_is_left_out_if_tables_are_read_again(
    server: Playground, tmp_path: Path
) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 1)")
    sync = Sync(server, tmp_path, "t", ["table-name=t"])
    sync.run()
    server.run("UPDATE t SET v = 2 WHERE id = 1", "DELETE FROM t WHERE id = 2")

    def stop(*_: object) -> None:
        raise _StopError

    with pytest.raises(_StopError):
        sync.run(stop)
    planned = server.here()

    def is_purged() -> bool:  # MariaDB keeps a file that its last checkpoint needs, or that a reader just left
        server.run("FLUSH BINARY LOGS", f"PURGE BINARY LOGS TO '{server.here().file}'")
        return not _has_log(server, planned)

    until(is_purged, "the server without the log of the batch")
    # The batch is in the checkpoint, and can never be read again.
    for _ in range(2):
        with pytest.raises(BinlogPurged):
            sync.run()
    sync.flags = ["--resnapshot"]
    sync.run()
    assert [(row["id"], row["v"]) for row in sync.rows()] == [(1, 2)]
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []


def test_a_reset_binlog_is_not_continued(server: Playground) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", *["FLUSH BINARY LOGS"] * 3)
    stored = server.here()
    with connected(server.address) as connection:
        check_position(connection, stored)
        with pytest.raises(BinlogReset):
            check_position(connection, replace(stored, pos=stored.pos + 100_000))
        server.run("RESET MASTER" if server.is_mariadb else "RESET BINARY LOGS AND GTIDS")
        with pytest.raises(BinlogReset):
            check_position(connection, stored)
    with pytest.raises(PenstockError):
        drain(server, replace(stored, file=server.here().file, pos=100_000))


def test_a_wrong_password_and_a_missing_server_are_different_errors(server: Playground) -> None:
    wrong = replace(server.address, password=Secret("wrong"))
    with pytest.raises(MissingGrant), connected(wrong):
        pass
    with pytest.raises(ConnectionLost) as caught, connected(replace(server.address, port=1)):
        pass
    assert caught.value.retryable
    assert "wrong" not in repr(wrong)


def test_tls_is_used_if_available_and_can_be_required(server: Playground) -> None:
    with connected(replace(server.address, tls=Tls("preferred"))) as connection:
        facts = server_facts(connection)
    assert facts.is_mariadb == server.is_mariadb
    demanded = replace(server.address, tls=Tls("required"))
    if server.rows("SHOW GLOBAL VARIABLES LIKE 'have_ssl'")[:1] == (("have_ssl", "DISABLED"),):
        # MariaDB before 11.4, started without certificates.
        with pytest.raises(SourceError), connected(demanded):
            pass
    else:
        with connected(demanded):
            pass
        with pytest.raises(SourceError), connected(replace(server.address, tls=Tls("verify-ca"))):
            pass


def test_all_missing_settings_are_reported_with_their_statements(server: Playground) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE k (a INT)")
    server.run("DROP USER IF EXISTS poor@'%'", "CREATE USER poor@'%' IDENTIFIED BY 'poor'")
    tables = [(DATABASE, "t"), (DATABASE, "k")]
    with connected(replace(server.address, user="poor", password=Secret("poor"))) as connection:
        findings = check_source(connection, CheckedPlan(tables))
    with pytest.raises(SourceNotReady) as caught:
        require_ready(findings)
    for statement in (
        "GRANT REPLICATION SLAVE ON *.*",
        "GRANT REPLICATION CLIENT",
        f"GRANT SELECT ON `{DATABASE}`.`t`",
    ):
        assert statement in str(caught.value)
    with connected(server.address) as connection:
        good = check_source(connection, CheckedPlan(tables, range(6000, 6100)))
    require_ready(good)
    # The servers of the tests do not sync their binlog.
    assert {(found.level, found.message) for found in good if "sync_binlog" not in found.seen} == {
        ("warning", f"{DATABASE}.k has no primary key")
    }


def test_a_single_wrong_setting_has_a_separate_error(server: Playground) -> None:
    server.run("SET GLOBAL binlog_row_image = MINIMAL")
    try:
        with connected(server.address) as connection:
            findings = check_source(connection, CheckedPlan())
            with pytest.raises(RowImageError, match="binlog_row_image = FULL"):
                require_ready(findings)
            require_ready(check_source(connection, CheckedPlan(partial_images=True)))
    finally:
        server.run("SET GLOBAL binlog_row_image = FULL")


def test_the_id_of_the_server_in_our_range_and_cascades_are_found(server: Playground) -> None:
    server.run(
        "CREATE TABLE parent (id INT PRIMARY KEY)",
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
    )
    with connected(server.address) as connection:
        findings = check_source(connection, CheckedPlan([(DATABASE, "child")], range(1, 3)))
    messages = [found.message for found in findings]
    assert "the server's own id is in the pipeline's range" in messages
    # MySQL 9.6 and later log what a cascade changes.
    assert (f"{DATABASE}.child is changed by a foreign key cascade" in messages) == server.is_mariadb


@pytest.fixture(scope="module")
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Playground, Playground]]:
    """A source and its replica, of the kind asked for."""
    kind = request.param
    folder = tmp_path_factory.mktemp("pair")
    extra = ["--log-slave-updates=1"] if kind == "mariadb" else []
    with (
        running(kind, folder / "one", "--server-id=11", *extra) as first,
        running(kind, folder / "two", "--server-id=12", *extra) as second,
    ):
        source, replica = Playground(kind, first), Playground(kind, second)
        if kind == "mysql":
            replica.run("SET GLOBAL server_id = 12")
            change = "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, SOURCE_USER='cdc',"
            change += " SOURCE_PASSWORD='cdc', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1"
            replica.run(change.format(first), "START REPLICA")
        else:
            change = (
                "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={}, MASTER_USER='cdc', MASTER_PASSWORD='cdc',"
            )
            replica.run(f"{change} MASTER_USE_GTID=slave_pos".format(first), "START SLAVE")
        yield source, replica


def wait_for(replica: Playground, sql: str, value: object) -> None:
    def is_there() -> bool:
        try:
            return bool(replica.rows(sql)[0][0] == value)
        except Exception:  # noqa: BLE001 - the table may not be there yet
            replica.connect()
            return False

    until(is_there, f"{value} of the replica for {sql}")


BOTH = [pytest.param("mysql", marks=pytest.mark.mysql), pytest.param("mariadb", marks=pytest.mark.mariadb)]


@pytest.mark.parametrize("pair", BOTH, indirect=True)
def test_after_a_failover_the_replicas_binlog_continues_where_the_sources_ended(
    pair: Pair,
) -> None:
    source, replica = pair
    # The replica has a history of its own: its positions say nothing about the source's.
    replica.run("SET sql_log_bin = 0", "CREATE DATABASE IF NOT EXISTS elsewhere", "SET sql_log_bin = 1")
    replica.run(*["FLUSH BINARY LOGS"] * 3)
    source.start_over()
    start = source.here()
    source.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", *[f"INSERT INTO t VALUES ({n}, 0)" for n in range(20)])
    history = SchemaHistory(mariadb=source.is_mariadb)
    first = plan_log(source.address, start, PlanLimits(bytes=2000, range_bytes=500), 6061, history)
    rows = source.read([first])
    assert 0 < len(rows) < 20
    wait_for(replica, f"SELECT COUNT(*) FROM {DATABASE}.t", 20)
    with connected(source.address) as connection:
        uuid = server_facts(connection).uuid
    with connected(replica.address) as connection:
        way = resume(connection, server_facts(connection), first.end, uuid)
    assert way.by_gtid
    at = way.start
    while True:
        plan = plan_log(replica.address, at, PlanLimits(bytes=1500, range_bytes=500, by_gtid=True), 6062, history)
        rows += replica.read([plan])
        at = plan.end
        if plan.caught_up:
            break
    assert [row["id"] for _, _, row in rows] == list(range(20))
    replica.run("SET sql_log_bin = 1", f"INSERT INTO {DATABASE}.t VALUES (100, 1)")
    (after,) = replica.plans(at, PlanLimits())
    assert [row["id"] for _, _, row in replica.read([after])] == [100]


@pytest.mark.parametrize("pair", BOTH, indirect=True)
def test_after_a_failover_without_new_transactions_the_position_is_one_of_the_replica(pair: Pair) -> None:
    source, replica = pair
    replica.run(*["FLUSH BINARY LOGS"] * 3)
    source.start_over()
    start = source.here()
    source.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    history = SchemaHistory(mariadb=source.is_mariadb)
    read = plan_log(source.address, start, PlanLimits(), 6063, history).end
    wait_for(replica, f"SELECT COUNT(*) FROM {DATABASE}.t", 1)
    plan = plan_log(replica.address, read, PlanLimits(by_gtid=True), 6064, history)
    assert plan.caught_up
    source.run("INSERT INTO t VALUES (2)")
    wait_for(replica, f"SELECT COUNT(*) FROM {DATABASE}.t", 2)
    (after,) = replica.plans(plan.end, PlanLimits())
    assert [row["id"] for _, _, row in replica.read([after])] == [2]


@pytest.mark.parametrize("pair", BOTH, indirect=True)
def test_a_server_that_lacks_our_transactions_is_refused(pair: Pair) -> None:
    source, replica = pair
    with connected(source.address) as connection:
        uuid = server_facts(connection).uuid
    ahead = source.here()
    gtid = "0-11-999999" if source.is_mariadb else f"{uuid}:1-999999"
    with connected(replica.address) as connection:
        facts = server_facts(connection)
        with pytest.raises(GtidDiverged):
            resume(connection, facts, replace(ahead, gtid=gtid), uuid)
        with pytest.raises(GtidDiverged, match="gtid_mode"):
            resume(connection, facts, replace(ahead, gtid=""), uuid)
        assert not resume(connection, facts, replica.here(), facts.uuid).by_gtid


@pytest.mark.parametrize("pair", BOTH, indirect=True)
def test_a_pipeline_continues_from_the_replica_without_its_source(pair: Pair, tmp_path: Path) -> None:
    source, replica = pair
    source.start_over()
    source.run(
        "CREATE TABLE moved (id INT PRIMARY KEY, v INT)", *[f"INSERT INTO moved VALUES ({n}, 0)" for n in range(10)]
    )
    sync = Sync(source, tmp_path)
    sync.run()
    source.run("UPDATE moved SET v = 1 WHERE id < 5", "DELETE FROM moved WHERE id = 9")
    sync.run()
    source.run(
        "UPDATE moved SET v = 2 WHERE id < 3",
        "ALTER TABLE moved ADD w VARCHAR(9)",
        "INSERT INTO moved VALUES (10, 3, 'ten')",
        "CREATE TABLE u (id INT PRIMARY KEY)",
        "INSERT INTO u VALUES (1)",
    )
    wait_for(replica, f"SELECT COUNT(*) FROM {DATABASE}.u", 1)
    source.run("SHUTDOWN")
    replica.run("STOP SLAVE" if replica.is_mariadb else "STOP REPLICA")
    sync.server = replica
    sync.run()
    assert [(row["id"], row["v"], row["w"]) for row in sync.rows("moved")] == [
        *((n, 2, None) for n in range(3)),
        *((n, 1, None) for n in range(3, 5)),
        *((n, 0, None) for n in range(5, 9)),
        (10, 3, "ten"),
    ]
    replica.run(f"USE {DATABASE}", "INSERT INTO u VALUES (2)", "UPDATE moved SET w = 'promoted' WHERE id = 0")
    sync.run()
    assert sync.ids("u") == [1, 2]
    assert all(verdict.is_equal for verdict in sync.verified())


def test_a_row_that_does_not_fit_is_a_dead_letter_that_can_be_replayed(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, year VARCHAR(20), raw VARBINARY(9), flags SET('a', 'b'))")
    server.run("INSERT INTO t VALUES (1, '2024', x'00ff', 'a'), (2, 'none', x'00fe', 'a,b')")
    spec = Sync(server, tmp_path, flags=["--on-bad-record", "dead-letter"]).spec
    strict = TransformConfig(source_table=f"{DATABASE}.t", projection="*, cast(year as int) as number")
    run(spec.model_copy(update={"transform": (strict,)}))
    server.run("UPDATE t SET year = 'lost' WHERE id = 1", "INSERT INTO t VALUES (3, '2025', NULL, '')")
    run(spec.model_copy(update={"transform": (strict,)}))
    sync = Sync(server, tmp_path)
    assert [(row["id"], row["number"]) for row in sync.rows("t")] == [(1, 2024), (3, 2025)]
    kept = sync.target("__penstock_dead_letters")
    letters = letters_of(kept.scan().to_arrow())
    cells = [json.loads(letter.value or b"")["data"][0] for letter in letters]
    assert sorted((cell["id"], cell["year"], cell["flags"]) for cell in cells) == [
        ("1", "lost", "a"),
        ("2", "none", "a,b"),
    ]
    done = replay(spec, letters, kept)
    assert (done.rows, done.bad) == ({"ods.t": 2}, {})
    assert [(row["id"], row["year"], row["raw"], row["flags"]) for row in sync.rows("t")] == [
        (1, "lost", b"\x00\xff", ["a"]),
        (2, "none", b"\x00\xfe", ["a", "b"]),
        (3, "2025", None, []),
    ]
