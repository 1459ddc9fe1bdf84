"""A JDBC catalog on a real PostgreSQL server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

import penstock
from penstock.errors import CommitConflict, ConfigError, StoreError
from penstock.storage.environment import Environment
from penstock.table.catalog.jdbc_lock import LockedCommits
from penstock.table.handle import Table
from tests.integration.mysql.test_jdbc_catalog import append
from tests.invariants import check_invariants
from tests.servers.launch import running

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture(scope="session")
def port() -> Iterator[int]:
    """The server of a root user runs as another one, who cannot enter the folders of pytest."""
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        Path(folder).chmod(0o755)
        with running("postgres", Path(folder) / "data") as found:
            yield found


@pytest.fixture
def names(port: int) -> Iterator[psycopg.Connection]:
    """A connection to an empty database; its user is that of the tests, with a time zone that is not UTC."""
    login = {"host": "127.0.0.1", "port": port, "user": "postgres", "autocommit": True}
    with psycopg.connect(**login, dbname="postgres") as server:
        server.execute("DROP DATABASE IF EXISTS names")
        server.execute("CREATE DATABASE names")
        server.execute("ALTER DATABASE names SET timezone = 'Asia/Tokyo'")
        with psycopg.connect(**login, dbname="names") as connection:
            yield connection
        server.execute("DROP DATABASE names WITH (FORCE)")  # a process keeps a connection


@pytest.fixture
def options(port: int) -> dict[str, str]:
    url = f"jdbc:postgresql://127.0.0.1:{port}/names"
    return {"metastore": "jdbc", "uri": url, "jdbc.user": "postgres", "lock.enabled": "true"}


@pytest.mark.usefixtures("names")
def test_names_and_commits_are_in_the_database(options: dict[str, str], tmp_path: Path) -> None:
    lake = penstock.Catalog(str(tmp_path), options)
    lake.create_database("shop", properties={"owner": "me"})
    append(lake.create_table("shop.orders", [("id", "INT")]), 1)
    with pytest.raises(ConfigError, match="exists already"):
        lake.create_table("shop.orders", [("id", "INT")])
    assert lake.database_properties("shop")["owner"] == "me"
    lake.create_database("ods")
    lake.rename_table("shop.orders", "ods.sales")
    assert (lake.tables("shop"), lake.tables("ods")) == ([], ["sales"])
    append(lake.table("ods.sales"), 2)
    assert ids(lake.table("ods.sales")) == [1, 2]
    check_invariants(lake.table("ods.sales"))
    lake.drop_database("ods", cascade=True)
    assert lake.databases() == ["shop"]


def test_a_lock_excludes_others_until_it_expires(
    names: psycopg.Connection, options: dict[str, str], tmp_path: Path
) -> None:
    lake = penstock.Catalog(str(tmp_path), options | {"lock-acquire-timeout": "1 s"})
    lake.create_database("shop")
    table = lake.create_table("shop.orders", [("id", "INT")])
    commits = penstock.Catalog(str(tmp_path), options).store("shop.orders").commits
    assert isinstance(commits, LockedCommits)
    with commits.locks.held("shop.orders", Environment()):
        with pytest.raises(CommitConflict, match="locked by another writer"):
            append(table, 1)
        names.execute("UPDATE paimon_distributed_locks SET acquired_at = acquired_at - INTERVAL '1 hour'")
        append(table, 2)
    assert ids(table.refresh()) == [2]
    check_invariants(table)


def test_a_server_that_refuses_is_named(options: dict[str, str], tmp_path: Path) -> None:
    wrong = options | {"uri": options["uri"].replace("/names", "/missing"), "jdbc.password": "hunter2"}
    with pytest.raises(StoreError, match="the database of the catalog failed") as caught:
        penstock.Catalog(str(tmp_path), wrong).databases()
    assert "hunter2" not in str(caught.value)


def ids(table: Table) -> list[int]:
    rows = table.scan().to_arrow()
    assert isinstance(rows, pa.Table)
    return sorted(rows["id"].to_pylist())
