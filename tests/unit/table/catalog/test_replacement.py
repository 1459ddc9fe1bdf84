"""A new table takes the name of an old one."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.storage.local import LocalStorage
from penstock.table.catalog.replacement import name_beside, take_name


@pytest.fixture
def catalog(tmp_path: Path) -> penstock.Catalog:
    catalog = penstock.Catalog(str(tmp_path), {"local.sync": "false"})
    catalog.create_database("shop")
    catalog.create_table("shop.orders", [("id", "INT")])
    catalog.create_table("shop.orders_new", [("name", "STRING")])
    return catalog


def test_a_name_beside_a_table_is_in_its_database_and_free() -> None:
    first, second = name_beside("shop.orders", "new"), name_beside("shop.orders", "new")
    assert first.startswith("shop.orders_new_")
    assert first != second


def test_the_new_table_has_the_name_and_the_old_one_is_deleted(catalog: penstock.Catalog) -> None:
    take_name(catalog, "shop.orders_new", "shop.orders")
    assert catalog.tables("shop") == ["orders"]
    assert catalog.table("shop.orders").schema.names == ["name"]


def test_an_old_table_has_its_name_again_after_a_failed_rename(
    catalog: penstock.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = LocalStorage.rename_tree

    def refuse(storage: LocalStorage, source: str, target: str) -> None:
        if source.endswith("orders_new"):
            raise PermissionError("not here")
        rename(storage, source, target)

    monkeypatch.setattr(LocalStorage, "rename_tree", refuse)
    with pytest.raises(PermissionError):
        take_name(catalog, "shop.orders_new", "shop.orders")
    assert catalog.tables("shop") == ["orders"]
    assert catalog.table("shop.orders").schema.names == ["id"]


def test_an_old_table_is_deleted_first_if_renaming_copies_files(
    catalog: penstock.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.table.catalog.replacement.is_object_store", lambda _: True)
    take_name(catalog, "shop.orders_new", "shop.orders")
    assert catalog.table("shop.orders").schema.names == ["name"]
    catalog.create_table("shop.orders_new", [("id", "INT")])

    def refuse(*_: object) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(LocalStorage, "rename_tree", refuse)
    with pytest.raises(PermissionError) as caught:
        take_name(catalog, "shop.orders_new", "shop.orders")
    assert "ALTER TABLE shop.orders_new RENAME TO shop.orders" in caught.value.__notes__[0]
    assert catalog.tables("shop") == ["orders_new"]
