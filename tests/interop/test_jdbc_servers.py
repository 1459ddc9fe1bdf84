"""One JDBC catalog on a database server, used by Java Paimon and by Penstock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

import penstock
from penstock.storage.environment import Environment
from penstock.table.catalog.jdbc_database import JdbcDatabase
from penstock.table.catalog.jdbc_lock import LockedCommits
from penstock.table.handle import Table
from tests.integration.mysql.conftest import mysql
from tests.integration.mysql.playground import Playground
from tests.integration.postgres.conftest import server_port
from tests.interop.oracle.client import JavaRefused, Oracle
from tests.interop.test_jdbc_catalog import COLUMNS, ids, put
from tests.invariants import check_invariants
from tests.waiting import ended

__all__ = ["mysql", "server_port"]
pytestmark = pytest.mark.slow
BOTH = [pytest.param("mysql", marks=pytest.mark.mysql), pytest.param("postgres", marks=pytest.mark.postgres)]


@dataclass(frozen=True)
class Lake:
    """A catalog with locks in a database `names` of a server. Both implementations log in with the same options."""

    oracle: Oracle
    folder: Path
    options: dict[str, str]

    @property
    def warehouse(self) -> str:
        return f"{self.folder}/warehouse"

    @property
    def ours(self) -> penstock.Catalog:
        return penstock.Catalog(self.warehouse, self.options)

    def java(self, op: str, **arguments: Any) -> Any:
        return self.oracle.ask(op, warehouse=self.warehouse, catalog_options=self.options, **arguments)

    def java_rows(self, table: str) -> list[Any]:
        return sorted(self.java("read", table=table)["rows"])

    def of_another_key(self, key: str) -> Lake:
        return Lake(self.oracle, self.folder / key, self.options | {"catalog-key": key})

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        login = {name.removeprefix("jdbc."): text for name, text in self.options.items() if name.startswith("jdbc.")}
        with JdbcDatabase.of(self.options["uri"], login).session() as session:
            return session.rows(query)


def _in_mysql(server: Playground) -> dict[str, str]:
    server.run(
        "DROP DATABASE IF EXISTS names",
        "CREATE DATABASE names",
        "DROP USER IF EXISTS lake@'%'",
        "CREATE USER lake@'%' IDENTIFIED BY 'secret'",
        "GRANT ALL ON names.* TO lake@'%'",
    )
    url = f"jdbc:mysql://127.0.0.1:{server.port}/names"
    return {"uri": url, "jdbc.user": "lake", "jdbc.password": "secret"}


def _in_postgres(port: int) -> dict[str, str]:
    login = {"host": "127.0.0.1", "port": port, "user": "postgres", "dbname": "postgres", "autocommit": True}
    with psycopg.connect(**login) as own:  # type: ignore[arg-type]
        own.execute("DROP DATABASE IF EXISTS names WITH (FORCE)")
        own.execute("CREATE DATABASE names")
    return {"uri": f"jdbc:postgresql://127.0.0.1:{port}/names", "jdbc.user": "postgres"}


@pytest.fixture(params=BOTH)
def lake(request: pytest.FixtureRequest, oracle: Oracle, tmp_path: Path) -> Lake:
    found: Callable[[str], Any] = request.getfixturevalue
    login = _in_mysql(found("mysql")) if request.param == "mysql" else _in_postgres(found("server_port"))
    return Lake(oracle, tmp_path, {"metastore": "jdbc", "catalog-key": "lake", "lock.enabled": "true", **login})


def test_java_uses_our_catalog(lake: Lake) -> None:
    ours = lake.ours
    ours.create_database("shop", properties={"owner": "me"})
    put(ours.create_table("shop.orders", COLUMNS, primary_keys=["id"], options={"bucket": "1"}), 1, 2)
    assert lake.java("tables")["tables"] == ["shop.orders"]
    assert lake.java("database", database="shop")["options"]["owner"] == "me"
    lake.java("write", table="shop.orders", rows=[["+I", 3, "java"]])
    change = {"kind": "add", "name": "more", "type": "INT"}
    lake.java("alter", table="shop.orders", changes=[change])
    assert lake.java_rows("shop.orders") == [[1, "1", None], [2, "2", None], [3, "java", None]]
    assert ours.table("shop.orders").scan().to_arrow().column_names == ["id", "v", "more"]
    lake.java("rename_table", table="shop.orders", to="shop.sales")
    assert (ours.tables("shop"), ids(ours.table("shop.sales"))) == (["sales"], [1, 2, 3])
    check_invariants(ours.table("shop.sales"), oracle=lake.oracle)
    lake.java("drop_table", table="shop.sales")
    assert ours.tables("shop") == []
    assert lake.rows("SELECT * FROM paimon_distributed_locks") == []


def test_we_use_the_catalog_of_java(lake: Lake) -> None:
    lake.java("create", table="shop.orders", columns=COLUMNS, pk=["id"], options={"bucket": "1"})
    lake.java("write", table="shop.orders", rows=[["+I", 1, "java"]])
    ours = lake.ours
    assert (ours.databases(), ours.tables("shop")) == (["shop"], ["orders"])
    put(ours.table("shop.orders"), 2)
    ours.alter_table("shop.orders", [penstock.AddColumn("more", "INT")])
    assert lake.java_rows("shop.orders") == [[1, "java", None], [2, "2", None]]
    ours.rename_table("shop.orders", "shop.sales")
    assert lake.java("tables")["tables"] == ["shop.sales"]
    check_invariants(ours.table("shop.sales"), oracle=lake.oracle)
    ours.drop_table("shop.sales")
    with pytest.raises(JavaRefused, match=r"shop\.sales"):
        lake.java("read", table="shop.sales")


def test_rows_of_both_catalogs_are_equal(lake: Lake) -> None:
    mine, theirs = lake.of_another_key("mine"), lake.of_another_key("theirs")
    mine.ours.create_database("shop")
    mine.ours.create_table("shop.orders", COLUMNS)
    theirs.java("create", table="shop.orders", columns=COLUMNS)
    names = "database_name, table_name FROM paimon_tables"
    properties = "database_name, property_key, property_value FROM paimon_database_properties"
    for rows in (f"SELECT {names} WHERE catalog_key = '{{}}'", f"SELECT {properties} WHERE catalog_key = '{{}}'"):
        of_both = [
            sorted(tuple(text.replace(one.warehouse, "") for text in row) for row in lake.rows(rows.format(key)))
            for key, one in (("mine", mine), ("theirs", theirs))
        ]
        assert of_both[0] == of_both[1]
        assert of_both[0]


def test_java_waits_for_our_lock(lake: Lake) -> None:
    put(_events(lake), 1)
    commits = lake.ours.store("shop.events").commits
    assert isinstance(commits, LockedCommits)
    rows = [["+I", 2, "java"]]
    writer = threading.Thread(target=lambda: lake.java("write", table="shop.events", rows=rows), daemon=True)
    with commits.locks.held("shop.events", Environment()):
        writer.start()
        writer.join(timeout=2)
        assert writer.is_alive()
        assert lake.ours.store("shop.events").snapshots.latest_id() == 1
    ended(writer)
    assert ids(lake.ours.table("shop.events")) == [1, 2]


def test_commits_of_both_under_one_lock_are_kept(lake: Lake) -> None:
    commits = int(os.environ.get("PENSTOCK_MIXED_COMMITS", "20")) // 2
    table = _events(lake)
    failures: list[BaseException] = []

    def java() -> None:
        try:
            for number in range(commits):
                lake.java("write", table="shop.events", rows=[["+I", 1000 + number, "java"]])
        except BaseException as error:  # noqa: BLE001 -- asserted below
            failures.append(error)

    writer = threading.Thread(target=java)
    writer.start()
    for number in range(commits):
        put(table, number)
    ended(writer)
    assert failures == []
    assert ids(table.refresh()) == [*range(commits), *range(1000, 1000 + commits)]
    assert lake.rows("SELECT * FROM paimon_distributed_locks") == []
    check_invariants(table.refresh(), oracle=lake.oracle if commits <= 20 else None)


def _events(lake: Lake) -> Table:
    ours = lake.ours
    ours.create_database("shop")
    return ours.create_table("shop.events", COLUMNS, options={"bucket": "-1", "commit.max-retries": "100"})
