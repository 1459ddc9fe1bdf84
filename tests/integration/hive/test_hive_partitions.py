"""Partitions in a real metastore: added and dropped with the commits, mended by later ones, and never in their way."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError, StoreError
from penstock.table.catalog import hive_partitions
from penstock.table.handle import Table
from penstock.table.metastore.hive_client import HiveMetastore
from tests.invariants import check_invariants

pytestmark = [pytest.mark.hive, pytest.mark.slow]
COLUMNS = [("id", "INT NOT NULL"), ("v", "STRING"), ("dt", "STRING"), ("hh", "INT")]
ROW_TYPE = pa.schema([("id", pa.int32()), ("v", pa.string()), ("dt", pa.string()), ("hh", pa.int32())])


@pytest.fixture
def lake(metastore: str, tmp_path: Path) -> Iterator[penstock.Catalog]:
    catalog = penstock.Catalog(f"{tmp_path}/warehouse", {"metastore": "hive", "uri": metastore})
    catalog.create_database("parts")
    yield catalog
    for database in catalog.databases():
        if database != "default":
            catalog.drop_database(database, cascade=True)


@pytest.fixture
def orders(lake: penstock.Catalog) -> Table:
    options = {"bucket": "-1", "metastore.partitioned-table": "true"}
    return lake.create_table("parts.orders", COLUMNS, (), ["dt", "hh"], options)


def put(table: Table, *partitions: tuple[str | None, int]) -> None:
    days, hours = zip(*partitions, strict=True)
    ids = list(range(len(partitions)))
    with table.writer() as writer:
        writer.write(pa.table({"id": ids, "v": ["a"] * len(ids), "dt": days, "hh": hours}, schema=ROW_TYPE))
        writer.commit()


def partitions(metastore: str, table: str = "orders") -> dict[str, Any]:
    with HiveMetastore.of(metastore).session() as client:
        found = client.get_partitions("parts", table, -1)
        names = client.get_partition_names("parts", table, -1)
    return dict(zip(sorted(names), sorted(found, key=lambda partition: partition.sd.location), strict=True))


def owed(lake: penstock.Catalog, table: str = "orders") -> list[str]:
    store = lake.store(f"parts.{table}")
    return store.commits.owed_partitions(store)


def test_partitions_follow_the_commits(orders: Table, metastore: str) -> None:
    described = HiveMetastore.of(metastore).table("parts", "orders")
    assert [key.name for key in described.partitionKeys] == ["dt", "hh"]
    assert [column.name for column in described.sd.cols] == ["id", "v"]
    put(orders, ("2026-01-01", 1), ("2026-01-01", 2))
    put(orders, ("2026-01-01", 2), ("a:b/c", 3), (None, 4))
    found = partitions(metastore)
    assert sorted(found) == [
        "dt=2026-01-01/hh=1",
        "dt=2026-01-01/hh=2",
        "dt=__DEFAULT_PARTITION__/hh=4",
        "dt=a%3Ab%2Fc/hh=3",
    ]
    partition = found["dt=2026-01-01/hh=1"]
    assert (partition.values, partition.sd.location) == (["2026-01-01", "1"], f"file:{orders.path}/dt=2026-01-01/hh=1")
    assert partition.sd.inputFormat == described.sd.inputFormat
    check_invariants(orders.refresh())


def test_a_partition_without_rows_is_dropped_unless_a_branch_may_have_some(orders: Table, metastore: str) -> None:
    put(orders, ("a", 1), ("b", 1), ("c", 1))
    orders.refresh().drop_partitions([{"dt": "a"}])
    assert sorted(partitions(metastore)) == ["dt=b/hh=1", "dt=c/hh=1"]
    orders.refresh().delete("dt = 'b'")
    assert sorted(partitions(metastore)) == ["dt=c/hh=1"]
    orders.create_branch("side")
    orders.refresh().drop_partitions([{"dt": "c"}])
    assert sorted(partitions(metastore)) == ["dt=c/hh=1"]


def test_one_request_adds_all_new_partitions_and_none_is_sent_without_any(
    orders: Table, metastore: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    add = HiveMetastore.add_partitions
    monkeypatch.setattr(HiveMetastore, "add_partitions", lambda *given: (sent.append(len(given[3])), add(*given)))
    put(orders, *((f"d{number}", number) for number in range(50)))
    assert sent == [50]
    with monkeypatch.context() as closed:
        closed.setattr(HiveMetastore, "session", lambda _: pytest.fail("the metastore was asked"))
        put(orders.refresh(), ("d1", 1))
    put(orders.refresh(), ("d1", 1), ("new", 1))
    assert sent == [50, 1]


def test_what_the_metastore_missed_is_mended_by_the_next_commit(
    lake: penstock.Catalog,
    orders: Table,
    metastore: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def unreachable(*_: object) -> None:
        raise StoreError("the Hive metastore does not answer: a fault of the test")

    with monkeypatch.context() as broken, caplog.at_level(logging.WARNING):
        broken.setattr(HiveMetastore, "add_partitions", unreachable)
        put(orders, ("a", 1))
        put(orders.refresh(), ("b", 1))
    assert "event=partitions_not_in_metastore table=parts.orders" in caplog.text
    assert partitions(metastore) == {}
    assert owed(lake) == ["dt=a/hh=1", "dt=b/hh=1"]
    put(orders.refresh(), ("c", 1))
    assert owed(lake) == []
    assert sorted(partitions(metastore)) == ["dt=a/hh=1", "dt=b/hh=1", "dt=c/hh=1"]
    hive_partitions._known.clear()  # as after a crash between a commit and its request
    with HiveMetastore.of(metastore).session() as client:
        client.drop_partition_by_name("parts", "orders", "dt=b/hh=1", False)
    put(orders.refresh(), ("c", 1))
    assert sorted(partitions(metastore)) == ["dt=a/hh=1", "dt=b/hh=1", "dt=c/hh=1"]
    with monkeypatch.context() as broken:
        broken.setattr(HiveMetastore, "drop_partition", unreachable)
        orders.refresh().drop_partitions([{"dt": "b"}])
    assert owed(lake) == ["dt=b/hh=1"]
    orders.create_branch("side")
    assert owed(lake) == []  # the branch may have rows there, so no commit drops it


def test_a_table_that_is_renamed_or_created_again_has_its_partitions(
    lake: penstock.Catalog, orders: Table, metastore: str
) -> None:
    put(orders, ("a", 1))
    lake.rename_table("parts.orders", "parts.sales")
    found = partitions(metastore, "sales")
    assert [partition.sd.location for partition in found.values()] == [
        f"file:{lake.table('parts.sales').path}/dt=a/hh=1"
    ]
    lake.drop_table("parts.sales")
    options = {"bucket": "-1", "metastore.partitioned-table": "true"}
    put(lake.create_table("parts.sales", COLUMNS, (), ["dt", "hh"], options), ("a", 1))
    assert sorted(partitions(metastore, "sales")) == ["dt=a/hh=1"]


def test_columns_follow_and_the_option_stays(lake: penstock.Catalog, orders: Table, metastore: str) -> None:
    put(orders, ("a", 1))
    lake.alter_table("parts.orders", [penstock.AddColumn("n", "INT")])
    put(lake.table("parts.orders"), ("b", 1))
    described = HiveMetastore.of(metastore).table("parts", "orders")
    assert [column.name for column in described.sd.cols] == ["id", "v", "n"]
    assert sorted(partitions(metastore)) == ["dt=a/hh=1", "dt=b/hh=1"]
    with pytest.raises(ConfigError, match=r"metastore.partitioned-table cannot be changed"):
        lake.alter_table("parts.orders", [penstock.ResetOption("metastore.partitioned-table")])
    plain = lake.create_table("parts.plain", COLUMNS, (), ["dt"], {"bucket": "-1"})
    with pytest.raises(ConfigError, match=r"metastore.partitioned-table cannot be changed"):
        lake.alter_table("parts.plain", [penstock.SetOption("metastore.partitioned-table", "true")])
    put(plain, ("a", 1))
    assert partitions(metastore, "plain") == {}


def test_tags_are_partitions(lake: penstock.Catalog, metastore: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"bucket": "-1", "metastore.tag-to-partition": "tag"}
    table = lake.create_table("parts.tagged", COLUMNS, (), (), options)
    described = HiveMetastore.of(metastore).table("parts", "tagged")
    assert [key.name for key in described.partitionKeys] == ["tag"]
    assert [column.name for column in described.sd.cols] == ["id", "v", "dt", "hh"]
    put(table, ("a", 1))
    table.create_tag("one")
    put(table.refresh(), ("a", 2))
    table.refresh().create_tag("two")
    assert sorted(partitions(metastore, "tagged")) == ["tag=one", "tag=two"]
    table.refresh().rename_tag("one", "first")
    assert sorted(partitions(metastore, "tagged")) == ["tag=first", "tag=two"]
    table.refresh().rollback_to(1)
    assert sorted(partitions(metastore, "tagged")) == ["tag=first"]
    with monkeypatch.context() as broken:
        broken.setattr(HiveMetastore, "add_partitions", _fail)
        table.refresh().create_tag("missed")
    assert sorted(partitions(metastore, "tagged")) == ["tag=first"]
    assert owed(lake, "tagged") == ["tag=missed"]
    table.refresh().create_tag("next")
    assert sorted(partitions(metastore, "tagged")) == ["tag=first", "tag=missed", "tag=next"]
    with HiveMetastore.of(metastore).session() as client:
        client.drop_table("parts", "tagged", False)
    assert [table.outcome for table in lake.repair("parts")] == ["added"]
    assert sorted(partitions(metastore, "tagged")) == ["tag=first", "tag=missed", "tag=next"]
    with pytest.raises(ConfigError, match=r"metastore.tag-to-partition cannot be changed"):
        lake.alter_table("parts.tagged", [penstock.ResetOption("metastore.tag-to-partition")])


def _fail(*_: object) -> None:
    raise StoreError("the Hive metastore does not answer: a fault of the test")
