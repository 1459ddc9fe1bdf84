"""A new table takes the name of an old one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import CommitConflict
from penstock.storage.local import LocalStorage
from penstock.table.catalog.replacement import name_beside, state_of, take_name
from penstock.table.catalog.unfinished import ChangeUnfinished
from penstock.table.maintenance.rollback import rollback_to


@pytest.fixture
def catalog(tmp_path: Path) -> penstock.Catalog:
    catalog = penstock.Catalog(str(tmp_path), {"local.sync": "false"})
    catalog.create_database("shop")
    catalog.create_table("shop.orders", [("id", "INT")])
    catalog.create_table("shop.orders_new", [("name", "STRING")])
    return catalog


def append(catalog: penstock.Catalog, number: int) -> None:
    with catalog.table("shop.orders").writer() as writer:
        writer.write(pa.table({"id": pa.array([number], pa.int32())}))
        writer.commit()


def test_a_name_beside_a_table_is_in_its_database_and_free() -> None:
    first, second = name_beside("shop.orders", "new"), name_beside("shop.orders", "new")
    assert first.startswith("shop.orders_new_")
    assert first != second


def test_the_new_table_has_the_name_and_the_old_one_is_deleted(catalog: penstock.Catalog) -> None:
    take_name(catalog, "shop.orders_new", "shop.orders", state_of(catalog, "shop.orders"))
    assert catalog.tables("shop") == ["orders"]
    assert catalog.table("shop.orders").schema.names == ["name"]


def test_an_old_table_has_its_name_again_after_a_failed_rename(
    catalog: penstock.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = LocalStorage.rename_tree

    def refuse(storage: LocalStorage, source: str, target: str, moved: Callable[[], None]) -> None:
        if source.endswith("orders_new"):
            raise PermissionError("not here")
        rename(storage, source, target, moved)

    monkeypatch.setattr(LocalStorage, "rename_tree", refuse)
    with pytest.raises(ChangeUnfinished, match="not here"):
        take_name(catalog, "shop.orders_new", "shop.orders", state_of(catalog, "shop.orders"))
    assert catalog.tables("shop") == ["orders"]
    assert catalog.table("shop.orders").schema.names == ["id"]


def test_an_old_table_is_deleted_first_if_renaming_copies_files(
    catalog: penstock.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.table.catalog.replacement.is_object_store", lambda _: True)
    take_name(catalog, "shop.orders_new", "shop.orders", state_of(catalog, "shop.orders"))
    assert catalog.table("shop.orders").schema.names == ["name"]
    catalog.create_table("shop.orders_new", [("id", "INT")])

    def refuse(*_: object) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(LocalStorage, "rename_tree", refuse)
    with pytest.raises(ChangeUnfinished, match="not here") as caught:
        take_name(catalog, "shop.orders_new", "shop.orders", state_of(catalog, "shop.orders"))
    assert "ALTER TABLE shop.orders_new RENAME TO shop.orders" in caught.value.__notes__[0]
    assert catalog.tables("shop") == ["orders_new"]


@pytest.mark.parametrize("copies", [False, True])
def test_rows_of_another_job_are_not_lost(
    catalog: penstock.Catalog, copies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.table.catalog.replacement.is_object_store", lambda _: copies)
    since = state_of(catalog, "shop.orders")
    append(catalog, 7)
    with pytest.raises(CommitConflict, match="another job has changed the table") as caught:
        take_name(catalog, "shop.orders_new", "shop.orders", since)
    assert (caught.value.facts["before"], caught.value.facts["table"]) == (since, "shop.orders")
    assert catalog.tables("shop") == ["orders"]
    assert catalog.table("shop.orders").scan().to_arrow()["id"].to_pylist() == [7]


def test_the_state_changes_with_commits_and_schemas_but_is_not_that_of_before(catalog: penstock.Catalog) -> None:
    states = [state_of(catalog, "shop.orders")]
    for number in (1, 2):
        append(catalog, number)
        states.append(state_of(catalog, "shop.orders"))
    rollback_to(catalog.table("shop.orders").store, 1)
    assert state_of(catalog, "shop.orders") == states[1]
    append(catalog, 3)
    assert state_of(catalog, "shop.orders") not in states
