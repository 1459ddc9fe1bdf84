"""Names of all kinds: with any letters, and of servers that fold them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.ingest.mysql.errors import StatementBinlogError
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync
from tests.servers.launch import Kind, running

ODD = ["select", "with space", "back`tick", "quo'te", 'dou"ble', "表", "dot.ted", "per%cent", "a,b", "ba{r}", "-dash"]


def test_tables_and_columns_may_have_any_name_and_comment(server: Playground, tmp_path: Path) -> None:
    quoted = {name: "`" + name.replace("`", "``") + "`" for name in ODD}
    for name, sql in quoted.items():
        server.run(
            f"CREATE TABLE {sql} (id INT PRIMARY KEY, {sql} INT COMMENT 'c ''q''\\n, b INT') COMMENT 'ADD x; \\n'"
        )
        server.run(f"INSERT INTO {sql} VALUES (1, {len(name)})")
    sync = Sync(server, tmp_path)
    sync.run()
    for name, sql in quoted.items():
        added = f"`{name.replace('`', '``')} 2`"
        server.run(f"ALTER TABLE {sql} ADD {added} INT COMMENT 'first, AFTER' FIRST", f"UPDATE {sql} SET {added} = 5")
    sync.run()
    assert set(sync.tables()) == set(ODD)
    for name in ODD:
        assert sync.rows(name) == [{"id": 1, name: len(name), f"{name} 2": 5}]
        assert sync.target(name).comment == "ADD x; \n"
        assert sync.target(name).store.schema().field(name).description == "c 'q'\n, b INT"
    assert all(verdict.is_equal for verdict in sync.verified())


@pytest.mark.parametrize(
    "kind", [pytest.param("mysql", marks=pytest.mark.mysql), pytest.param("mariadb", marks=pytest.mark.mariadb)]
)
def test_a_server_that_folds_names_is_followed_in_any_case(kind: Kind, tmp_path: Path) -> None:
    with running(kind, tmp_path / "server", "--lower-case-table-names=1") as port:
        server = Playground(kind, port)
        for names in ("FULL", "NO_LOG" if server.is_mariadb else "MINIMAL"):
            server.run(f"SET GLOBAL binlog_row_metadata = {names}")
            server.start_over()
            server.run("CREATE TABLE Orders (Id INT PRIMARY KEY)", "INSERT INTO ORDERS VALUES (1)")
            sync = Sync(server, tmp_path / names)
            sync.run()
            server.run(
                "ALTER TABLE Play.oRDERS ADD Extra TINYINT(1)",
                "UPDATE ORDERS SET Extra = 1",
                "CREATE TABLE PLAY.New (Id INT PRIMARY KEY, f TINYINT(1))",
                "INSERT INTO NEW VALUES (2, 1)",
                "RENAME TABLE New TO Newer",
                "INSERT INTO nEWER VALUES (3, 0)",
            )
            sync.run()
            assert sync.rows("orders", "Id") == [{"Id": 1, "Extra": True}]
            assert sync.rows("newer", "Id") == [{"Id": 2, "f": True}, {"Id": 3, "f": False}]
            assert all(verdict.is_equal for verdict in sync.verified())
        excluding = Sync(server, tmp_path / "e", flags=["--excluding-tables", r"Orders\D*"])
        with pytest.raises(ConfigError, match="in lower case"):
            excluding.run()
        excluding.flags = ["--excluding-tables", r"orders\D*"]
        excluding.run()
        assert excluding.tables() == ["newer"]
        changes = ("INSERT INTO PLAY.Newer (Id) VALUES (4)", "UPDATE nEWER SET f = 1")
        server.run("SET SESSION binlog_format = 'STATEMENT'", *changes, "SET SESSION binlog_format = 'ROW'")
        with pytest.raises(StatementBinlogError) as refused:
            excluding.run()
        assert refused.value.facts["table"] == "play.newer"


def test_tables_whose_names_differ_in_case_only_stay_apart(server: Playground, tmp_path: Path) -> None:
    server.run(
        "CREATE TABLE Orders (id INT PRIMARY KEY, a INT)",
        "CREATE TABLE orders (id INT PRIMARY KEY, b VARCHAR(9))",
        "CREATE TABLE ORDERS (id INT, c INT)",
        "INSERT INTO Orders VALUES (1, 10)",
        "INSERT INTO orders VALUES (1, 'x'), (2, 'y')",
        "INSERT INTO ORDERS VALUES (7, 70)",
    )
    sync = Sync(server, tmp_path)
    sync.run()
    server.run("INSERT INTO Orders VALUES (3, 30)", "INSERT INTO ORDERS VALUES (8, 80)")
    sync.run()
    assert sync.tables() == ["Orders", "orders"]
    assert sync.rows("Orders") == [{"id": 1, "a": 10}, {"id": 3, "a": 30}]
    assert sync.rows("orders") == [{"id": 1, "b": "x"}, {"id": 2, "b": "y"}]
    assert sorted(verdict.table for verdict in sync.verified() if verdict.is_equal) == ["ods.Orders", "ods.orders"]


def test_keys_that_are_one_for_the_server_follow_their_spelling(server: Playground, tmp_path: Path) -> None:
    server.run(
        "CREATE TABLE t (k VARCHAR(9) COLLATE utf8mb4_general_ci, p CHAR(3) COLLATE utf8mb4_general_ci, v INT,"
        " PRIMARY KEY (k, p))",
        "INSERT INTO t VALUES " + ", ".join(f"('key {n:02}', '{'aB'[n % 2]}', {n})" for n in range(40)),
    )
    sync = Sync(server, tmp_path, conf=["scan.incremental.snapshot.chunk.size=7"])
    sync.run()
    server.run(
        "UPDATE t SET k = UPPER(k), v = -v WHERE v % 3 = 0",
        "REPLACE INTO t VALUES ('Key 01', 'b', 100), ('kEY 02', 'A', 200)",
        "INSERT INTO t VALUES ('KÉY 04', 'a', 0) ON DUPLICATE KEY UPDATE v = 400, k = VALUES(k)",
        "DELETE FROM t WHERE k = 'KEY 05'",
        "INSERT INTO t VALUES ('KEY 05', 'b', 500)",
        "UPDATE t SET p = UPPER(p) WHERE v > 30",
    )
    sync.run()
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []
    found = sorted((row["k"], row["p"], row["v"]) for row in sync.rows("t", "k"))
    assert found == sorted(server.rows("SELECT k, p, v FROM t"))
    assert len(found) == 40
