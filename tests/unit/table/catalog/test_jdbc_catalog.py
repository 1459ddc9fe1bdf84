"""The rows of the JDBC catalog in its database, its options and refusals."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.storage.environment import Environment
from penstock.storage.local import LocalStorage
from penstock.table.catalog.jdbc_catalog import JdbcCatalog
from penstock.table.catalog.jdbc_lock import LockedCommits
from penstock.table.catalog.jdbc_options import open_jdbc
from penstock.table.meta.store import FileCommits, TableMissing

COLUMNS = [("id", "INT NOT NULL"), ("v", "STRING")]


def options(folder: Path, **more: str) -> dict[str, str]:
    given = {name.replace("_", "-"): value for name, value in more.items()}
    return {"metastore": "jdbc", "uri": f"jdbc:sqlite:{folder}/names.db", "local.sync": "false", **given}


def catalog(folder: Path, **more: str) -> penstock.Catalog:
    return penstock.Catalog(str(folder / "warehouse"), options(folder, **more))


def rows(folder: Path, table: str) -> list[tuple[str, ...]]:
    with sqlite3.connect(folder / "names.db") as connection:
        return sorted(connection.execute(f"SELECT * FROM {table}").fetchall())


def test_names_are_rows_as_java_writes_them(tmp_path: Path) -> None:
    lake = catalog(tmp_path, catalog_key="lake")
    lake.create_database("shop", properties={"owner": "me"})
    lake.create_table("shop.orders", COLUMNS)
    assert rows(tmp_path, "paimon_tables") == [("lake", "shop", "orders")]
    assert rows(tmp_path, "paimon_database_properties") == [
        ("lake", "shop", "exists", "true"),
        ("lake", "shop", "location", f"{tmp_path}/warehouse/shop.db"),
        ("lake", "shop", "owner", "me"),
    ]
    assert lake.database_properties("shop") == {"location": f"{tmp_path}/warehouse/shop.db", "owner": "me"}
    lake.create_database("ods")
    lake.rename_table("shop.orders", "ods.sales")
    assert rows(tmp_path, "paimon_tables") == [("lake", "ods", "sales")]
    assert (tmp_path / "warehouse" / "ods.db" / "sales" / "schema").exists()
    lake.drop_database("ods", cascade=True)
    lake.drop_database("shop")
    assert rows(tmp_path, "paimon_tables") == rows(tmp_path, "paimon_database_properties") == []
    assert not (tmp_path / "warehouse" / "ods.db" / "sales").exists()


def test_catalogs_of_one_database_have_keys(tmp_path: Path) -> None:
    catalog(tmp_path).create_database("shop")
    assert catalog(tmp_path, catalog_key="other").databases() == []
    assert catalog(tmp_path, catalog_key="jdbc").databases() == ["shop"]


def test_a_database_that_only_has_tables_exists(tmp_path: Path) -> None:
    lake = catalog(tmp_path)
    assert lake.databases() == []
    with sqlite3.connect(tmp_path / "names.db") as connection:
        connection.execute("INSERT INTO paimon_tables VALUES ('jdbc', 'shop', 'orders')")
    assert lake.databases() == ["shop"]
    with pytest.raises(TableMissing):
        lake.table("shop.orders")


def test_creating_a_table_completes_the_creation_of_a_killed_process(tmp_path: Path) -> None:
    lake = catalog(tmp_path)
    lake.create_database("shop")
    with sqlite3.connect(tmp_path / "names.db") as connection:
        connection.execute("INSERT INTO paimon_tables VALUES ('jdbc', 'shop', 'orders')")
    assert lake.create_table("shop.orders", COLUMNS).schema.names == ["id", "v"]


def test_a_name_without_a_folder_can_be_dropped(tmp_path: Path) -> None:
    lake = catalog(tmp_path)
    lake.create_database("shop")
    with sqlite3.connect(tmp_path / "names.db") as connection:
        connection.execute("INSERT INTO paimon_tables VALUES ('jdbc', 'shop', 'orders')")
    lake.drop_table("shop.orders")
    assert lake.tables("shop") == []


def test_a_table_in_the_folder_that_is_not_in_the_catalog_is_kept(tmp_path: Path) -> None:
    folders = penstock.Catalog(str(tmp_path / "warehouse"))
    folders.create_database("shop")
    folders.create_table("shop.orders", COLUMNS)
    lake = catalog(tmp_path)
    lake.create_database("shop")
    assert lake.tables("shop") == []
    with pytest.raises(ConfigError, match="contains a table that this catalog does not have"):
        lake.create_table("shop.orders", COLUMNS)
    assert lake.tables("shop") == []
    lake.drop_database("shop", cascade=True)
    assert folders.table("shop.orders").schema.names == ["id", "v"]


def test_a_folder_that_cannot_be_moved_keeps_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = catalog(tmp_path)
    lake.create_database("shop")
    lake.create_table("shop.orders", COLUMNS)

    def refuse(*_: object) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr("penstock.storage.local.LocalStorage.rename_tree", refuse)
    with pytest.raises(PermissionError):
        lake.rename_table("shop.orders", "shop.sales")
    assert lake.tables("shop") == ["orders"]


class Died(Exception):
    """The process dies."""


def dies(*_: object) -> None:
    raise Died


@pytest.mark.parametrize("point", ["before the folder is moved", "before the name changes", "after the name changed"])
def test_a_rename_that_was_killed_is_completed_when_it_is_called_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    lake = catalog(tmp_path)
    lake.create_database("shop")
    lake.create_table("shop.orders", COLUMNS)
    place = {
        "before the folder is moved": "penstock.storage.local.LocalStorage.rename_tree",
        "before the name changes": "penstock.table.catalog.jdbc_catalog.JdbcCatalog._update",
        "after the name changed": "penstock.table.catalog.jdbc_catalog.JdbcCatalog._forget",
    }
    with monkeypatch.context() as patched:
        patched.setattr(place[point], dies)
        with pytest.raises(Died):
            lake.rename_table("shop.orders", "shop.sales")
    again = catalog(tmp_path)
    if point == "after the name changed":
        assert again.tables("shop") == ["sales"]
    else:
        assert again.tables("shop") == ["orders"]
        if point == "before the name changes":
            with pytest.raises(TableMissing, match="its folder has no table") as caught:
                again.table("shop.orders")
            assert "rename it again to the same name" in str(caught.value.hint)
            with pytest.raises(ConfigError, match="a table that this catalog does not have"):
                again.create_table("shop.sales", COLUMNS)
        again.rename_table("shop.orders", "shop.sales")
    assert again.table("shop.sales").schema.names == ["id", "v"]
    assert again.tables("shop") == ["sales"]
    assert not (tmp_path / "warehouse" / "shop.db" / "orders").exists()


@pytest.mark.parametrize("copied", range(4))
@pytest.mark.parametrize("deletes", [False, True])
def test_one_of_the_names_works_when_a_rename_in_an_object_store_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: int, deletes: bool
) -> None:
    """Files are copied one by one, the name changes, and the old files are deleted one by one."""
    lake = catalog(tmp_path)
    lake.create_database("shop")
    table = lake.create_table("shop.orders", COLUMNS)
    with table.writer() as writer:
        writer.write(pa.table({"id": [1], "v": ["x"]}, schema=table.schema))
        writer.commit()

    def rename_tree(self: LocalStorage, source: str, target: str, moved: Callable[[], None]) -> None:
        files = [path for path in sorted(Path(source).rglob("*")) if path.is_file()]
        for number, path in enumerate(files):
            if not deletes and number == copied:
                raise Died
            self.write(target + str(path).removeprefix(source), path.read_bytes())
        moved()
        for number, path in enumerate(files):
            if number == copied:
                raise Died
            path.unlink()

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "rename_tree", rename_tree)
        with pytest.raises(Died):
            lake.rename_table("shop.orders", "shop.sales")
    again = catalog(tmp_path)
    (name,) = again.tables("shop")
    assert name == ("sales" if deletes else "orders")
    assert again.table(f"shop.{name}").scan().to_arrow().to_pylist() == [{"id": 1, "v": "x"}]
    if not deletes and copied:
        with pytest.raises(ConfigError, match="the folder of the new name contains files") as caught:
            again.rename_table("shop.orders", "shop.sales")
        shutil.rmtree(str(caught.value.facts["path"]))
    if not deletes:
        again.rename_table("shop.orders", "shop.sales")
        assert again.table("shop.sales").scan().to_arrow().num_rows == 1


@pytest.mark.parametrize("name", ["Shop.orders", "shop.Orders"])
def test_names_with_upper_case_are_refused(tmp_path: Path, name: str) -> None:
    lake = catalog(tmp_path)
    with pytest.raises(ConfigError, match="its names are lower case"):
        lake.create_database("Shop")
    lake.create_database("shop")
    with pytest.raises(ConfigError, match=r"its names are lower case|there is no database"):
        lake.create_table(name, COLUMNS)
    lake.create_table("shop.orders", COLUMNS)
    with pytest.raises(ConfigError, match="its names are lower case"):
        lake.rename_table("shop.orders", "shop.Sales")


@pytest.fixture
def alike(tmp_path: Path) -> penstock.Catalog:
    """Return a catalog whose database does not distinguish case, as MySQL's usual collations."""
    with sqlite3.connect(tmp_path / "names.db") as names:
        text = "VARCHAR(255) NOT NULL COLLATE NOCASE"
        place = f"catalog_key {text}, database_name {text}"
        names.execute(
            f"CREATE TABLE paimon_tables ({place}, table_name {text},"
            " PRIMARY KEY (catalog_key, database_name, table_name))"
        )
        names.execute(
            f"CREATE TABLE paimon_database_properties ({place}, property_key {text}, property_value VARCHAR(1000),"
            " PRIMARY KEY (catalog_key, database_name, property_key))"
        )
    names.close()
    lake = catalog(tmp_path)
    lake.create_database("shop", properties={"owner": "me"})
    lake.create_table("shop.orders", COLUMNS)
    return lake


def test_a_name_that_is_alike_for_the_database_is_another_table(alike: penstock.Catalog, tmp_path: Path) -> None:
    assert not alike.table_exists("shop.Orders")
    for use in (alike.drop_table, alike.table, lambda name: alike.rename_table(name, "shop.sales")):
        with pytest.raises(TableMissing, match="there is no table"):
            use("shop.Orders")
    alike.drop_table("shop.Orders", ignore_if_missing=True)
    assert alike.backend.tables("Shop") == []
    assert alike.backend.database_properties("Shop") == {}
    alike.backend.drop_database("Shop")
    other = catalog(tmp_path, catalog_key="JDBC")
    assert other.databases() == other.backend.tables("shop") == []
    other.backend.drop_database("shop")
    assert alike.tables("shop") == ["orders"]
    assert alike.database_properties("shop")["owner"] == "me"
    assert alike.table("shop.orders").schema.names == ["id", "v"]


def test_a_name_that_is_alike_for_the_database_is_refused(alike: penstock.Catalog, tmp_path: Path) -> None:
    """The two tables would share the row of the existing one, which would be deleted with either."""
    alike.create_table("shop.sales", COLUMNS)
    with sqlite3.connect(tmp_path / "names.db") as names:
        names.execute("UPDATE paimon_tables SET table_name = 'Orders' WHERE table_name = 'orders'")
    names.close()
    (tmp_path / "warehouse" / "shop.db" / "orders").rename(tmp_path / "warehouse" / "shop.db" / "Orders")
    with pytest.raises(ConfigError, match=r"'shop.orders' and 'shop.Orders' are one name"):
        alike.create_table("shop.orders", COLUMNS)
    with pytest.raises(ConfigError, match=r"'shop.orders' and 'shop.Orders' are one name"):
        alike.rename_table("shop.sales", "shop.orders")
    assert alike.tables("shop") == ["Orders", "sales"]
    assert alike.table("shop.sales").schema.names == ["id", "v"]
    with pytest.raises(ConfigError, match="'JDBC' and 'jdbc' are one name"):
        catalog(tmp_path, catalog_key="JDBC").create_database("shop")
    alike.rename_table("shop.Orders", "shop.orders")
    assert alike.tables("shop") == ["orders", "sales"]
    assert alike.table("shop.orders").schema.names == ["id", "v"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"uri": ""}, "needs a uri"),
        ({"uri": "jdbc:h2:/names"}, "is not the URL of a supported database"),
        ({"catalog-kay": "lake"}, "'catalog-kay' is not an option of a jdbc catalog"),
        ({"anything": "1"}, "'anything' is not an option of a jdbc catalog"),
        ({"case-sensitive": "true"}, "case-sensitive = true is not supported"),
        ({"lock.type": "zookeeper"}, "lock.type = zookeeper is not supported"),
        ({"lock.enabled": "perhaps"}, "neither true nor false"),
        ({"lock-acquire-timeout": "soon"}, "is not a duration"),
        ({"jdbc.usr": "me"}, "have no property 'usr'"),
        ({"table.type": "external"}, "table.type = external is not supported"),
        ({"s3.acces-key": "x"}, "did you mean s3.access-key|is not a store option"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, more: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        penstock.Catalog(str(tmp_path), options(tmp_path) | more)


def test_options_that_other_kinds_use_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    penstock.Catalog(str(tmp_path), options(tmp_path) | {"hive-conf-dir": "/etc/hive"})
    assert 'option=hive-conf-dir instead="it is not used by metastore = jdbc"' in caplog.text


def commits(warehouse: str, folder: Path, **more: str) -> object:
    found = open_jdbc(warehouse, options(folder, **more), Environment())
    assert isinstance(found, JdbcCatalog)
    return found._locks


def test_locks_are_the_default_on_object_stores(tmp_path: Path) -> None:
    assert commits(str(tmp_path), tmp_path) is None
    assert commits(f"file://{tmp_path}", tmp_path) is None
    assert commits("s3://bucket/warehouse", tmp_path) is not None
    assert commits("s3://bucket/warehouse", tmp_path, **{"lock.enabled": "false"}) is None
    assert commits(str(tmp_path), tmp_path, **{"lock.enabled": "true"}) is not None


def test_tables_commit_under_a_lock_if_locks_are_enabled(tmp_path: Path) -> None:
    lake = catalog(tmp_path)
    lake.create_database("shop")
    lake.create_table("shop.orders", COLUMNS)
    assert lake.store("shop.orders").commits == FileCommits()
    locked = catalog(tmp_path, **{"lock.enabled": "true", "lock-acquire-timeout": "10 s"}).store("shop.orders").commits
    assert isinstance(locked, LockedCommits)
    assert locked.locks.acquire_millis == 10_000


def test_the_check_names_the_database_and_the_warehouse(tmp_path: Path) -> None:
    assert catalog(tmp_path).backend.check().startswith(f"jdbc:sqlite:{tmp_path}/names.db answers; ")
    with pytest.raises(OSError, match="the database of the catalog failed"):
        penstock.Catalog(str(tmp_path), {"metastore": "jdbc", "uri": "jdbc:sqlite:/missing/names.db"}).backend.check()


@pytest.mark.parametrize("value", [None, b"\xff\xfe", 5, 1.5])
@pytest.mark.parametrize("column", ["database_name", "table_name", "property_name", "property_key", "property_value"])
def test_values_of_other_types_are_errors_that_show_the_row(tmp_path: Path, column: str, value: object) -> None:
    with sqlite3.connect(tmp_path / "names.db") as names:
        names.execute("CREATE TABLE paimon_tables (catalog_key, database_name, table_name)")
        names.execute(
            "CREATE TABLE paimon_database_properties (catalog_key, database_name, property_key, property_value)"
        )
        row = {"database_name": "shop", "table_name": "orders", "property_key": "a", "property_value": "b"}
        row |= {"property_name": "shop", column: value}
        names.execute("INSERT INTO paimon_tables VALUES ('jdbc', :database_name, :table_name)", row)
        names.execute(
            "INSERT INTO paimon_database_properties VALUES ('jdbc', :property_name, :property_key, :property_value)",
            row,
        )
        names.execute("INSERT INTO paimon_database_properties VALUES ('jdbc', 'shop', 'exists', 'true')")
    names.close()
    lake = catalog(tmp_path)
    if column == "property_value" and value is None:
        assert lake.database_properties("shop") == {}
        return
    with pytest.raises(ConfigError, match="not text") as caught:
        _use(lake)
    assert repr(value) in caught.value.facts["row"]
    assert "names.db" in caught.value.facts["database"]


def _use(lake: penstock.Catalog) -> None:
    lake.databases()
    lake.database_properties("shop")
    lake.backend.tables("shop")
