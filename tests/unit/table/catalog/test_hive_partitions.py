"""Partitions in a Hive metastore while two writers commit to a table, and after its history has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import StoreError
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.hive_commits import HiveCommits
from penstock.table.catalog.hive_partitions import HivePartitions
from penstock.table.handle import Table
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from penstock.table.meta.snapshot import Snapshot


@dataclass(eq=False)
class Metastore:
    """The partitions of one table, by their folders. `between` is called before a partition is dropped."""

    folders: set[str] = field(default_factory=set)
    between: Callable[[], object] = lambda: None

    def partition_names(self, database: str, table: str) -> set[str]:
        return set(self.folders)

    def table(self, database: str, table: str) -> Any:
        return SimpleNamespace(sd=SimpleNamespace(location="file:/lake"), dbName=database, tableName=table)

    def add_partitions(self, database: str, table: str, described: list[Any]) -> None:
        self.folders.update(partition.sd.location.removeprefix("file:/lake/") for partition in described)

    def drop_partition(self, database: str, table: str, folder: str) -> None:
        self.between()
        self.folders.discard(folder)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("shop")
    options = {"metastore.partitioned-table": "true"}
    return catalog.create_table("shop.orders", [("id", "INT"), ("day", "STRING")], [], ["day"], options)


def write(table: Table, day: str) -> Snapshot:
    with table.writer() as writer:
        writer.write(pa.table({"id": [1], "day": [day]}, schema=table.schema))
        writer.commit()
    return newest(table)


def newest(table: Table) -> Snapshot:
    found = table.store.snapshots.latest()
    assert found is not None
    return found


def test_the_first_commit_of_a_process_keeps_partitions_that_another_writer_has_just_added(table: Table) -> None:
    metastore: Any = Metastore()
    first = write(table, "1")
    metastore.between = lambda: pytest.fail("a partition with rows is dropped")
    # Before the writer of the first snapshot asks the metastore, another one commits and adds its partition.
    write(table, "2")
    metastore.folders = {"day=2"}
    HivePartitions(metastore).follow(table.store, first, ())
    assert metastore.folders == {"day=1", "day=2"}


def test_the_partitions_of_snapshots_that_are_rolled_back_are_dropped_at_once(table: Table) -> None:
    metastore: Any = Metastore()
    lake = Table(replace(table.store, commits=HiveCommits(metastore)))
    write(lake, "1")
    lake.delete("day = '1'")
    write(lake, "2")
    assert metastore.folders == {"day=2"}
    lake.rollback_to(1)
    assert metastore.folders == {"day=1"}
    # The process has not kept what the metastore had before.
    write(lake, "2")
    assert metastore.folders == {"day=1", "day=2"}


def test_the_partitions_of_a_fast_forwarded_branch_are_added_at_once(table: Table) -> None:
    metastore: Any = Metastore()
    lake = Table(replace(table.store, commits=HiveCommits(metastore)))
    write(lake, "1")
    lake.create_tag("one")
    lake.create_branch("dev", "one")
    write(lake.branch("dev"), "3")
    assert metastore.folders == {"day=1"}
    lake.fast_forward("dev")
    assert metastore.folders == {"day=1", "day=3"}


def test_a_rollback_is_done_when_the_metastore_fails(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    metastore: Any = Metastore()
    lake = Table(replace(table.store, commits=HiveCommits(metastore)))
    write(lake, "1")
    write(lake, "2")

    def refuse() -> None:
        raise StoreError("the metastore does not answer")

    metastore.between = refuse
    lake.rollback_to(1)
    assert newest(lake).id == 1
    assert "event=partitions_not_in_metastore" in caplog.text
    metastore.between = lambda: None
    write(lake, "3")
    assert metastore.folders == {"day=1", "day=3"}


def test_a_partition_that_gets_rows_again_while_it_is_dropped_is_added_again(table: Table) -> None:
    """The writer of these rows knows the partition, and does not add it."""
    metastore: Any = Metastore({"day=1", "day=2"})
    write(table, "1")
    write(table, "2")
    table.delete("day = '1'")
    metastore.between = lambda: write(table, "1")
    HivePartitions(metastore).fill(table.store)
    assert metastore.folders == {"day=1", "day=2"}


def two_writers(table: Table) -> tuple[Metastore, Table, Table]:
    """Return the metastore, and the table as writers in two processes have it: each knows what it has added itself."""
    metastore = Metastore()
    stores = (Metastore(metastore.folders), Metastore(metastore.folders))
    mine, others = (Table(replace(table.store, commits=HiveCommits(store))) for store in stores)  # type: ignore[arg-type]
    return metastore, mine, others


def test_a_partition_that_another_writer_has_dropped_is_added_again(table: Table) -> None:
    metastore, mine, others = two_writers(table)
    write(mine, "1")
    write(mine, "2")
    others.delete("day = '1'")
    assert metastore.folders == {"day=2"}
    write(mine, "1")
    assert metastore.folders == {"day=1", "day=2"}


def test_a_partition_that_another_writer_has_added_is_dropped_when_it_has_no_rows(table: Table) -> None:
    metastore, mine, others = two_writers(table)
    write(mine, "1")
    write(others, "2")
    mine.delete("day = '2'")
    assert metastore.folders == {"day=1"}


def test_partitions_are_compared_if_the_snapshots_of_others_have_expired(table: Table) -> None:
    metastore, mine, others = two_writers(table)
    write(mine, "1")
    others.delete("day = '1'")
    write(others, "2")
    expire_snapshots(table.store, retain_max=1, retain_min=1, protect_users=0)
    write(mine, "1")
    assert metastore.folders == {"day=1", "day=2"}
