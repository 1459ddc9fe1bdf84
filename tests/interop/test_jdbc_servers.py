"""One JDBC catalog on a database server, used by Java Paimon and by Penstock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.storage.environment import Environment
from penstock.table.catalog.jdbc_database import JdbcDatabase
from penstock.table.catalog.jdbc_lock import LockedCommits
from tests.integration.mysql.conftest import mysql
from tests.integration.mysql.playground import Playground
from tests.integration.postgres.conftest import server_port
from tests.interop.oracle.client import Oracle
from tests.interop.shared_catalog import (
    COLUMNS,
    SharedCatalog,
    check_commits_of_both,
    check_java_uses_a_table_of_ours,
    check_java_waits,
    check_we_use_a_table_of_java,
    create_events,
    put,
)

__all__ = ["mysql", "server_port"]
pytestmark = pytest.mark.slow
BOTH = [pytest.param("mysql", marks=pytest.mark.mysql), pytest.param("postgres", marks=pytest.mark.postgres)]


class Lake(SharedCatalog):
    """A catalog with locks in a database `names` of a server."""

    def of_another_key(self, key: str) -> Lake:
        return Lake(self.oracle, f"{self.warehouse}/{key}", self.options | {"catalog-key": key})

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
    return Lake(
        oracle, f"{tmp_path}/warehouse", {"metastore": "jdbc", "catalog-key": "lake", "lock.enabled": "true", **login}
    )


def test_java_uses_our_catalog(lake: Lake) -> None:
    check_java_uses_a_table_of_ours(lake)
    assert lake.rows("SELECT * FROM paimon_distributed_locks") == []


def test_we_use_the_catalog_of_java(lake: Lake) -> None:
    check_we_use_a_table_of_java(lake)
    assert lake.ours.databases() == ["shop"]


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
    table = create_events(lake)
    put(table, 1)
    commits = table.store.commits
    assert isinstance(commits, LockedCommits)
    check_java_waits(lake, commits.locks.held("shop.events", Environment()))


def test_commits_of_both_under_one_lock_are_kept(lake: Lake) -> None:
    check_commits_of_both(lake, create_events(lake), commits=20)
    assert lake.rows("SELECT * FROM paimon_distributed_locks") == []
