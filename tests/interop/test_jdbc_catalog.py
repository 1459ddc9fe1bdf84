"""One JDBC catalog, used by Java Paimon and by Penstock."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.storage.environment import Environment
from penstock.table.catalog.jdbc_lock import LockedCommits
from penstock.table.handle import Table
from tests.interop.oracle.client import JavaRefused, Oracle
from tests.invariants import check_invariants
from tests.waiting import ended

COLUMNS = [("id", "INT NOT NULL"), ("v", "STRING")]
ROW_TYPE = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("v", pa.string())])


class Lake:
    """A catalog in an SQLite file, with locks, in both implementations."""

    def __init__(self, oracle: Oracle, folder: Path) -> None:
        self.oracle, self.folder = oracle, folder
        # Java leaves a query open, which blocks every writer of a database without a write-ahead log, even Java itself.
        with sqlite3.connect(folder / "names.db") as connection:
            connection.execute("PRAGMA journal_mode = WAL")
        self.options = {
            "metastore": "jdbc",
            "uri": f"jdbc:sqlite:{folder}/names.db",
            "catalog-key": "lake",
            "lock.enabled": "true",
        }

    @property
    def ours(self) -> penstock.Catalog:
        return penstock.Catalog(f"{self.folder}/warehouse", self.options)

    def java(self, op: str, **arguments: Any) -> Any:
        return self.oracle.ask(op, warehouse=f"{self.folder}/warehouse", catalog_options=self.options, **arguments)

    def java_rows(self, table: str) -> list[Any]:
        return sorted(self.java("read", table=table)["rows"])

    def database(self, table: str) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.folder / "names.db") as connection:
            return sorted(connection.execute(f"SELECT * FROM {table}").fetchall())

    def columns(self) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.folder / "names.db") as connection:
            names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return sorted((name, *row) for name in names for row in connection.execute(f"PRAGMA table_info({name})"))


@pytest.fixture
def lake(oracle: Oracle, tmp_path: Path) -> Lake:
    return Lake(oracle, tmp_path)


def put(table: Table, *ids: int) -> None:
    with table.writer() as writer:
        writer.write(pa.table({"id": list(ids), "v": [str(id_) for id_ in ids]}, schema=ROW_TYPE))
        writer.commit()


def ids(table: Table) -> list[int]:
    return sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())


def test_java_uses_our_catalog(lake: Lake) -> None:
    ours = lake.ours
    ours.create_database("shop", properties={"owner": "me"})
    put(ours.create_table("shop.orders", COLUMNS, primary_keys=["id"], options={"bucket": "1"}), 1, 2)
    assert lake.java("tables")["tables"] == ["shop.orders"]
    assert lake.java("database", database="shop")["options"]["owner"] == "me"
    assert lake.java_rows("shop.orders") == [[1, "1"], [2, "2"]]
    lake.java("write", table="shop.orders", rows=[["+I", 3, "java"]])
    assert ids(ours.table("shop.orders")) == [1, 2, 3]
    lake.java("rename_table", table="shop.orders", to="shop.sales")
    assert ours.tables("shop") == ["sales"]
    assert ids(ours.table("shop.sales")) == [1, 2, 3]
    check_invariants(ours.table("shop.sales"), oracle=lake.oracle)
    lake.java("drop_table", table="shop.sales")
    assert ours.tables("shop") == []
    assert lake.database("paimon_distributed_locks") == []


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


def test_the_database_of_the_catalog_equals_that_of_java(oracle: Oracle, tmp_path: Path) -> None:
    for name in ("ours", "java"):
        (tmp_path / name).mkdir()
    ours, java = Lake(oracle, tmp_path / "ours"), Lake(oracle, tmp_path / "java")
    ours.ours.create_database("shop")
    ours.ours.create_table("shop.orders", COLUMNS)
    java.java("create", table="shop.orders", columns=COLUMNS)
    assert ours.columns() == java.columns()
    assert ours.database("paimon_tables") == java.database("paimon_tables") == [("lake", "shop", "orders")]
    mine, theirs = (item.database("paimon_database_properties") for item in (ours, java))
    assert [row[:3] for row in mine] == [row[:3] for row in theirs]
    assert [row[3].replace(str(item.folder), "") for item, rows in ((ours, mine), (java, theirs)) for row in rows] == [
        "true",
        "/warehouse/shop.db",
    ] * 2


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


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_commits_of_both_under_one_lock_are_kept(lake: Lake) -> None:
    commits = int(os.environ.get("PENSTOCK_MIXED_COMMITS", "40")) // 2
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
    writer.join()
    assert failures == []
    assert ids(table.refresh()) == [*range(commits), *range(1000, 1000 + commits)]
    assert lake.database("paimon_distributed_locks") == []
    # Java reads each of the snapshots, which takes longer than all commits of a night.
    check_invariants(table.refresh(), oracle=lake.oracle if commits <= 20 else None)


def _events(lake: Lake) -> Table:
    ours = lake.ours
    ours.create_database("shop")
    return ours.create_table("shop.events", COLUMNS, options={"bucket": "-1", "commit.max-retries": "100"})
