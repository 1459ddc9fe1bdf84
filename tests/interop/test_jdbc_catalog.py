"""One JDBC catalog, used by Java Paimon and by Penstock."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from penstock.storage.environment import Environment
from penstock.table.catalog.jdbc_lock import LockedCommits
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


class Lake(SharedCatalog):
    """A catalog in an SQLite file, with locks."""

    def database(self, table: str) -> list[tuple[Any, ...]]:
        with sqlite3.connect(Path(self.warehouse).with_name("names.db")) as connection:
            return sorted(connection.execute(f"SELECT * FROM {table}").fetchall())

    def columns(self) -> list[tuple[Any, ...]]:
        with sqlite3.connect(Path(self.warehouse).with_name("names.db")) as connection:
            names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return sorted((name, *row) for name in names for row in connection.execute(f"PRAGMA table_info({name})"))


def lake_in(folder: Path, oracle: Oracle) -> Lake:
    # Java leaves a query open, which blocks every writer of a database without a write-ahead log, even Java itself.
    with sqlite3.connect(folder / "names.db") as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    options = {
        "metastore": "jdbc",
        "uri": f"jdbc:sqlite:{folder}/names.db",
        "catalog-key": "lake",
        "lock.enabled": "true",
    }
    return Lake(oracle, f"{folder}/warehouse", options)


@pytest.fixture
def lake(oracle: Oracle, tmp_path: Path) -> Lake:
    return lake_in(tmp_path, oracle)


def test_java_uses_our_catalog(lake: Lake) -> None:
    check_java_uses_a_table_of_ours(lake)
    assert lake.database("paimon_distributed_locks") == []


def test_we_use_the_catalog_of_java(lake: Lake) -> None:
    check_we_use_a_table_of_java(lake)
    assert lake.ours.databases() == ["shop"]


def test_the_database_of_the_catalog_equals_that_of_java(oracle: Oracle, tmp_path: Path) -> None:
    for name in ("ours", "java"):
        (tmp_path / name).mkdir()
    ours, java = lake_in(tmp_path / "ours", oracle), lake_in(tmp_path / "java", oracle)
    ours.ours.create_database("shop")
    ours.ours.create_table("shop.orders", COLUMNS)
    java.java("create", table="shop.orders", columns=COLUMNS)
    assert ours.columns() == java.columns()
    assert ours.database("paimon_tables") == java.database("paimon_tables") == [("lake", "shop", "orders")]
    mine, theirs = (item.database("paimon_database_properties") for item in (ours, java))
    assert [row[:3] for row in mine] == [row[:3] for row in theirs]
    assert [row[3].replace(item.warehouse, "") for item, rows in ((ours, mine), (java, theirs)) for row in rows] == [
        "true",
        "/shop.db",
    ] * 2


def test_java_waits_for_our_lock(lake: Lake) -> None:
    table = create_events(lake)
    put(table, 1)
    commits = table.store.commits
    assert isinstance(commits, LockedCommits)
    check_java_waits(lake, commits.locks.held("shop.events", Environment()))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_commits_of_both_under_one_lock_are_kept(lake: Lake) -> None:
    commits = int(os.environ.get("PENSTOCK_MIXED_COMMITS", "40"))
    check_commits_of_both(lake, create_events(lake), commits)
    assert lake.database("paimon_distributed_locks") == []
