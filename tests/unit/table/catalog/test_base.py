"""The contract of catalogs, kept by folders, a database, a server, and one with other names, places and commits."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import CommitConflict, ConfigError
from penstock.storage.local import LocalStorage
from penstock.table.catalog.clone import clone_table, copy_table
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from penstock.table.meta.store import TableMissing
from penstock.table.usable import check_usable
from tests.invariants import check_invariants
from tests.locked_catalog import METASTORES, Metastore, install
from tests.rest_server import running

COLUMNS = [("id", "INT NOT NULL"), ("v", "STRING")]
ROW_TYPE = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("v", pa.string())])


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Metastore]:
    install(tmp_path / "site", monkeypatch)
    address = f"memory://{tmp_path}"
    yield METASTORES[address]
    del METASTORES[address]


@pytest.fixture
def locked(server: Metastore, tmp_path: Path) -> CatalogSettings:
    return CatalogSettings.of(f"memory://{tmp_path}", {"metastore": "locked", "place": f"{tmp_path}/places"})


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[CatalogSettings]:
    with running(tmp_path / "files") as (_, options):
        yield CatalogSettings.of("lake", options)


@pytest.fixture(params=["filesystem", "jdbc", "rest", "locked"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> CatalogSettings:
    if request.param == "filesystem":
        return CatalogSettings.of(f"{tmp_path}/warehouse", {})
    if request.param == "jdbc":
        options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names.db", "lock.enabled": "true"}
        return CatalogSettings.of(f"{tmp_path}/warehouse", options)
    found: CatalogSettings = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def catalog(settings: CatalogSettings) -> penstock.Catalog:
    return settings.open()


def orders(catalog: penstock.Catalog, name: str = "shop.orders") -> Table:
    catalog.create_database(name.split(".", maxsplit=1)[0], ignore_if_exists=True)
    return catalog.create_table(name, COLUMNS, primary_keys=["id"], options={"bucket": "1"})


def put(table: Table, *ids: int) -> None:
    with table.writer() as writer:
        writer.write(pa.table({"id": list(ids), "v": [str(id_) for id_ in ids]}, schema=ROW_TYPE))
        writer.commit()


def ids(table: Table) -> list[int]:
    return sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())


@pytest.mark.slow
def test_databases_are_created_listed_and_dropped(catalog: penstock.Catalog) -> None:
    assert catalog.databases() == []
    catalog.create_database("shop")
    assert catalog.databases() == ["shop"]
    with pytest.raises(ConfigError, match="database 'shop' exists already"):
        catalog.create_database("shop")
    orders(catalog, "ods.orders")
    assert catalog.databases() == ["ods", "shop"]
    with pytest.raises(ConfigError, match="is not empty"):
        catalog.drop_database("ods")
    catalog.drop_database("ods", cascade=True)
    assert catalog.databases() == ["shop"]
    with pytest.raises(ConfigError, match="there is no database 'ods'"):
        catalog.tables("ods")


def test_tables_are_created_listed_renamed_and_dropped(catalog: penstock.Catalog) -> None:
    put(orders(catalog), 1)
    with pytest.raises(ConfigError, match=r"table 'shop.orders' exists already"):
        orders(catalog)
    assert catalog.tables("shop") == ["orders"]
    catalog.create_database("ods")
    catalog.rename_table("shop.orders", "ods.sales")
    assert (catalog.tables("shop"), catalog.tables("ods")) == ([], ["sales"])
    assert ids(catalog.table("ods.sales")) == [1]
    assert catalog.table("ods.sales").name == "ods.sales"
    catalog.drop_table("ods.sales")
    assert not catalog.table_exists("ods.sales")
    with pytest.raises(TableMissing):
        catalog.table("ods.sales")


@pytest.mark.slow
def test_a_missing_table_is_compared_with_those_that_exist(catalog: penstock.Catalog) -> None:
    orders(catalog)
    with pytest.raises(TableMissing) as caught:
        catalog.table("shop.order")
    assert caught.value.hint == "did you mean shop.orders?"


def test_schema_changes_and_commits_reach_branches_and_system_tables(catalog: penstock.Catalog) -> None:
    table = orders(catalog)
    put(table, 1)
    table.create_tag("t")
    table.create_branch("b", "t")
    catalog.alter_table("shop.orders$branch_b", [penstock.AddColumn("more", "INT")])
    assert catalog.table("shop.orders$branch_b").schema.names == ["id", "v", "more"]
    assert catalog.table("shop.orders").schema.names == ["id", "v"]
    assert catalog.system_table("shop.orders$snapshots").scan(columns=["snapshot_id"]).to_arrow().num_rows == 1
    check_invariants(table)


def test_tasks_open_the_same_tables(settings: CatalogSettings) -> None:
    put(orders(settings.open()), 1)
    received = pickle.loads(pickle.dumps(settings))
    assert received.tables("shop") == ["shop.orders"]
    assert ids(Table(received.store("shop.orders"))) == [1]
    assert pickle.loads(pickle.dumps(received.store("shop.orders"))).commits == received.store("shop.orders").commits


@pytest.mark.slow
def test_tables_are_cloned_and_copied_into_a_catalog(catalog: penstock.Catalog, tmp_path: Path) -> None:
    source = penstock.create_table(f"{tmp_path}/source", COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    put(source, 1, 2)
    assert ids(clone_table(source, catalog, "shop.cloned")) == [1, 2]
    if catalog.backend.owns_versions:
        with pytest.raises(ConfigError, match="cannot be copied file by file"):
            copy_table(source, catalog, "shop.copied")
        assert catalog.tables("shop") == ["cloned"]
        return
    assert ids(copy_table(source, catalog, "shop.copied")) == [1, 2]
    assert catalog.tables("shop") == ["cloned", "copied"]
    put(catalog.table("shop.copied"), 3)
    check_invariants(catalog.table("shop.copied"))


def test_a_table_is_cloned_although_no_listing_shows_it_yet(
    catalog: penstock.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = penstock.create_table(f"{tmp_path}/source", COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    put(source, 1, 2)
    listed = LocalStorage.list
    stale = "cloned/schema"
    monkeypatch.setattr(LocalStorage, "list", lambda self, path: [] if path.endswith(stale) else listed(self, path))
    assert ids(clone_table(source, catalog, "shop.cloned")) == [1, 2]
    assert catalog.table_exists("shop.cloned")


def test_a_branch_is_copied_into_a_table(catalog: penstock.Catalog, tmp_path: Path) -> None:
    source = penstock.create_table(f"{tmp_path}/source", COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    put(source, 1)
    source.create_tag("t")
    branch = source.create_branch("b", "t")
    branch.store.evolve([penstock.AddColumn("more", "INT")], check_usable)
    put(source, 2)
    if catalog.backend.owns_versions:
        with pytest.raises(ConfigError, match="cannot be copied file by file"):
            copy_table(branch.refresh(), catalog, "shop.copied")
        return
    copied = copy_table(branch.refresh(), catalog, "shop.copied")
    assert (ids(copied), copied.schema.names) == ([1], ["id", "v", "more"])
    check_invariants(copied)


def test_properties_of_a_database_are_kept_where_the_catalog_keeps_them(locked: CatalogSettings) -> None:
    locked.open().create_database("shop", properties={"owner": "me"})
    assert locked.open().database_properties("shop") == {"owner": "me"}


def test_properties_of_a_database_are_changed_where_the_catalog_keeps_them(
    settings: CatalogSettings, request: pytest.FixtureRequest
) -> None:
    catalog = settings.open()
    if request.node.callspec.params["settings"] in {"filesystem", "locked"}:
        catalog.create_database("shop")
        with pytest.raises(ConfigError, match="keeps no properties of databases") as refused:
            catalog.alter_database("shop", {"team": "b"})
        assert "metastore = hive" in (refused.value.hint or "")
        return
    catalog.create_database("shop", properties={"team": "a", "old": "x"})
    place = catalog.database_properties("shop")["location"]
    catalog.alter_database("shop", {"team": "b", "comment": "sales", "old": None, "nothing": None})
    assert settings.open().database_properties("shop") == {"team": "b", "comment": "sales", "location": place}
    catalog.alter_database("shop", {"team": "b", "comment": None})
    assert settings.open().database_properties("shop") == {"team": "b", "location": place}
    with pytest.raises(ConfigError, match="location of a database cannot be changed"):
        catalog.alter_database("shop", {"location": "/elsewhere"})
    with pytest.raises(ConfigError, match="there is no database 'shopp'"):
        catalog.alter_database("shopp", {"team": "b"})
    if request.node.callspec.params["settings"] == "jdbc":
        with pytest.raises(ConfigError, match="'exists' of a database cannot be changed"):
            catalog.alter_database("shop", {"team": "c", "exists": None})
    assert settings.open().database_properties("shop") == {"team": "b", "location": place}


def test_snapshots_and_schemas_are_committed_by_the_catalog(locked: CatalogSettings, server: Metastore) -> None:
    catalog = locked.open()
    table = orders(catalog)
    put(table, 1)
    catalog.alter_table("shop.orders", [penstock.AddColumn("more", "INT")])
    table.refresh().delete("id = 1")
    assert server.snapshots == [("shop.orders", 1), ("shop.orders", 2)]
    assert server.schemas == [("shop.orders", 1)]


@pytest.mark.slow
def test_writers_lose_no_commit_on_a_store_that_overwrites(locked: CatalogSettings, server: Metastore) -> None:
    catalog = locked.open()
    catalog.create_database("shop")
    catalog.create_table("shop.events", COLUMNS, options={"bucket": "-1", "commit.max-retries": "100"})

    def write(first: int) -> None:
        table = catalog.table("shop.events")
        for number in range(first, first + 10):
            put(table, number)

    threads = [threading.Thread(target=write, args=(first,)) for first in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = catalog.table("shop.events")
    assert ids(table) == [first + number for first in (0, 100, 200) for number in range(10)]
    assert [snapshot for _, snapshot in server.snapshots] == list(range(1, 31))
    check_invariants(table)


def test_rollbacks_and_changes_of_branches_lock_the_catalog(locked: CatalogSettings, server: Metastore) -> None:
    table = orders(locked.open())
    put(table, 1)
    table.create_tag("t")
    table.create_branch("b", "t")
    put(locked.open().table("shop.orders$branch_b"), 2)
    put(table, 3)
    server.exclusive.clear()
    table.create_branch("other")
    table.rollback_to(1)
    table.fast_forward("b")
    table.delete_branch("other")
    assert server.exclusive == ["shop.orders"] * 4
    assert ids(table.refresh()) == [1, 2]
    check_invariants(table.refresh())


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.rollback_to(1),
        lambda table: table.create_branch("other"),
        lambda table: table.delete_branch("b"),
        lambda table: table.fast_forward("b"),
    ],
    ids=["rollback", "create", "delete", "fast-forward"],
)
def test_a_change_of_versions_without_the_lock_changes_nothing(
    locked: CatalogSettings, server: Metastore, change: Callable[[Table], object]
) -> None:
    table = orders(locked.open())
    put(table, 1)
    table.create_tag("t")
    put(locked.open().table(f"{table.create_branch('b', 't').name}"), 2)
    put(table, 3)
    before = files_below(table.path)
    server.wait_seconds = 0.01
    with server.locked(table.path), pytest.raises(CommitConflict, match="locked by another writer"):
        change(table)
    assert files_below(table.path) == before


def files_below(folder: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def test_expiry_waits_for_no_lock(locked: CatalogSettings, server: Metastore) -> None:
    """As in Java: expiry creates no snapshot file, and a commit whose base has expired is tried again."""
    table = orders(locked.open())
    for number in range(3):
        put(table, number)
    server.wait_seconds = 0.01
    with server.locked(table.path):
        table.expire_snapshots(retain_max=1, retain_min=1)
    assert [snapshot.id for snapshot in table.refresh().snapshots] == [3]
    check_invariants(table.refresh())


def test_a_lock_that_is_not_obtained_commits_nothing(locked: CatalogSettings, server: Metastore) -> None:
    table = orders(locked.open())
    server.wait_seconds = 0.01
    with server.locked(table.path):
        with pytest.raises(CommitConflict, match="locked by another writer"):
            put(table, 1)
        with pytest.raises(CommitConflict, match="locked by another writer"):
            locked.open().alter_table("shop.orders", [penstock.AddColumn("more", "INT")])
    assert not list(Path(table.path).rglob("manifest-*"))
    assert table.refresh().schema.names == ["id", "v"]
    put(table, 2)
    assert ids(table) == [2]
    check_invariants(table)
