"""Renames in a Hive metastore that end between the change of the name and the move of the folder."""

from __future__ import annotations

import copy
import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import ConfigError, StoreError
from penstock.storage.environment import Environment
from penstock.storage.local import LocalStorage
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.clone import copy_table
from penstock.table.catalog.hive_catalog import HiveCatalog
from penstock.table.catalog.unfinished import ChangeUnfinished
from penstock.table.meta.live import live_entries
from penstock.table.meta.store import TableMissing
from penstock.table.metastore.hive_client import NameMissing
from penstock.table.metastore.hive_objects import new_table
from penstock.table.schema.changes import AddColumn, UpdateColumnComment

AWAY = StoreError("the metastore does not answer")


class Metastore:
    """The entries of a metastore, which fails at a change of this number."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.entries, self.changes, self.fails_at = folder, dict[str, Any](), 0, 0

    def session(self) -> nullcontext[SimpleNamespace]:
        return nullcontext(SimpleNamespace(get_all_databases=lambda: ["shop"]))

    def tables(self, database: str) -> list[Any]:
        return [described for described in self.entries.values() if described.dbName == database]

    def database(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(locationUri=f"file:{self.folder}/{name}.db")

    def table(self, database: str, table: str) -> Any:
        if f"{database}.{table}" not in self.entries:
            raise NameMissing("no such table")
        return copy.deepcopy(self.entries[f"{database}.{table}"])

    def location(self, described: Any) -> str:
        return str(described.sd.location)

    def create(self, described: Any) -> None:
        self.entries[f"{described.dbName}.{described.tableName}"] = described

    def alter(self, database: str, table: str, described: Any) -> None:
        self.changes += 1
        if self.changes == self.fails_at:
            raise AWAY
        del self.entries[f"{database}.{table}"]
        self.create(described)


@pytest.fixture
def metastore(tmp_path: Path) -> Metastore:
    """Return a metastore with the table shop.orders, which has one row."""
    made = Metastore(tmp_path)
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("shop")
    table = catalog.create_table("shop.orders", [("id", "INT NOT NULL"), ("v", "STRING")])
    with table.writer() as writer:
        writer.write(pa.table({"id": [1], "v": ["x"]}, schema=table.schema))
        writer.commit()
    made.create(new_table("shop", "orders", f"file:{tmp_path}/shop.db/orders", table.definition))
    return made


def backend(folder: Path, metastore: Metastore) -> HiveCatalog:
    return HiveCatalog(str(folder), {"local.sync": "false"}, Environment(), metastore, None)  # type: ignore[arg-type]


def place(lake: HiveCatalog, name: str) -> str:
    """Return the folder of a table, whose files are complete."""
    store = lake.open(name, None)
    snapshot = store.snapshots.latest()
    assert snapshot is not None
    assert live_entries(store, snapshot)
    return store.paths.root


def test_a_renamed_table_has_a_folder_of_its_new_name(tmp_path: Path, metastore: Metastore) -> None:
    lake = backend(tmp_path, metastore)
    lake.rename_table("shop.orders", "shop.sales")
    assert lake.tables("shop") == ["sales"]
    assert place(lake, "shop.sales") == f"{tmp_path}/shop.db/sales"


@pytest.mark.parametrize("reason", [PermissionError(13, "Permission denied"), AWAY], ids=["refused", "away"])
def test_a_folder_that_is_not_moved_stays_the_place_of_the_renamed_table(
    tmp_path: Path, metastore: Metastore, monkeypatch: pytest.MonkeyPatch, reason: OSError
) -> None:
    lake = backend(tmp_path, metastore)

    def rename_tree(*_: object) -> None:
        raise reason

    monkeypatch.setattr(LocalStorage, "rename_tree", rename_tree)
    with pytest.raises(ChangeUnfinished, match="the name has changed, and the folder was not moved") as failed:
        lake.rename_table("shop.orders", "shop.sales")
    assert "complete as shop.sales in its old folder" in str(failed.value.hint)
    assert place(lake, "shop.sales") == f"{tmp_path}/shop.db/orders"


@pytest.mark.parametrize("name", ["shop.sales", "shop"])
def test_a_repair_enters_a_folder_that_a_rename_has_moved(tmp_path: Path, metastore: Metastore, name: str) -> None:
    lake, metastore.fails_at = backend(tmp_path, metastore), 2
    with pytest.raises(ChangeUnfinished) as failed:
        lake.rename_table("shop.orders", "shop.sales")
    assert "CALL sys.repair('shop.sales')" in str(failed.value.hint)
    assert [(table.name, table.outcome) for table in lake.repair(name)] == [("shop.sales", "updated")]
    assert metastore.entries["shop.sales"].sd.location == f"file:{tmp_path}/shop.db/sales"
    assert place(lake, "shop.sales") == f"{tmp_path}/shop.db/sales"
    assert [(table.name, table.outcome) for table in lake.repair(name)] == [("shop.sales", "unchanged")]


def test_a_repair_does_not_enter_the_old_folder_of_a_renamed_table_again(tmp_path: Path, metastore: Metastore) -> None:
    """Dropping the second table would delete the files of the first."""
    lake, entry = backend(tmp_path, metastore), metastore.entries.pop("shop.orders")
    entry.tableName = "sales"
    metastore.create(entry)
    assert [(table.name, table.outcome) for table in lake.repair("shop")] == [("shop.sales", "unchanged")]
    with pytest.raises(ConfigError, match=r"the place of the table shop\.sales"):
        lake.repair("shop.orders")
    # Nor is it the folder to which a rename has moved another table of that name, whose own is gone.
    lost = new_table("shop", "orders", f"file:{tmp_path}/gone", lake.open("shop.sales", None).schema())
    metastore.create(lost)
    with pytest.raises(TableMissing):
        lake.repair("shop.orders")
    assert {entry.sd.location for entry in metastore.entries.values()} == {
        f"file:{tmp_path}/gone",
        f"file:{tmp_path}/shop.db/orders",
    }


@pytest.mark.parametrize("kind", ["external", "elsewhere"])
def test_a_repair_leaves_places_that_no_rename_has_left(tmp_path: Path, metastore: Metastore, kind: str) -> None:
    """An external table keeps its place, and a table with files in its place is complete there."""
    lake, entry = backend(tmp_path, metastore), metastore.entries["shop.orders"]
    if kind == "external":
        entry.tableType, entry.sd.location = "EXTERNAL_TABLE", f"file:{tmp_path}/gone"
        entry.parameters["EXTERNAL"] = "TRUE"
    else:
        (tmp_path / "kept").mkdir()
        shutil.copytree(tmp_path / "shop.db" / "orders", tmp_path / "kept" / "orders")
        entry.sd.location = f"file:{tmp_path}/kept/orders"
    kept = entry.sd.location
    with nullcontext() if kind == "elsewhere" else pytest.raises(TableMissing):
        lake.repair("shop.orders")
    assert metastore.entries["shop.orders"].sd.location == kept


def test_nothing_changes_if_the_metastore_refuses_the_name(tmp_path: Path, metastore: Metastore) -> None:
    lake, metastore.fails_at = backend(tmp_path, metastore), 1
    with pytest.raises(StoreError, match="does not answer"):
        lake.rename_table("shop.orders", "shop.sales")
    assert place(lake, "shop.orders") == f"{tmp_path}/shop.db/orders"


def test_a_table_that_is_copied_by_files_has_its_newest_columns_in_the_metastore(
    tmp_path: Path, metastore: Metastore
) -> None:
    source = Catalog(tmp_path, {"local.sync": "false"}).table("shop.orders")
    source.store.evolve([AddColumn("price", "BIGINT"), UpdateColumnComment("v", "a text")], lambda *_: None)
    copy_table(source.refresh(), Catalog(str(tmp_path), backend=backend(tmp_path, metastore)), "shop.copied")
    columns = [(column.name, column.type, column.comment) for column in metastore.entries["shop.copied"].sd.cols]
    assert columns == [("id", "int", None), ("v", "string", "a text"), ("price", "bigint", None)]
    assert place(backend(tmp_path, metastore), "shop.copied") == f"{tmp_path}/shop.db/copied"
