"""Defaults, labels and names of XA transactions that are bytes and no text: MariaDB shows them as they are."""

from __future__ import annotations

from pathlib import Path

import pymysql
import pytest

from penstock.ingest.mysql.server.catalog import columns_with_values
from penstock.ingest.mysql.server.checks import check_source
from penstock.ingest.mysql.server.connection import connected
from penstock.ingest.mysql.server.table_checks import CheckedPlan
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync


def test_a_default_of_bytes_is_followed(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, a VARBINARY(9) DEFAULT X'FE00FF')", "INSERT INTO t (id) VALUES (1)")
    sync = Sync(server, tmp_path)
    sync.run()
    server.run("ALTER TABLE t ADD b BINARY(3) DEFAULT X'00FFFF', ADD c VARBINARY(9)", "INSERT INTO t (id) VALUES (2)")
    sync.run()
    sync.run()
    assert [(row["a"], row["b"], row["c"]) for row in sync.rows("t")] == [(b"\xfe\x00\xff", b"\x00\xff\xff", None)] * 2
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []
    with connected(server.address) as connection:
        found = columns_with_values(connection, (DATABASE, "t"), is_mariadb=server.is_mariadb)
    assert found == ["id", "a", "b"]


def test_the_name_of_an_xa_transaction_may_be_bytes(server: Playground) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)")
    if not server.is_mariadb:
        server.run("GRANT XA_RECOVER_ADMIN ON *.* TO cdc@'%'")
    other = server.connect(database=DATABASE)
    with other.cursor() as cursor:
        for statement in ("XA START X'FF00FE'", "INSERT INTO t VALUES (1)", "XA END X'FF00FE'", "XA PREPARE X'FF00FE'"):
            cursor.execute(statement)
    other.close()
    try:
        plan = CheckedPlan([(DATABASE, "t")])
        with connected(server.address) as connection:
            assert [finding for finding in check_source(connection, plan) if "XA" in finding.message]
    finally:
        _rolled_back(server)


def _rolled_back(server: Playground) -> None:
    try:
        server.run("XA ROLLBACK X'FF00FE'")
    except pymysql.MySQLError:
        pytest.fail("the transaction was not prepared")


def test_labels_of_bytes_are_read(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, e ENUM(X'C3A9', 'b') CHARACTER SET binary)")
    server.run("INSERT INTO t VALUES (1, X'C3A9'), (2, 'b')")
    sync = Sync(server, tmp_path)
    sync.run()
    server.run("INSERT INTO t VALUES (3, X'C3A9')")
    sync.run()
    assert sync.ids("t") == [1, 2, 3]
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []
