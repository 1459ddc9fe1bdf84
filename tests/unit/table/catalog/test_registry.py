"""The kinds of catalogs: own ones, and those that other packages install."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError
from penstock.storage.environment import Environment
from penstock.table.catalog import registry
from penstock.table.catalog.base import CatalogBackend
from penstock.table.catalog.file_catalog import FileCatalog, open_warehouse
from penstock.table.catalog.jdbc_catalog import JdbcCatalog
from penstock.table.catalog.settings import CatalogSettings

OPENED: list[dict[str, str]] = []


def nested(warehouse: str, options: Mapping[str, str], ambient: Environment) -> CatalogBackend:
    """Open the warehouse in a folder of the given one."""
    OPENED.append(dict(options))
    return open_warehouse(f"{warehouse}/{options['folder']}", {}, ambient)


GLUE = registry.CatalogKind(nested, options=frozenset({"folder"}), prefixes=("glue.",))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a distribution with a kind of catalog."""
    OPENED.clear()
    info = tmp_path / "site" / "nested-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nested\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{registry.GROUP}]\nnested = {__name__}:nested\nglue = {__name__}:GLUE\nbroken = not_installed.catalog:KIND\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


def test_folders_are_the_default(tmp_path: Path) -> None:
    assert registry.metastores() == ["filesystem", "hive", "jdbc", "rest"]
    for options in ({}, {"metastore": "filesystem"}, {"metastore": " FileSystem "}):
        assert isinstance(penstock.Catalog(str(tmp_path), options).backend, FileCatalog)


def test_an_unknown_metastore_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="metastore = nested is not supported"):
        penstock.Catalog(str(tmp_path), {"metastore": "nested"})


@pytest.mark.usefixtures("installed")
def test_an_installed_kind_is_chosen_by_the_option(tmp_path: Path) -> None:
    assert registry.metastores() == ["broken", "filesystem", "glue", "hive", "jdbc", "nested", "rest"]
    options = {"metastore": "nested", "folder": "inner"}
    catalog = penstock.Catalog(str(tmp_path), options)
    assert [options] == OPENED
    catalog.create_database("shop")
    catalog.create_table("shop.orders", [("id", "INT")], options={"bucket": "-1"})
    assert (tmp_path / "inner" / "shop.db" / "orders" / "schema" / "schema-0").exists()
    assert penstock.Catalog(str(tmp_path), options).tables("shop") == ["orders"]


@pytest.mark.usefixtures("installed")
def test_an_installed_kind_receives_secrets_and_an_own_kind_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDER_OF_THE_TEST", "inner")
    penstock.Catalog(str(tmp_path), {"metastore": "nested", "folder": "${FOLDER_OF_THE_TEST}"})
    assert OPENED[-1]["folder"] == "inner"
    url = {"metastore": "jdbc", "uri": "jdbc:mysql://host/names", "jdbc.password": "${NOT_SET_IN_THE_TEST}"}
    assert isinstance(penstock.Catalog(str(tmp_path), url).backend, JdbcCatalog)


@pytest.mark.usefixtures("installed")
def test_an_installed_kind_keeps_its_options_from_stores_beside_the_catalog(tmp_path: Path) -> None:
    options = {"folder": "inner", "glue.region": "eu-west-1", "local.sync": "false"}
    settings = CatalogSettings.of(str(tmp_path), {"metastore": "glue", **options})
    assert settings.store_options == {"local.sync": "false"}
    assert settings.databases() == []


@pytest.mark.usefixtures("installed")
def test_a_kind_whose_package_cannot_be_imported_is_refused_by_name(tmp_path: Path) -> None:
    """It ended with ModuleNotFoundError, as a defect of Penstock, when a pipeline file was read."""
    with pytest.raises(ConfigError, match="broken cannot be imported: No module named 'not_installed'") as caught:
        registry.options_of_store({"metastore": "broken"})
    assert "install what the package needs" in (caught.value.hint or "")
    with pytest.raises(ConfigError, match="broken cannot be imported"):
        penstock.Catalog(str(tmp_path), {"metastore": "broken"})
