"""A Hive catalog on a real metastore: names, descriptions, locks, pipelines and commands."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import CommitConflict, ConfigError, StoreError
from penstock.pipelines.commands.main import main
from penstock.storage.environment import Environment
from penstock.storage.local import LocalStorage
from penstock.table.catalog.hive_commits import HiveLocks
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from penstock.table.meta.store import TableMissing
from penstock.table.metastore.hive_client import HiveMetastore
from tests.here import run
from tests.integration.hive.overwriting_folders import overwriting_catalog
from tests.invariants import check_invariants
from tests.locked_catalog import OverwritingStorage
from tests.shop import Shop, insert
from tests.together import exit_codes, wait_for_others

pytestmark = [pytest.mark.hive, pytest.mark.slow]
COLUMNS = [("id", "INT NOT NULL"), ("v", "STRING")]
ROW_TYPE = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("v", pa.string())])


def options(metastore: str, **more: str) -> dict[str, str]:
    return {"metastore": "hive", "uri": metastore, "lock.enabled": "true", **more}


@pytest.fixture
def lake(metastore: str, tmp_path: Path) -> Iterator[penstock.Catalog]:
    catalog = penstock.Catalog(f"{tmp_path}/warehouse", options(metastore))
    yield catalog
    for database in catalog.databases():
        if database != "default":
            catalog.drop_database(database, cascade=True)


def described(metastore: str, name: str) -> Any:
    return HiveMetastore.of(metastore).table(*name.split("."))


def orders(lake: penstock.Catalog, name: str = "shop.orders", **more: str) -> Table:
    lake.create_database(name.split(".", maxsplit=1)[0], ignore_if_exists=True)
    return lake.create_table(name, COLUMNS, primary_keys=["id"], options={"bucket": "1", **more})


def put(table: Table, *ids: int) -> None:
    with table.writer() as writer:
        writer.write(pa.table({"id": list(ids), "v": [str(id_) for id_ in ids]}, schema=ROW_TYPE))
        writer.commit()


def ids(table: Table) -> list[int]:
    return sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())


def test_databases_have_properties_and_a_location(lake: penstock.Catalog, tmp_path: Path) -> None:
    assert lake.databases() == ["default"]
    lake.create_database("shop", properties={"comment": "sales", "team": "a"})
    where = f"file:{tmp_path}/warehouse/shop.db"
    assert lake.database_properties("shop") == {"comment": "sales", "team": "a", "location": where}
    lake.alter_database("shop", {"team": "b", "owned": "yes"})
    assert lake.database_properties("shop") == {"comment": "sales", "team": "b", "owned": "yes", "location": where}
    lake.alter_database("shop", {"owned": None})
    with pytest.raises(ConfigError, match="did not change the comment"):
        lake.alter_database("shop", {"comment": None})  # metastores from Hive 3 take another comment only
    assert lake.database_properties("shop") == {"comment": "sales", "team": "b", "location": where}
    lake.create_database("far", properties={"location": f"{tmp_path}/elsewhere"})
    assert orders(lake, "far.orders").path == f"{tmp_path}/elsewhere/orders"
    assert lake.databases() == ["default", "far", "shop"]
    with pytest.raises(ConfigError, match="exists already"):
        lake.create_database("shop")
    with pytest.raises(ConfigError, match="is not empty"):
        lake.drop_database("far")


def test_tables_are_created_listed_renamed_and_dropped(lake: penstock.Catalog) -> None:
    put(orders(lake), 1)
    with pytest.raises(ConfigError, match="exists already"):
        orders(lake)
    lake.create_database("ods")
    lake.rename_table("shop.orders", "ods.sales")
    assert (lake.tables("shop"), lake.tables("ods")) == ([], ["sales"])
    table = lake.table("ods.sales")
    assert (ids(table), table.path.rpartition("/warehouse/")[2]) == ([1], "ods.db/sales")
    put(table, 2)
    check_invariants(table)
    lake.drop_table("ods.sales")
    assert not Path(table.path).exists()
    with pytest.raises(TableMissing):
        lake.table("ods.sales")


def test_a_table_is_described_as_java_does(lake: penstock.Catalog, metastore: str) -> None:
    orders(lake, **{"file.format": "parquet"})
    found = described(metastore, "shop.orders")
    expected = {"bucket": "1", "file.format": "parquet", "primary-key": "id", "bucket-key": "id"}
    expected |= {"table_type": "PAIMON", "storage_handler": "org.apache.paimon.hive.PaimonStorageHandler"}
    assert expected.items() <= found.parameters.items()
    assert set(found.parameters) - set(expected) <= {"transient_lastDdlTime", "numFiles", "totalSize"}
    assert (found.tableType, found.retention, found.partitionKeys) == ("MANAGED_TABLE", 2147483647, [])
    assert [(col.name, col.type) for col in found.sd.cols] == [("id", "int"), ("v", "string")]
    assert found.sd.inputFormat == "org.apache.paimon.hive.mapred.PaimonInputFormat"
    assert found.sd.outputFormat == "org.apache.paimon.hive.mapred.PaimonOutputFormat"
    assert found.sd.serdeInfo.serializationLib == "org.apache.paimon.hive.PaimonSerDe"
    assert found.sd.location == f"file:{lake.table('shop.orders').path}"


def test_schema_changes_reach_the_metastore(lake: penstock.Catalog, metastore: str) -> None:
    orders(lake)
    found = described(metastore, "shop.orders")
    found.parameters["from.elsewhere"] = "kept"
    HiveMetastore.of(metastore).alter("shop", "orders", found)
    lake.alter_table(
        "shop.orders", [penstock.AddColumn("n", "BIGINT"), penstock.SetOption("num-sorted-run.stop-trigger", "9")]
    )
    found = described(metastore, "shop.orders")
    assert [col.name for col in found.sd.cols] == ["id", "v", "n"]
    assert (found.parameters["num-sorted-run.stop-trigger"], found.parameters["from.elsewhere"]) == ("9", "kept")
    lake.alter_table("shop.orders", [penstock.ResetOption("num-sorted-run.stop-trigger")])
    assert "num-sorted-run.stop-trigger" not in described(metastore, "shop.orders").parameters
    with pytest.raises(ConfigError, match="its names are lower case"):
        lake.alter_table("shop.orders", [penstock.AddColumn("Upper", "INT")])
    assert lake.table("shop.orders").schema.names == ["id", "v", "n"]


def test_a_change_that_the_metastore_refuses_is_undone(lake: penstock.Catalog) -> None:
    lake.create_database("shop")
    lake.create_table("shop.events", [("id", "INT"), ("v", "STRING")])
    with pytest.raises(ConfigError, match="is not possible in the metastore") as caught:
        lake.alter_table("shop.events", [penstock.UpdateColumnType("v", "INT")])
    assert "disallow.incompatible" in str(caught.value.hint)
    with pytest.raises(ConfigError, match="is not possible in the metastore") as caught:
        lake.alter_table("shop.events", [penstock.AddColumn("n", "INT", after="id")])
    assert "Add it without FIRST or AFTER" in str(caught.value.hint)
    assert [str(item.type) for item in lake.table("shop.events").schema] == ["int32", "string"]


def test_foreign_tables_are_neither_listed_nor_dropped(lake: penstock.Catalog, metastore: str) -> None:
    orders(lake)
    other = described(metastore, "shop.orders")
    other.tableName, other.sd.location = "plain", other.sd.location.replace("orders", "plain")
    other.sd.inputFormat, other.parameters = "org.apache.hadoop.mapred.TextInputFormat", {}
    HiveMetastore.of(metastore).create(other)
    try:
        assert lake.tables("shop") == ["orders"]
        assert not lake.table_exists("shop.plain")
        with pytest.raises(TableMissing, match="is not a Paimon table"):
            lake.table("shop.plain")
        with pytest.raises(TableMissing, match="is not a Paimon table"):
            lake.create_table("shop.plain", COLUMNS)
    finally:
        with HiveMetastore.of(metastore).session() as client:
            client.drop_table("shop", "plain", False)


def test_files_of_an_external_table_are_kept(lake: penstock.Catalog, metastore: str) -> None:
    table = orders(lake)
    put(table, 1)
    found = described(metastore, "shop.orders")
    found.tableType, found.parameters["EXTERNAL"] = "EXTERNAL_TABLE", "TRUE"
    # Hive 4 makes such a table of each managed one, which keeps its files with this parameter.
    found.parameters["external.table.purge"] = "FALSE"
    HiveMetastore.of(metastore).alter("shop", "orders", found)
    lake.drop_table("shop.orders")
    assert lake.tables("shop") == []
    assert ids(penstock.open_table(table.path)) == [1]
    with pytest.raises(ConfigError, match="contains a table that the metastore does not have"):
        lake.create_table("shop.orders", [("other", "INT")])


def test_a_table_may_be_in_any_folder(lake: penstock.Catalog, metastore: str, tmp_path: Path) -> None:
    path = str(tmp_path / "elsewhere" / "orders")
    lake.create_database("shop")
    put(lake.create_table("shop.orders", COLUMNS, ["id"], options={"bucket": "1", "path": path}), 1)
    assert lake.table("shop.orders").path == path
    lake.alter_table("shop.orders", [penstock.AddColumn("more", "INT")])
    assert described(metastore, "shop.orders").parameters["EXTERNAL"] == "TRUE"
    lake.rename_table("shop.orders", "shop.sales")
    assert lake.table("shop.sales").path == path
    # Without columns, the table that is there is meant as it is.
    lake.create_table("shop.again", [], options={"path": path})
    assert lake.table("shop.again").schema.names == ["id", "v", "more"]
    with pytest.raises(ConfigError, match="other columns"):
        lake.create_table("shop.other", [("id", "INT")], options={"path": path})
    with pytest.raises(ConfigError, match="relative path"):
        lake.create_table("shop.other", COLUMNS, options={"path": "elsewhere"})
    lake.drop_table("shop.sales")
    lake.drop_database("shop", cascade=True)
    assert ids(penstock.open_table(path)) == [1]


def test_creating_a_table_completes_the_creation_of_a_killed_process(lake: penstock.Catalog, metastore: str) -> None:
    table = orders(lake)
    with HiveMetastore.of(metastore).session() as client:
        client.drop_table("shop", "orders", False)
    assert lake.tables("shop") == []
    assert orders(lake).path == table.path
    assert lake.tables("shop") == ["orders"]


def test_names_with_upper_case_and_wrong_columns_of_tags_are_refused(lake: penstock.Catalog) -> None:
    lake.create_database("shop")
    for name, columns, more, message in (
        ("shop.Orders", COLUMNS, {}, "its names are lower case"),
        ("shop.orders", [("Id", "INT")], {}, "its names are lower case"),
        ("shop.orders", COLUMNS, {"metastore.tag-to-partition": "v"}, "= v is a column of the table"),
        ("shop.orders", COLUMNS, {"metastore.tag-to-partition": "Tag"}, "= Tag is not in lower case"),
    ):
        with pytest.raises(ConfigError, match=message):
            lake.create_table(name, columns, options=more)
    with pytest.raises(ConfigError, match="not possible for a table with partitions"):
        lake.create_table("shop.orders", COLUMNS, (), ["v"], {"metastore.tag-to-partition": "tag"})
    with pytest.raises(ConfigError, match="its names are lower case"):
        lake.create_database("Shop")
    assert lake.tables("shop") == []


def outcomes(lake: penstock.Catalog, names: str | None = None) -> list[tuple[str, str]]:
    return [(name.name, name.outcome) for name in lake.repair(names)]


def test_repair_makes_the_metastore_follow_the_tables(
    lake: penstock.Catalog, metastore: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(orders(lake), 1)
    put(orders(lake, "ods.orders"), 2)
    found = described(metastore, "ods.orders")
    found.parameters |= {"from.elsewhere": "kept", "bucket": "7", "comment": "stale"}
    found.sd.cols = found.sd.cols[:1]
    HiveMetastore.of(metastore).alter("ods", "orders", found)
    with HiveMetastore.of(metastore).session() as client:
        client.drop_database("shop", deleteData=False, cascade=True)
    assert outcomes(lake) == [("ods.orders", "updated"), ("shop.orders", "added")]
    assert outcomes(lake, "ods, shop.orders") == [("ods.orders", "unchanged"), ("shop.orders", "unchanged")]
    found = described(metastore, "ods.orders")
    assert [column.name for column in found.sd.cols] == ["id", "v"]
    assert (found.parameters["bucket"], found.parameters["from.elsewhere"]) == ("1", "kept")
    assert "comment" not in found.parameters
    put(lake.table("shop.orders"), 3)
    assert ids(lake.table("shop.orders")) == [1, 3]
    flags = ["--warehouse", f"{tmp_path}/warehouse", "--catalog-conf", f"uri={metastore}"]
    assert main(["repair", *flags, "--catalog-conf", "metastore=hive", "--identifier", "shop"]) == 0
    assert "1 table compared with the metastore" in capsys.readouterr().out
    called = penstock.sql("CALL sys.repair('ods')", warehouse=lake.warehouse, options=options(metastore))
    assert called.to_pydict() == {"result": ["ods.orders: unchanged"]}


def test_a_table_that_cannot_be_repaired_is_named_and_the_others_are_repaired(
    lake: penstock.Catalog, metastore: str, tmp_path: Path
) -> None:
    put(orders(lake), 1)
    folders = penstock.Catalog(f"{tmp_path}/warehouse")
    folders.create_table("shop.big", [("Id", "INT")])
    folders.create_table("shop.sales", COLUMNS)
    with pytest.raises(ConfigError, match="1 of 3 tables could not be repaired: column 'Id'") as caught:
        lake.repair("shop")
    assert caught.value.facts["tables"] == "shop.big"
    assert lake.tables("shop") == ["orders", "sales"]
    with pytest.raises(ConfigError, match="there is no database 'nowhere'"):
        lake.repair("nowhere")
    with pytest.raises(TableMissing):
        lake.repair("shop.missing")
    folders.create_table("shop.split", [*COLUMNS, ("dt", "STRING")], (), ["dt"])
    lake.repair("shop.split")
    folders.alter_table("shop.split", [penstock.SetOption("metastore.partitioned-table", "true")])
    with pytest.raises(ConfigError, match=r"has the partition columns \(\) and the table has \(dt\)"):
        lake.repair("shop.split")


def test_a_commit_waits_for_the_lock_and_fails_without_it(
    lake: penstock.Catalog, metastore: str, tmp_path: Path
) -> None:
    orders(lake)
    short = penstock.Catalog(f"{tmp_path}/warehouse", options(metastore, **{"lock-acquire-timeout": "500 ms"}))
    table = short.table("shop.orders")
    with HiveLocks(HiveMetastore.of(metastore), 10_000, 50).held("shop.orders", Environment()):
        with pytest.raises(CommitConflict, match="locked by another writer"):
            put(table, 1)
        with pytest.raises(CommitConflict, match="locked by another writer"):
            short.alter_table("shop.orders", [penstock.AddColumn("n", "INT")])
    assert not list(Path(table.path).rglob("manifest-*"))
    table = lake.table("shop.orders")  # on a busy machine the metastore needs longer than the short wait
    put(table, 2)
    assert ids(table) == [2]
    check_invariants(table)


def append_from(folder: str, metastore: str, first: str) -> None:
    """Commit in a separate process, on a store that overwrites files."""
    backend = overwriting_catalog(f"{folder}/warehouse", HiveMetastore.of(metastore))
    store = penstock.Catalog(f"{folder}/warehouse", backend=backend).store("shop.events")
    assert isinstance(store.storage, OverwritingStorage)
    OverwritingStorage.moment_s = 0.02  # of two commits, one would be lost without the lock
    wait_for_others()
    for number in range(int(first), int(first) + 10):
        put(Table(store), number)


def test_two_processes_lose_no_commit_on_a_store_that_overwrites(
    lake: penstock.Catalog, metastore: str, tmp_path: Path
) -> None:
    lake.create_database("shop")
    lake.create_table("shop.events", COLUMNS, options={"bucket": "-1", "commit.max-retries": "100"})
    code = f"import sys; from {__name__} import append_from; append_from(*sys.argv[1:])"
    words = [sys.executable, "-c", code, str(tmp_path), metastore]
    assert exit_codes(*([*words, first] for first in ("0", "100"))) == [0, 0]
    table = lake.table("shop.events")
    assert ids(table) == [first + number for first in (0, 100) for number in range(10)]
    check_invariants(table)


def test_tasks_open_the_same_tables(lake: penstock.Catalog, metastore: str, tmp_path: Path) -> None:
    put(orders(lake), 1)
    settings = pickle.loads(pickle.dumps(CatalogSettings.of(f"{tmp_path}/warehouse", options(metastore))))
    store = settings.store("shop.orders")
    assert ids(Table(pickle.loads(pickle.dumps(store)))) == [1]
    assert isinstance(store.storage, LocalStorage)


def test_a_pipeline_and_commands_use_the_metastore(
    metastore: str, lake: penstock.Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(tmp_path)
    sink = {"warehouse": f"{tmp_path}/warehouse", "metastore": "hive", "options": {"uri": metastore}}
    shop.put("1.json", insert("Orders", {"id": 1, "Name": "a"}))
    run(shop.spec(sink={"catalog": sink}))
    shop.put("2.json", insert("Orders", {"id": 2, "Name": "b", "Q": 7}))
    run(shop.spec(sink={"catalog": sink}))
    assert [item.name for item in described(metastore, "ods.orders").sd.cols] == ["id", "name", "q"]
    where = ["--warehouse", f"{tmp_path}/warehouse", "--catalog-conf", "metastore=hive"]
    where += ["--catalog-conf", f"uri={metastore}"]
    assert main(["tables", *where, "--json"]) == 0
    assert [item["table"] for item in json.loads(capsys.readouterr().out)["tables"]] == ["ods.orders"]
    assert main(["compact", *where, "--database", "ods", "--table", "orders"]) == 0
    assert ids(lake.table("ods.orders")) == [1, 2]


def test_a_metastore_that_does_not_answer_is_named(tmp_path: Path) -> None:
    catalog = penstock.Catalog(str(tmp_path), options("thrift://127.0.0.1:1"))
    with pytest.raises(StoreError, match="the Hive metastore does not answer") as caught:
        catalog.databases()
    assert caught.value.facts["metastore"] == "thrift://127.0.0.1:1"


def test_the_next_server_is_used_when_one_does_not_answer(metastore: str, tmp_path: Path) -> None:
    assert "default" in penstock.Catalog(str(tmp_path), options(f"thrift://127.0.0.1:1,{metastore}")).databases()
