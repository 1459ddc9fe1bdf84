"""All problems of a server in one report, and the statements of the report that correct them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pymysql
import pytest

from penstock.ingest.database.findings import (
    MissingGrant,
    NothingCaptured,
    ServerFinding,
    SourceNotReady,
    require_ready,
)
from penstock.ingest.mysql.errors import BinlogDisabled, BinlogFormatError
from penstock.ingest.mysql.server import checks, table_checks
from penstock.ingest.mysql.server.address import Secret, Tls
from penstock.ingest.mysql.server.charsets import Charset, charset_named
from penstock.ingest.mysql.server.checks import check_source
from penstock.ingest.mysql.server.connection import ServerFacts, connected, server_facts, variables
from penstock.ingest.mysql.server.table_checks import CheckedPlan
from penstock.pipelines.commands.main import main
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync
from tests.servers import launch

MINUTES = "--binlog-expire-logs-seconds=3600"
WRONG = {
    "mysql": [
        *("--binlog-format=STATEMENT", "--binlog-row-image=MINIMAL", "--binlog-row-value-options=PARTIAL_JSON"),
        *("--binlog-row-metadata=MINIMAL", "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF", MINUTES),
    ],
    "mariadb": [
        *("--binlog-format=STATEMENT", "--binlog-row-image=MINIMAL", "--binlog-row-metadata=NO_LOG", MINUTES),
    ],
    "mariadb-11.8": [
        *("--binlog-format=STATEMENT", "--binlog-row-image=FULL_NODUP", "--binlog-row-metadata=NO_LOG", MINUTES),
    ],
}
ERRORS = {
    "changes are not logged as rows",
    "rows are not logged with all columns",
    "REPLICATION CLIENT is not granted",
    "REPLICATION SLAVE is not granted",
    "RELOAD, LOCK TABLES is not granted",
    f"SELECT is not granted:`{DATABASE}`.`hidden`",
    "the server's own id is in the pipeline's range",
}
WARNINGS = {
    "a crash of the server may lose the end of its binlog, which the pipeline has read by then",
    "the binlog contains no column names",
    "binlogs are kept for a short time only",
    f"{DATABASE}.fleeting has no primary key",
    f"{DATABASE}.fleeting may change without being logged",
}
MORE = {
    "mysql": {"JSON changes are logged as differences", "transactions have no GTID"},
    "mariadb": set[str](),
    "mariadb-11.8": set[str](),
}
PIPELINE = """
source: {{type: mysql, hostname: 127.0.0.1, port: {port}, username: poor, password: poor, database-name: {database}}}
sink: {{catalog: {{warehouse: {folder}/warehouse}}, database: ods}}
"""
NOT_ASKED = ("hidden", "fleeting", "RELOAD", "server-id")  # by the pipeline that is checked
TABLES = [(DATABASE, "t"), (DATABASE, "fleeting"), (DATABASE, "hidden")]


@pytest.fixture(autouse=True)
def synced(request: pytest.FixtureRequest) -> Iterator[None]:
    """The shared servers sync their binlog, as they should. In other tests they are faster without."""
    if "server" not in request.fixturenames:
        yield
        return
    server: Playground = request.getfixturevalue("server")
    server.run("SET GLOBAL sync_binlog = 1")
    yield
    server.run("SET GLOBAL sync_binlog = 0")


def messages_of(findings: Sequence[ServerFinding], level: str) -> set[str]:
    return {
        finding.message + (":" + finding.fix.split()[3] if finding.wanted == "SELECT" else "")
        for finding in findings
        if finding.level == level
    }


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("mysql", marks=pytest.mark.mysql),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
        pytest.param("mariadb-11.8", marks=pytest.mark.mariadb),
    ],
)
def test_each_problem_is_in_one_report_and_its_statement_corrects_it(
    kind: launch.Kind, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with launch.running(kind, tmp_path, *WRONG[kind]) as port:
        server = Playground(kind.partition("-")[0], port)
        server.start_over()
        server.run(
            "CREATE TABLE t (id INT PRIMARY KEY)",
            "CREATE TABLE fleeting (a INT NOT NULL) ENGINE = MEMORY",
            "CREATE TABLE hidden (id INT PRIMARY KEY)",
            "CREATE USER poor@'%' IDENTIFIED BY 'poor'",
            f"GRANT SELECT ON {DATABASE}.t TO poor@'%'",
            f"GRANT SELECT ON {DATABASE}.fleeting TO poor@'%'",
        )
        poor = replace(server.address, user="poor", password=Secret("poor"))
        wanted = CheckedPlan(TABLES, server_ids=range(1, 3), locking_snapshot=True)
        with connected(poor) as connection:
            found = check_source(connection, wanted)
        assert messages_of(found, "warning") == WARNINGS | (MORE[kind] & {"transactions have no GTID"})
        assert messages_of(found, "error") == ERRORS | (MORE[kind] - {"transactions have no GTID"})
        with pytest.raises(SourceNotReady) as report:
            require_ready(found)
        for item in found:
            assert (item.fix in str(report.value)) == (item.level == "error")

        (tmp_path / "shop.yaml").write_text(PIPELINE.format(port=port, database=DATABASE, folder=tmp_path))
        assert main(["check", f"{tmp_path}/shop.yaml"]) == 3
        out = capsys.readouterr().out
        for item in found:
            if not any(word in item.fix for word in NOT_ASKED):
                assert item.message in out
                assert item.fix in out

        for item in found:
            if re.match("SET|GRANT|ALTER", item.fix):
                server.run(
                    *(part for part in item.fix.partition("--")[0].replace("...", "a").split(";") if part.strip())
                )
            else:
                assert item.fix == "exclude 1 from the option server-id"
        with connected(poor) as connection:
            assert check_source(connection, replace(wanted, server_ids=range(6000, 6010))) == []


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        pytest.param("mysql", ["--skip-log-bin"], "binary logging is off", marks=pytest.mark.mysql),
        pytest.param("mysql", ["--binlog-ignore-db=play"], "some databases are not logged", marks=pytest.mark.mysql),
        pytest.param("mariadb", ["--binlog-do-db=other"], "some databases are not logged", marks=pytest.mark.mariadb),
    ],
)
def test_a_binlog_without_required_settings_is_refused(
    kind: launch.Kind, options: list[str], message: str, tmp_path: Path
) -> None:
    with launch.running(kind, tmp_path, *options) as port:
        server = Playground(kind, port)
        server.run(f"CREATE DATABASE {DATABASE}", f"CREATE TABLE {DATABASE}.t (id INT PRIMARY KEY)")
        with connected(server.address) as connection, pytest.raises(BinlogDisabled, match=message) as caught:
            require_ready(check_source(connection, CheckedPlan([(DATABASE, "t")])))
        assert "configuration" in str(caught.value)


def test_an_untested_server_version_is_reported(server: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    def newer(connection: pymysql.Connection) -> ServerFacts:
        return replace(server_facts(connection), version=(12, 3, 1))

    with connected(server.address) as connection:
        assert check_source(connection, CheckedPlan()) == []
        monkeypatch.setattr(checks, "server_facts", newer)
        found = check_source(connection, CheckedPlan())
    [told] = [item for item in found if "version" in item.message]
    assert told.level == "warning"
    assert told.seen == ("MariaDB 12.3.1" if server.is_mariadb else "MySQL 12.3.1")
    assert told.wanted == "MySQL 8.0, MySQL 9.7, MariaDB 10.11, MariaDB 11.4, MariaDB 11.8"


def test_a_binlog_in_a_storage_engine_is_refused(server: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    """As MariaDB can since 12.3; no server here does, so its answer is put in."""

    def kept_by_innodb(connection: pymysql.Connection, *names: str) -> dict[str, str]:
        return variables(connection, *names) | {"binlog_storage_engine": "innodb"}

    monkeypatch.setattr(checks, "variables", kept_by_innodb)
    with connected(server.address) as connection, pytest.raises(BinlogFormatError, match="storage engine") as caught:
        require_ready(check_source(connection, CheckedPlan()))
    assert caught.value.facts["seen"] == "innodb"


def test_an_unknown_character_set_is_reported_with_its_columns(
    server: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No server ships one that is not known: here gbk is forgotten."""

    def forgetful(name: str) -> Charset | None:
        return None if name == "gbk" else charset_named(name)

    server.run("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9) CHARACTER SET gbk, b TEXT CHARACTER SET latin1)")
    monkeypatch.setattr(table_checks, "charset_named", forgetful)
    with connected(server.address) as connection:
        [found] = check_source(connection, CheckedPlan([(DATABASE, "t")]))
    assert (found.level, found.seen) == ("error", "gbk")
    assert found.message.endswith("from the binlog: a")
    server.run(found.fix)
    with connected(server.address) as connection:
        assert check_source(connection, CheckedPlan([(DATABASE, "t")])) == []


def test_each_of_the_tables_whose_names_differ_in_case_only_is_checked(
    server: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MariaDB's information schema takes such names for one, so that only one of the tables was checked."""
    monkeypatch.setattr(table_checks, "charset_named", lambda name: None if name == "gbk" else charset_named(name))
    names = ["Orders", "orders", "ORDERS"]
    for name in names:
        server.run(f"CREATE TABLE {name} (k TIME PRIMARY KEY, {name}_a VARCHAR(9) CHARACTER SET gbk)")
    with connected(server.address) as connection:
        found = check_source(connection, CheckedPlan([(DATABASE, name) for name in names]))
    texts = [item.message for item in found if item.level == "error"]
    assert sorted(texts) == sorted(
        f"{DATABASE}.{name} has text that cannot be decoded from the binlog: {name}_a" for name in names
    )
    keys = {item.message.partition(" ")[0] for item in found if "has TIME columns in its key" in item.message}
    assert keys == {f"{DATABASE}.{name}" for name in names}


def test_another_reader_in_the_server_id_range_is_reported(server: Playground) -> None:
    """Readers that register, as replicas do."""
    registered = b"\x15" + (6010).to_bytes(4, "little") + b"\x00\x00\x00" + b"\x00\x00" + b"\x00" * 8
    reader = server.connect("cdc", "cdc")
    try:
        reader._execute_command(registered[0], registered[1:])  # type: ignore[attr-defined]  # not in its stubs
        reader._read_ok_packet()  # type: ignore[attr-defined]
        # MariaDB shows them to few: the right is its own, and no reader needs it.
        with connected(replace(server.address, user="root", password=Secret(""))) as connection:
            [found] = check_source(connection, CheckedPlan(server_ids=range(6000, 6100)))
    finally:
        reader.close()
    assert (found.level, found.message, found.seen) == (
        "warning",
        "another binlog reader uses an id of the pipeline's range",
        "6010",
    )
    assert "server-id" in found.fix


@pytest.mark.mariadb
def test_an_error_about_no_table_names_the_patterns_that_left_none(mariadb: Playground, tmp_path: Path) -> None:
    """With `--including-tables ordrs` the error named the patterns `shop` and `.*`, which accept all tables."""
    mariadb.start_over()
    mariadb.run("CREATE TABLE orders (id INT PRIMARY KEY)")
    sync = Sync(mariadb, tmp_path, flags=["--including-tables", "ordrs", "--excluding-tables", "x"])
    with pytest.raises(NothingCaptured) as caught:
        sync.run()
    facts = caught.value.facts
    assert (facts["including_tables"], facts["excluding_tables"]) == ("ordrs", "x")
    assert "including_databases" not in facts
    assert facts["seen"] == f"{DATABASE}.orders"


def test_a_user_without_visible_tables_gets_the_missing_privileges(
    server: Playground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "DROP USER IF EXISTS poor@'%'")
    server.run("CREATE USER poor@'%' IDENTIFIED BY 'poor'")
    (tmp_path / "shop.yaml").write_text(PIPELINE.format(port=server.port, database=DATABASE, folder=tmp_path))
    try:
        assert main(["check", f"{tmp_path}/shop.yaml"]) == 3
        out = capsys.readouterr().out
        assert "GRANT REPLICATION SLAVE ON *.* TO 'poor'@'%';" in out
        assert "no table of the server is selected" in out
        assert "tables that the user may not SELECT are not seen" in out
    finally:
        server.run("DROP USER poor@'%'")


@pytest.mark.mariadb
def test_a_system_versioned_table_is_reported_as_left_out(
    mariadb: Playground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mariadb.start_over()
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE past (id INT PRIMARY KEY) WITH SYSTEM VERSIONING")
    described = PIPELINE.format(port=mariadb.port, database=DATABASE, folder=tmp_path).replace("poor", "cdc")
    (tmp_path / "shop.yaml").write_text(described)
    assert main(["check", f"{tmp_path}/shop.yaml"]) == 0
    out = capsys.readouterr().out
    assert f"{DATABASE}.past keeps the rows of its past, and is left out" in out
    assert f"ALTER TABLE `{DATABASE}`.`past` DROP SYSTEM VERSIONING" in out
    assert "1 table to capture" in out


@pytest.mark.mysql
def test_a_user_who_must_use_tls_gets_a_hint_if_tls_is_off(mysql: Playground) -> None:
    mysql.run("DROP USER IF EXISTS safe", "CREATE USER safe IDENTIFIED BY 'safe' REQUIRE SSL")
    address = replace(mysql.address, user="safe", password=Secret("safe"))
    with pytest.raises(MissingGrant, match="without TLS"), connected(address):
        pass
    with connected(replace(address, tls=Tls("required"))):
        pass


def test_labels_that_need_full_metadata_are_reported(server: Playground) -> None:
    """The catalog shows them with a question mark for each character of four bytes."""
    before = server.rows("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    server.run("CREATE TABLE t (id INT PRIMARY KEY, mood ENUM('😀', 'none'), size ENUM('small', 'large'))")
    try:
        for names in ("NO_LOG" if server.is_mariadb else "MINIMAL", "FULL"):
            server.run(f"SET GLOBAL binlog_row_metadata = {names}")
            with connected(server.address) as connection:
                found = check_source(connection, CheckedPlan([(DATABASE, "t")]))
            told = [item.seen for item in found if "has labels with ?" in item.message]
            assert told == ([] if names == "FULL" else ["mood"])
    finally:
        server.run(f"SET GLOBAL binlog_row_metadata = '{before}'")


def test_transactions_that_are_prepared_are_reported(server: Playground) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)")
    if not server.is_mariadb:
        server.run("GRANT XA_RECOVER_ADMIN ON *.* TO cdc@'%'")
    writer = server.connect(database=DATABASE)
    with writer.cursor() as cursor:
        for statement in ("XA START 'x'", "INSERT INTO t VALUES (1)", "XA END 'x'", "XA PREPARE 'x'"):
            cursor.execute(statement)
    writer.close()
    try:
        with connected(server.address) as connection:
            for reads in (True, False):
                plan = CheckedPlan(tables=[(DATABASE, "t")], snapshot=reads)
                found = [finding for finding in check_source(connection, plan) if "XA" in finding.message]
                assert [(finding.level, finding.seen) for finding in found] == [("warning", "x")] * reads
    finally:
        with server.connect().cursor() as cursor:
            cursor.execute("XA ROLLBACK 'x'")
        if not server.is_mariadb:
            server.run("REVOKE XA_RECOVER_ADMIN ON *.* FROM cdc@'%'")


def test_a_table_that_keeps_no_rows_is_named_and_has_what_was_inserted(server: Playground, tmp_path: Path) -> None:
    if server.is_mariadb:
        pytest.skip("CANNOT RUN HERE: the engine BLACKHOLE is a plugin that this MariaDB lacks")
    server.run("CREATE TABLE t (id INT PRIMARY KEY, v INT) ENGINE = BLACKHOLE", "INSERT INTO t VALUES (1, 1)")
    sync = Sync(server, tmp_path)
    sync.run()
    with connected(server.address) as connection:
        found = check_source(connection, CheckedPlan([(DATABASE, "t")]))
    assert [item.seen for item in found if "keeps no rows" in item.message] == ["BLACKHOLE"]
    server.run("INSERT INTO t VALUES (2, 2), (3, 3)", "UPDATE t SET v = 9", "DELETE FROM t")
    sync.run()
    assert [(row["id"], row["v"]) for row in sync.rows("t")] == [(2, 2), (3, 3)]
    assert [dict(verdict.counts) for verdict in sync.verified()] == [{"extra": 2}]
