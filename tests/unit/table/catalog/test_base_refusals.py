"""Names that are missing or taken, and changes that Paimon refuses: the cases of its CatalogTestBase, in each kind.

After each refusal the catalog is as before.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.store import TableMissing
from tests.rest_server import running
from tests.unit.table.catalog.test_base import COLUMNS, catalog, ids, locked, put, rest, server, settings

__all__ = ["catalog", "locked", "rest", "server", "settings"]


def state(catalog: penstock.Catalog) -> dict[str, list[str]]:
    return {
        f"{database}.{table}": catalog.table(f"{database}.{table}").schema.names
        for database in catalog.databases()
        for table in catalog.tables(database)
    }


def test_missing_and_used_names_are_refused_unless_the_caller_allows_them(catalog: penstock.Catalog) -> None:
    catalog.create_database("shop")
    catalog.create_database("shop", ignore_if_exists=True)
    table = catalog.create_table("shop.orders", COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    put(table, 1)
    catalog.create_table("shop.sales", COLUMNS)
    before = state(catalog)
    missing: list[tuple[Callable[[], object], str]] = [
        (lambda: catalog.drop_database("no"), "there is no database 'no'"),
        (lambda: catalog.tables("no"), "there is no database 'no'"),
        (lambda: catalog.create_table("no.orders", COLUMNS), "there is no database 'no'"),
        (lambda: catalog.drop_table("shop.no"), "there is no table"),
        (lambda: catalog.table("shop.no"), "there is no table"),
        (lambda: catalog.rename_table("shop.no", "shop.new"), "there is no table"),
        (lambda: catalog.rename_table("shop.orders", "shop.sales"), "exists already"),
        (lambda: catalog.rename_table("shop.orders", "no.sales"), "there is no database 'no'"),
        (lambda: catalog.alter_table("shop.no", [penstock.AddColumn("a", "INT")]), "there is no table"),
        (lambda: catalog.create_table("shop.orders", COLUMNS), "exists already"),
    ]
    for act, message in missing:
        with pytest.raises(ConfigError, match=message):
            act()
        assert state(catalog) == before, message
    catalog.drop_database("no", ignore_if_missing=True)
    catalog.drop_table("shop.no", ignore_if_missing=True)
    catalog.create_table("shop.orders", COLUMNS, ignore_if_exists=True)
    assert (state(catalog), ids(catalog.table("shop.orders"))) == (before, [1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (penstock.AddColumn("v", "INT"), "there is a column 'v' already"),
        (penstock.AddColumn("new", "INT NOT NULL"), "cannot be NOT NULL"),
        (penstock.AddColumn("new", "INT", after="no"), "no"),
        (penstock.DropColumn("no"), "no column 'no'"),
        (penstock.DropColumn("id"), "a primary key column cannot be dropped"),
        (penstock.DropColumn("dt"), "a partition column cannot be dropped"),
        (penstock.RenameColumn("no", "new"), "no column 'no'"),
        (penstock.RenameColumn("v", "id"), "there is a column 'id' already"),
        (penstock.RenameColumn("dt", "new"), "a partition column cannot be renamed"),
        (penstock.UpdateColumnType("no", "INT"), "no column 'no'"),
        (penstock.UpdateColumnType("dt", "INT"), "partition"),
        (penstock.UpdateColumnComment("no", "x"), "no column 'no'"),
        (penstock.UpdateColumnPosition("no", first=True), "no column 'no'"),
        (penstock.UpdateColumnNullability("id", nullable=True), "primary key"),
        (penstock.SetOption("no.such.option", "1"), "is not a table option"),
    ],
)
def test_changes_that_paimon_refuses_change_nothing(
    catalog: penstock.Catalog, change: penstock.SchemaChange, message: str
) -> None:
    catalog.create_database("shop")
    columns = [*COLUMNS, ("dt", "STRING NOT NULL")]
    catalog.create_table("shop.orders", columns, ["id", "dt"], ["dt"], {"bucket": "1"})
    before = catalog.table("shop.orders").definition
    with pytest.raises(ConfigError, match=message):
        # What comes before the refused change is not done either.
        catalog.alter_table("shop.orders", [penstock.AddColumn("other", "INT"), change])
    assert catalog.table("shop.orders").definition == before


@pytest.mark.slow
def test_a_server_that_forbids_a_database_forbids_all_that_is_in_it(tmp_path: Path) -> None:
    with running(tmp_path / "files") as (server, options):
        lake = CatalogSettings.of("lake", options).open()
        lake.create_database("shop")
        table = lake.create_table("shop.orders", COLUMNS, primary_keys=["id"], options={"bucket": "1"})
        server.forbidden = {"shop"}
        forbidden: list[Callable[[], object]] = [
            lambda: lake.tables("shop"),
            lambda: lake.create_table("shop.more", COLUMNS),
            lambda: lake.database_properties("shop"),
            lambda: lake.drop_database("shop", cascade=True),
            lambda: lake.alter_database("shop", {"a": "b"}),
        ]
        for act in forbidden:
            with pytest.raises(ConfigError, match="no permission") as caught:
                act()
            assert not isinstance(caught.value, TableMissing)
        server.forbidden = set()
        put(table, 1)
        assert (lake.tables("shop"), ids(lake.table("shop.orders"))) == (["orders"], [1])
