"""A JDBC catalog on real servers: names, locks, and logins that would expose the password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import CommitConflict, ConfigError, StoreError
from penstock.storage.environment import Environment
from penstock.table.catalog.jdbc_lock import LockedCommits
from penstock.table.handle import Table
from tests.integration.mysql.playground import Playground
from tests.invariants import check_invariants

ROW_TYPE = pa.schema([("id", pa.int32())])


@pytest.fixture
def names(server: Playground) -> Iterator[Playground]:
    """A user with a database whose first login needs the password itself: the server has not cached it."""
    server.run(
        "DROP DATABASE IF EXISTS names",
        "CREATE DATABASE names",
        "DROP USER IF EXISTS lake@'%'",
        "CREATE USER lake@'%' IDENTIFIED BY 'secret'",
        "GRANT ALL ON names.* TO lake@'%'",
    )
    yield server
    server.run("DROP DATABASE names", "DROP USER lake@'%'")


def catalog(server: Playground, folder: Path, **more: str) -> penstock.Catalog:
    kind = "mariadb" if server.is_mariadb else "mysql"
    options = {
        "metastore": "jdbc",
        "uri": f"jdbc:{kind}://127.0.0.1:{server.port}/names",
        "jdbc.user": "lake",
        "jdbc.password": "${PASSWORD_OF_THE_TEST}",
        "lock.enabled": "true",
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    return penstock.Catalog(str(folder), options)


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD_OF_THE_TEST", "secret")


def append(table: Table, number: int) -> None:
    with table.writer() as writer:
        writer.write(pa.table({"id": [number]}, schema=ROW_TYPE))
        writer.commit()


def test_names_and_commits_are_in_the_database(names: Playground, tmp_path: Path) -> None:
    lake = catalog(names, tmp_path)
    lake.create_database("shop", properties={"owner": "me"})
    table = lake.create_table("shop.orders", [("id", "INT")])
    append(table, 1)
    with pytest.raises(ConfigError, match="exists already"):
        lake.create_table("shop.orders", [("id", "INT")])
    assert lake.database_properties("shop")["owner"] == "me"
    lake.create_database("ods")
    lake.rename_table("shop.orders", "ods.sales")
    assert (lake.tables("shop"), lake.tables("ods")) == ([], ["sales"])
    append(lake.table("ods.sales"), 2)
    assert sorted(lake.table("ods.sales").scan().to_arrow()["id"].to_pylist()) == [1, 2]
    check_invariants(lake.table("ods.sales"))
    lake.drop_database("ods", cascade=True)
    assert lake.databases() == ["shop"]


def test_a_lock_excludes_others_until_it_expires(names: Playground, tmp_path: Path) -> None:
    lake = catalog(names, tmp_path, **{"lock-acquire-timeout": "1 s"})
    lake.create_database("shop")
    table = lake.create_table("shop.orders", [("id", "INT")])
    commits = catalog(names, tmp_path).store("shop.orders").commits
    assert isinstance(commits, LockedCommits)
    with commits.locks.held("shop.orders", Environment()):
        with pytest.raises(CommitConflict, match="locked by another writer"):
            append(table, 1)
        names.run("UPDATE names.paimon_distributed_locks SET acquired_at = NOW() - INTERVAL 1 HOUR")
        append(table, 2)
    assert table.refresh().scan().to_arrow()["id"].to_pylist() == [2]
    check_invariants(table)


def test_a_wrong_password_is_an_error_without_the_password(
    names: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSWORD_OF_THE_TEST", "hunter2")
    with pytest.raises(StoreError, match="Access denied") as caught:
        catalog(names, tmp_path).databases()
    assert "hunter2" not in str(caught.value)


def test_the_password_is_not_sent_to_an_unverified_server(mysql: Playground, tmp_path: Path) -> None:
    mysql.run("DROP USER IF EXISTS lake@'%'", "CREATE USER lake@'%' IDENTIFIED BY 'secret'")
    mysql.run("CREATE DATABASE IF NOT EXISTS names", "GRANT ALL ON names.* TO lake@'%'")
    with pytest.raises(StoreError, match="in a form that anybody between client and server can read"):
        catalog(mysql, tmp_path, jdbc__sslMode="DISABLED").databases()
    with pytest.raises(StoreError, match="certificate verify failed"):
        catalog(mysql, tmp_path, jdbc__sslMode="VERIFY_CA").databases()
    trusting = {"jdbc__sslMode": "DISABLED", "jdbc__allowPublicKeyRetrieval": "true"}
    assert catalog(mysql, tmp_path, **trusting).databases() == []
    assert catalog(mysql, tmp_path, jdbc__sslMode="REQUIRED").databases() == []
    mysql.run("DROP DATABASE names", "DROP USER lake@'%'")


def test_names_that_are_one_for_the_server_are_different_tables(names: Playground, tmp_path: Path) -> None:
    lake = catalog(names, tmp_path)
    lake.create_database("shop")
    append(lake.create_table("shop.orders", [("id", "INT")]), 1)
    lake.create_table("shop.sales", [("id", "INT")])
    for alike in ("shop.Orders", "shop.örders"):
        assert not lake.table_exists(alike)
        lake.drop_table(alike, ignore_if_missing=True)
    with pytest.raises(ConfigError, match=r"'shop.örders' and 'shop.orders' are one name"):
        lake.create_table("shop.örders", [("id", "INT")])
    with pytest.raises(ConfigError, match=r"'shop.örders' and 'shop.orders' are one name"):
        lake.rename_table("shop.sales", "shop.örders")
    with pytest.raises(ConfigError, match=r"'shöp' and 'shop' are one name"):
        lake.create_database("shöp")
    assert lake.databases() == ["shop"]
    assert lake.tables("shop") == ["orders", "sales"]
    assert lake.table("shop.orders").count() == 1
    lake.rename_table("shop.orders", "shop.örders")
    assert lake.table("shop.örders").count() == 1
