"""Iceberg tables in a real REST catalog, as pyiceberg finds and reads them."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError, StoreError
from penstock.pipelines.commands.main import main
from penstock.table.handle import Table
from penstock.table.metastore.iceberg_client import IcebergCatalogClient
from tests.iceberg import VECTORS, opened, ordered
from tests.waiting import ended

pytestmark = [pytest.mark.java, pytest.mark.slow]
COLUMNS = [("id", "BIGINT"), ("v", "STRING"), ("amount", "DECIMAL(10, 2)"), ("dt", "STRING")]


def orders(uri: str, folder: Path, database: str, keys: tuple[str, ...] = (), **more: str) -> Table:
    """A table of a file system catalog, which is registered as `database.orders`."""
    catalog = penstock.Catalog(f"{folder}/warehouse")
    catalog.create_database("shop", ignore_if_exists=True)
    given = {"metadata.iceberg.storage": "rest-catalog", "metadata.iceberg.rest.uri": uri}
    given |= {"metadata.iceberg.database": database, "metadata.iceberg.manifest-compression": "gzip", **more}
    return catalog.create_table("shop.orders", COLUMNS, keys, () if keys else ["dt"], given)


def put(table: Table, *ids: int) -> None:
    table = table.refresh()
    columns = {"id": list(ids), "v": [f"v{number}" for number in ids], "dt": [f"d{number % 2}" for number in ids]}
    arrays = [pa.array(columns.get(field.name, [None] * len(ids)), field.type) for field in table.schema]
    with table.writer() as writer:
        writer.write(pa.table(arrays, schema=table.schema))
        writer.commit()


def iceberg(uri: str, name: str) -> Any:
    """The table as a catalog of Iceberg loads it."""
    # Imported here: pyiceberg looks for snappy, which tests.iceberg provides, when it is imported.
    from pyiceberg.catalog.rest import RestCatalog

    return RestCatalog("lake", uri=uri).load_table(name)


def ids(uri: str, database: str, snapshot: int | None = None) -> list[int]:
    found = iceberg(uri, f"{database}.orders").scan(snapshot_id=snapshot).to_arrow()
    return sorted(found["id"].to_pylist())


def test_each_commit_is_read_by_a_rest_catalog_of_iceberg(catalog_uri: str, tmp_path: Path) -> None:
    table = orders(catalog_uri, tmp_path, "reads")
    for number in range(3):
        put(table, number)
        assert ids(catalog_uri, "reads") == list(range(number + 1))
    shown = iceberg(catalog_uri, "reads.orders")
    assert ordered(shown.scan().to_arrow()) == ordered(table.refresh().scan().to_arrow())
    assert shown.current_snapshot().snapshot_id == 3
    assert [field.name for field in shown.spec().fields] == ["dt"]
    assert [field.field_id for field in shown.schema().fields] == [0, 1, 2, 3]
    assert shown.metadata.properties["gc.enabled"] == "false"
    assert ids(catalog_uri, "reads", snapshot=1) == [0]
    files = [task.file.file_path for task in shown.scan(row_filter="dt = 'd1'").plan_files()]
    assert [Path(file).parts[-3:-1] for file in files] == [("dt=d1", "bucket-0")]


def test_columns_tags_and_rollbacks_follow_the_table(catalog_uri: str, tmp_path: Path) -> None:
    table = orders(catalog_uri, tmp_path, "follows")
    catalog = penstock.Catalog(f"{tmp_path}/warehouse")
    put(table, 1)
    table.refresh().create_tag("first")
    # A version of the schema with the same columns, which the catalog does not number.
    catalog.alter_table("shop.orders", [penstock.SetOption("commit.max-retries", "20")])
    catalog.alter_table("shop.orders", [penstock.AddColumn("w", "INT"), penstock.DropColumn("amount")])
    put(table, 2)
    put(table, 3)
    shown = iceberg(catalog_uri, "follows.orders")
    assert [field.name for field in shown.schema().fields] == ["id", "v", "dt", "w"]
    assert {name: ref.snapshot_id for name, ref in shown.metadata.refs.items()} == {"main": 3, "first": 1}
    assert shown.scan(snapshot_id=1).to_arrow().schema.names == ["id", "v", "amount", "dt"]
    table.refresh().rollback_to(2)
    assert ids(catalog_uri, "follows") == [1, 2]
    put(table, 7)
    assert ids(catalog_uri, "follows") == [1, 2, 7]
    table.refresh().delete_tag("first")
    put(table, 8)
    table.refresh().expire_snapshots(retain_max=1, retain_min=1)
    put(table, 9)
    shown = iceberg(catalog_uri, "follows.orders")
    assert list(shown.metadata.refs) == ["main"]
    assert [snapshot.snapshot_id for snapshot in shown.metadata.snapshots] == [4, 5]
    assert ids(catalog_uri, "follows", snapshot=4) == [1, 2, 7, 8]


def test_deletion_vectors_are_read_from_version_3(catalog_uri: str, tmp_path: Path) -> None:
    table = orders(catalog_uri, tmp_path, "vectors", ("id",), bucket="1", **VECTORS)
    for numbers in ((1, 2, 3), (2, 4)):
        put(table, *numbers)
        table.refresh().compact()
    table.refresh().delete("id = 3")
    table.refresh().compact()
    shown = iceberg(catalog_uri, "vectors.orders")
    assert shown.metadata.format_version == 3
    assert ordered(shown.scan().to_arrow()) == ordered(table.refresh().scan().to_arrow())
    assert ids(catalog_uri, "vectors") == [1, 2, 4]


def test_a_catalog_that_is_away_delays_the_entry_and_no_commit(
    catalog_uri: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = orders(catalog_uri, tmp_path, "away")
    put(table, 1)
    catalog = penstock.Catalog(f"{tmp_path}/warehouse")
    with caplog.at_level(logging.WARNING):
        catalog.alter_table("shop.orders", [penstock.SetOption("metadata.iceberg.rest.uri", "http://127.0.0.1:1")])
        put(table, 2)
        put(table, 3)
    assert "table=shop.orders reason=the Iceberg REST catalog does not answer" in caplog.text
    with pytest.raises(StoreError, match="does not answer"):
        table.refresh().publish_iceberg()
    assert table.refresh().scan().to_arrow().num_rows == 3
    # Readers of the catalog still find all files of the snapshot that it names.
    assert ids(catalog_uri, "away") == [1]
    catalog.alter_table("shop.orders", [penstock.SetOption("metadata.iceberg.rest.uri", catalog_uri)])
    assert ids(catalog_uri, "away") == [1, 2, 3]


def test_a_change_whose_reply_is_lost_is_made_once(
    catalog_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = orders(catalog_uri, tmp_path, "lost")
    change = IcebergCatalogClient.change

    def cut(*given: Any) -> None:
        change(*given)
        raise StoreError("the Iceberg REST catalog does not answer: a fault of the test")

    for number in (1, 2):
        with monkeypatch.context() as broken:
            broken.setattr(IcebergCatalogClient, "change", cut)
            put(table, number)
        table.refresh().publish_iceberg()
        assert ids(catalog_uri, "lost") == list(range(1, number + 1))
    with monkeypatch.context() as closed:
        closed.setattr(IcebergCatalogClient, "change", lambda *_: pytest.fail("a change was sent"))
        table.refresh().publish_iceberg()


def test_two_writers_leave_the_newest_snapshot_in_the_catalog(catalog_uri: str, tmp_path: Path) -> None:
    table = orders(catalog_uri, tmp_path, "race", **{"commit.max-retries": "100"})

    def write(first: int) -> None:
        for number in range(first, first + 5):
            put(table, number)

    writers = [threading.Thread(target=write, args=(first,)) for first in (0, 10)]
    for writer in writers:
        writer.start()
    for writer in writers:
        ended(writer)
    table.refresh().publish_iceberg()
    assert ids(catalog_uri, "race") == [*range(5), *range(10, 15)]
    shown = iceberg(catalog_uri, "race.orders").metadata.snapshots
    published = opened(tmp_path / "warehouse" / "iceberg" / "shop" / "orders" / "metadata").metadata.snapshots
    assert [snapshot.manifest_list for snapshot in shown] == [snapshot.manifest_list for snapshot in published]
    assert shown[-1].snapshot_id == 10


def test_a_table_with_other_files_is_not_replaced(catalog_uri: str, tmp_path: Path) -> None:
    put(orders(catalog_uri, tmp_path, "taken"), 1)
    other = orders(catalog_uri, tmp_path / "other", "taken")
    put(other, 5)
    with pytest.raises(ConfigError, match="has another table of this name") as caught:
        other.publish_iceberg()
    assert "metadata.iceberg.database" in (caught.value.hint or "")
    assert ids(catalog_uri, "taken") == [1]
    penstock.Catalog(f"{tmp_path}/other/warehouse").drop_table("shop.orders")
    assert ids(catalog_uri, "taken") == [1]


def test_the_entry_is_renamed_and_dropped_with_its_table(catalog_uri: str, tmp_path: Path) -> None:
    table = orders(catalog_uri, tmp_path, "names")
    put(table, 1)
    catalog = penstock.Catalog(f"{tmp_path}/warehouse")
    catalog.rename_table("shop.orders", "shop.bills")
    from pyiceberg.catalog.rest import RestCatalog

    known = RestCatalog("lake", uri=catalog_uri)
    assert known.list_tables("names") == [("names", "bills")]
    assert known.load_table("names.bills").scan().to_arrow()["id"].to_pylist() == [1]
    catalog.drop_table("shop.bills")
    assert known.list_tables("names") == []


def test_a_table_with_other_partitions_replaces_its_former_entry(catalog_uri: str, tmp_path: Path) -> None:
    put(orders(catalog_uri, tmp_path, "again", **{"metadata.iceberg.storage-location": "table-location"}), 1)
    catalog = penstock.Catalog(f"{tmp_path}/warehouse")
    catalog.alter_table("shop.orders", [penstock.SetOption("metadata.iceberg.storage", "table-location")])
    catalog.drop_table("shop.orders")
    more = {"metadata.iceberg.storage-location": "table-location", "bucket": "1"}
    again = orders(catalog_uri, tmp_path, "again", ("id",), **more)
    put(again, 2)
    again.refresh().compact()
    shown = iceberg(catalog_uri, "again.orders")
    assert (shown.spec().fields, ids(catalog_uri, "again")) == ((), [2])


def test_the_command_registers_a_table_that_exists(catalog_uri: str, tmp_path: Path) -> None:
    catalog = penstock.Catalog(f"{tmp_path}/warehouse")
    catalog.create_database("shop")
    put(catalog.create_table("shop.orders", COLUMNS), 1, 2)
    given = {"storage": "rest-catalog", "rest.uri": catalog_uri, "database": "command", "manifest-compression": "gzip"}
    changes = [penstock.SetOption(f"metadata.iceberg.{name}", value) for name, value in given.items()]
    catalog.alter_table("shop.orders", changes)
    IcebergCatalogClient.of(catalog_uri, {}).drop("command", "orders")
    command = ["publish-iceberg", "--warehouse", f"{tmp_path}/warehouse", "--database", "shop", "--table", "orders"]
    assert main(command) == 0
    assert ids(catalog_uri, "command") == [1, 2]
