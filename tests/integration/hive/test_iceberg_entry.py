"""Iceberg tables in a real metastore, as pyiceberg's Hive catalog finds and reads them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError, StoreError
from penstock.pipelines.commands.main import main
from penstock.table.handle import Table
from penstock.table.metastore.hive_client import HiveMetastore
from penstock.table.sql.interpreter import Interpreter
from tests.iceberg import ordered

pytestmark = [pytest.mark.hive, pytest.mark.slow]
COLUMNS = [("id", "BIGINT"), ("v", "STRING")]


def orders(metastore: str, folder: Path, database: str, **more: str) -> Table:
    """A table of a file system catalog, which is registered as `database.orders`."""
    catalog = penstock.Catalog(f"{folder}/warehouse")
    catalog.create_database("shop", ignore_if_exists=True)
    given = {"metadata.iceberg.storage": "hive-catalog", "metadata.iceberg.uri": metastore}
    given |= {"metadata.iceberg.database": database, "metadata.iceberg.manifest-compression": "gzip", **more}
    return catalog.create_table("shop.orders", COLUMNS, options=given)


def put(table: Table, *ids: int) -> None:
    with table.writer() as writer:
        writer.write(pa.table({"id": ids, "v": [f"v{number}" for number in ids]}, table.schema))
        writer.commit()


def iceberg(metastore: str, name: str) -> Any:
    """The table as a catalog of Iceberg loads it."""
    # Imported here: pyiceberg looks for snappy, which tests.iceberg provides, when it is imported.
    from pyiceberg.catalog.hive import HiveCatalog

    return HiveCatalog("lake", uri=metastore).load_table(name)


def entry(metastore: str, database: str) -> Any:
    return HiveMetastore.of(metastore).table(database, "orders")


def ids(metastore: str, database: str) -> list[int]:
    return sorted(iceberg(metastore, f"{database}.orders").scan().to_arrow()["id"].to_pylist())


def test_each_commit_is_read_by_the_hive_catalog_of_iceberg(metastore: str, tmp_path: Path) -> None:
    table = orders(metastore, tmp_path, "lake_reads")
    for number in range(3):
        put(table, number)
        assert ids(metastore, "lake_reads") == list(range(number + 1))
    shown = iceberg(metastore, "lake_reads.orders")
    assert ordered(shown.scan().to_arrow()) == ordered(table.scan().to_arrow())
    assert (entry(metastore, "lake_reads").tableType, shown.current_snapshot().snapshot_id) == ("EXTERNAL_TABLE", 3)
    table.rollback_to(2)
    assert ids(metastore, "lake_reads") == [0, 1]


def test_columns_of_the_entry_follow_the_table(metastore: str, tmp_path: Path) -> None:
    table = orders(metastore, tmp_path, "lake_columns")
    put(table, 1)
    catalog = penstock.Catalog(f"{tmp_path}/warehouse")
    catalog.alter_table("shop.orders", [penstock.AddColumn("w", "DECIMAL(10, 2)")])
    columns = [(column.name, column.type) for column in entry(metastore, "lake_columns").sd.cols]
    assert columns == [("id", "bigint"), ("v", "string"), ("w", "decimal(10,2)")]
    assert iceberg(metastore, "lake_columns.orders").schema().find_field("w").field_id == 2


def test_columns_that_a_metastore_refuses_follow_too(metastore: str, tmp_path: Path) -> None:
    # Imported here: pyiceberg looks for snappy, which tests.iceberg provides, when it is imported.
    from pyiceberg.table import StaticTable

    table = orders(metastore, tmp_path, "lake_moved")
    put(table, 1)
    with Interpreter(penstock.Catalog(f"{tmp_path}/warehouse"), "shop") as interpreter:
        for statement in (
            "ALTER TABLE orders ADD (s ROW<a INT>, d DECIMAL(10, 2))",
            "ALTER TABLE orders ADD (s.b STRING FIRST)",
            "ALTER TABLE orders MODIFY d DECIMAL(12, 2) FIRST",
            "ALTER TABLE orders DROP v",
            "INSERT INTO orders VALUES (1.5, 2, {'b': 'x', 'a': 2})",
            "CALL sys.expire_snapshots(table => 'shop.orders', retain_max => 1, older_than => '2100-01-01 00:00:00')",
        ):
            list(interpreter.run(statement))
            found, now = entry(metastore, "lake_moved"), table.refresh()
            assert [column.name for column in found.sd.cols] == now.schema.names
            # As a Hive catalog of Iceberg does; the one of pyiceberg has no request that Hive 4 knows.
            shown = StaticTable.from_metadata(found.parameters["metadata_location"])
            assert ordered(shown.scan().to_arrow()) == ordered(now.scan().to_arrow())
    assert entry(metastore, "lake_moved").sd.cols[0].type == "decimal(12,2)"


def test_a_metastore_that_is_away_delays_the_entry_and_no_commit(
    metastore: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = orders(metastore, tmp_path, "lake_away")
    put(table, 1)
    catalog = penstock.Catalog(f"{tmp_path}/warehouse")
    with caplog.at_level(logging.WARNING):
        catalog.alter_table("shop.orders", [penstock.SetOption("metadata.iceberg.uri", "thrift://127.0.0.1:1")])
        put(table.refresh(), 2)
        put(table.refresh(), 3)
    assert "event=iceberg_metadata_failed table=shop.orders reason=the Hive metastore does not answer" in caplog.text
    with pytest.raises(StoreError, match="does not answer"):
        table.refresh().publish_iceberg()
    assert table.refresh().scan().to_arrow().num_rows == 3
    # Readers of the metastore still find the version that it names.
    assert ids(metastore, "lake_away") == [1]
    catalog.alter_table("shop.orders", [penstock.SetOption("metadata.iceberg.uri", metastore)])
    assert ids(metastore, "lake_away") == [1, 2, 3]


def test_a_table_of_another_kind_is_not_replaced(metastore: str, tmp_path: Path) -> None:
    hive = penstock.Catalog(f"{tmp_path}/hive", {"metastore": "hive", "uri": metastore})
    hive.create_database("lake_taken")
    hive.create_table("lake_taken.orders", COLUMNS)
    table = orders(metastore, tmp_path, "lake_taken")
    put(table, 1)
    with pytest.raises(ConfigError, match="another table, which is not an Iceberg table") as caught:
        table.publish_iceberg()
    assert "metadata.iceberg.database" in (caught.value.hint or "")
    assert entry(metastore, "lake_taken").parameters["table_type"] == "PAIMON"
    other = orders(metastore, tmp_path / "other", "lake_taken", **{"metadata.iceberg.table": "orders_iceberg"})
    put(other, 5)
    again = orders(metastore, tmp_path / "third", "lake_taken", **{"metadata.iceberg.table": "orders_iceberg"})
    put(again, 6)
    with pytest.raises(ConfigError, match="has its metadata in another folder"):
        again.publish_iceberg()
    assert iceberg(metastore, "lake_taken.orders_iceberg").scan().to_arrow()["id"].to_pylist() == [5]
    penstock.Catalog(f"{tmp_path}/third/warehouse").drop_table("shop.orders")
    assert iceberg(metastore, "lake_taken.orders_iceberg").scan().to_arrow()["id"].to_pylist() == [5]


def test_the_entry_is_renamed_and_dropped_with_its_table(metastore: str, tmp_path: Path) -> None:
    table = orders(metastore, tmp_path, "lake_names")
    put(table, 1)
    catalog = penstock.Catalog(f"{tmp_path}/warehouse")
    catalog.rename_table("shop.orders", "shop.bills")
    known = HiveMetastore.of(metastore)
    assert [name.tableName for name in known.tables("lake_names")] == ["bills"]
    assert iceberg(metastore, "lake_names.bills").scan().to_arrow()["id"].to_pylist() == [1]
    catalog.drop_table("shop.bills")
    assert known.tables("lake_names") == []


def test_the_command_registers_a_table_that_exists(
    metastore: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = penstock.Catalog(f"{tmp_path}/warehouse")
    catalog.create_database("shop")
    put(catalog.create_table("shop.orders", COLUMNS), 1, 2)
    command = ["publish-iceberg", "--warehouse", f"{tmp_path}/warehouse", "--database", "shop", "--table", "orders"]
    assert main(command) == 2
    assert "the table has no Iceberg metadata" in capsys.readouterr().err
    settings = {"storage": "hive-catalog", "uri": metastore, "database": "lake_command", "manifest-compression": "gzip"}
    changes = [penstock.SetOption(f"metadata.iceberg.{name}", value) for name, value in settings.items()]
    catalog.alter_table("shop.orders", changes)
    with HiveMetastore.of(metastore).session() as client:
        client.drop_table("lake_command", "orders", deleteData=False)
    assert main(command) == 0
    assert ids(metastore, "lake_command") == [1, 2]


def test_a_metastore_without_address_is_refused(tmp_path: Path) -> None:
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("shop")
    with pytest.raises(ConfigError, match=r"needs metadata\.iceberg\.uri"):
        catalog.create_table("shop.t", COLUMNS, options={"metadata.iceberg.storage": "hive-catalog"})
