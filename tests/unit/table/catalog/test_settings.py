"""The settings of a catalog: what tasks receive, and what a process keeps open for them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.catalog.settings import CatalogSettings, forget_tables
from penstock.table.meta.store import TableMissing
from penstock.table.schema.new_schema import create_schema
from penstock.table.schema.validation import UnusableName
from penstock.table.sql.queries.global_tables import global_table

ROOT = Path(__file__).resolve().parents[4]
FIRST = create_schema([("id", "INT"), ("v", "STRING")], options={"bucket": "-1"}, now=1)


@pytest.fixture
def settings(tmp_path: Path) -> CatalogSettings:
    return CatalogSettings.of(str(tmp_path), {"local.sync": "false"})


def test_a_later_run_has_a_relative_warehouse_in_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relative = CatalogSettings.of("warehouse", {"local.sync": "false"})
    for run in ("first", "second"):
        (tmp_path / run).mkdir()
        monkeypatch.chdir(tmp_path / run)
        forget_tables()
        relative.created("shop.orders", FIRST)
        assert (tmp_path / run / "warehouse/shop.db/orders").is_dir()
    forget_tables()


def test_a_process_opens_the_catalog_and_each_table_once(settings: CatalogSettings) -> None:
    settings.created("shop.orders", FIRST)
    received = pickle.loads(pickle.dumps(settings))
    assert received == settings
    assert received.backend is settings.backend
    assert received.store("shop.orders") is settings.store("shop.orders")
    assert received.layout("shop.orders", 0) is settings.layout("shop.orders", 0)


def test_a_table_is_created_once(settings: CatalogSettings) -> None:
    assert settings.created("shop.orders", FIRST) == FIRST
    settings.open().alter_table("shop.orders", [penstock.AddColumn("c", "INT")])
    assert settings.created("shop.orders", FIRST).names == ("id", "v", "c")
    assert settings.databases() == settings.open().databases() == ["shop"]
    assert settings.tables("shop") == ["shop.orders"]
    assert settings.tables("other") == []


def test_a_pipeline_cannot_put_its_tables_into_one_folder(settings: CatalogSettings, tmp_path: Path) -> None:
    first = create_schema([("id", "INT")], options={"path": str(tmp_path / "elsewhere")}, now=1)
    with pytest.raises(ConfigError, match="does not choose the folders") as caught:
        settings.created("shop.orders", first)
    assert "remove path from table-options" in str(caught.value)
    assert settings.databases() == []


def test_opening_a_dropped_table_is_refused(settings: CatalogSettings) -> None:
    settings.created("shop.orders", FIRST)
    cached = settings.store("shop.orders")
    settings.open().drop_table("shop.orders")
    assert settings.store("shop.orders") is cached
    with pytest.raises(TableMissing):
        settings.opened("shop.orders")
    forget_tables()
    with pytest.raises(TableMissing):
        settings.store("shop.orders")


@pytest.mark.parametrize("name", ["shop.a$b", "shop.a/b", "shop.", "shop", ".orders"])
def test_a_name_that_cannot_be_a_table_is_refused(settings: CatalogSettings, name: str) -> None:
    with pytest.raises(UnusableName, match="cannot be the name"):
        settings.created(name, FIRST)
    with pytest.raises(UnusableName, match="cannot be the name"):
        settings.store(name)


def test_secrets_are_resolved_where_the_catalog_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = CatalogSettings.of(str(tmp_path), {"local.sync": "${SYNC_OF_THE_TEST}"})
    assert "SYNC_OF_THE_TEST" in repr(settings)
    monkeypatch.setenv("SYNC_OF_THE_TEST", "perhaps")
    with pytest.raises(penstock.ConfigError, match="perhaps"):
        settings.databases()
    monkeypatch.setenv("SYNC_OF_THE_TEST", "false")
    assert settings.databases() == []


def test_a_catalog_knows_the_options_that_opened_it(tmp_path: Path) -> None:
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names.db"}
    catalog = CatalogSettings.of(str(tmp_path), options).open()
    assert catalog.options == options
    assert [row["key"] for row in global_table(catalog, ("sys", "catalog_options")).to_pylist()] == [
        "metastore",
        "uri",
        "warehouse",
    ]


def test_stores_beside_the_catalog_do_not_learn_its_kind(tmp_path: Path) -> None:
    options = {"metastore": "jdbc", "uri": "jdbc:sqlite:/names.db", "jdbc.password": "secret", "lock.enabled": "true"}
    settings = CatalogSettings.of(str(tmp_path), {**options, "local.sync": "false"})
    assert settings.store_options == {"local.sync": "false"}


@pytest.mark.slow
def test_tasks_import_no_operations_of_tables() -> None:
    code = "import sys, penstock.table.catalog.settings as s; s.CatalogSettings('/nowhere').databases();"
    code += "print(*(name for name in sys.modules if name.startswith('penstock.table')))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    loaded = done.stdout.split()
    assert "penstock.table.catalog.file_catalog" in loaded
    assert "penstock.table.handle" not in loaded
    assert not [name for name in loaded if name.startswith(("penstock.table.operations", "penstock.table.system"))]
