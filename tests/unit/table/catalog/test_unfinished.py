"""Drops and renames that the store refuses half way: the error says what is left, and what finishes it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError, StoreError
from penstock.storage.local import LocalStorage
from penstock.table.catalog.unfinished import ChangeUnfinished

COLUMNS = [("id", "INT NOT NULL"), ("v", "STRING")]
ROW = {"id": 1, "v": "x"}


def lake(folder: Path, kind: str) -> penstock.Catalog:
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{folder}/names.db"} if kind == "jdbc" else {}
    catalog = penstock.Catalog(str(folder / "warehouse"), {**options, "local.sync": "false"})
    catalog.create_database("shop")
    fill(catalog)
    return catalog


def fill(catalog: penstock.Catalog) -> None:
    table = catalog.create_table("shop.orders", COLUMNS)
    with table.writer() as writer:
        writer.write(pa.table({"id": [1], "v": ["x"]}, schema=table.schema))
        writer.commit()


def content(catalog: penstock.Catalog, name: str) -> list[object]:
    return list(catalog.table(name).scan().to_arrow().to_pylist())


REFUSED, AWAY = PermissionError(13, "Permission denied"), StoreError("the store does not answer")


@pytest.mark.parametrize("kind", ["filesystem", "jdbc"])
@pytest.mark.parametrize("reason", [REFUSED, AWAY], ids=["refused", "away"])
@pytest.mark.parametrize("part", ["bucket-0", "snapshot", "schema"])
def test_a_drop_that_ends_half_way_says_what_deletes_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, reason: OSError, part: str
) -> None:
    catalog, real = lake(tmp_path, kind), LocalStorage.delete_tree

    def delete_tree(storage: LocalStorage, path: str) -> None:
        if path.endswith(part):
            raise reason
        real(storage, path)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "delete_tree", delete_tree)
        with pytest.raises(ChangeUnfinished, match="not all files of the table could be deleted") as failed:
            catalog.drop_table("shop.orders")
    assert failed.value.retryable is (reason is AWAY)
    folder = str(tmp_path / "warehouse" / "shop.db" / "orders")
    assert failed.value.facts["path"] == folder
    if failed.value.hint == "drop it again":
        assert kind == "filesystem"
        catalog.drop_table("shop.orders")
    else:
        assert failed.value.hint == "the catalog has no such name any more: delete the folder"
        assert catalog.tables("shop") == []
        shutil.rmtree(folder)
    fill(catalog)
    assert content(catalog, "shop.orders") == [ROW]


def copying(files: int, deleted: int) -> Callable[..., None]:
    """Return a rename as object stores make it, which fails after these numbers of files."""

    def rename_tree(self: LocalStorage, source: str, target: str, moved: Callable[[], None] | None = None) -> None:
        names = [path for path in sorted(Path(source).rglob("*")) if path.is_file()]
        for number, path in enumerate(names):
            if number == files:
                raise REFUSED
            self.write(target + str(path).removeprefix(source), path.read_bytes())
        if moved is not None:
            moved()
        for number, path in enumerate(names):
            if number == deleted:
                raise REFUSED
            path.unlink()

    return rename_tree


@pytest.mark.parametrize(("files", "deleted"), [(0, 0), (1, 0), (3, 0), (99, 0), (99, 1), (99, 3)])
def test_a_rename_that_ends_half_way_names_the_complete_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int, deleted: int
) -> None:
    catalog = lake(tmp_path, "filesystem")
    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "rename_tree", copying(files, deleted))
        with pytest.raises(ChangeUnfinished, match="could not be renamed") as failed:
            catalog.rename_table("shop.orders", "shop.sales")
    hint = failed.value.hint or ""
    if hint.startswith("the table is complete as shop.sales"):
        assert "drop shop.orders" in hint
        catalog.drop_table("shop.orders")
    else:
        if files:
            assert hint == "the table is complete as shop.orders: delete the folder, and rename it again"
            shutil.rmtree(str(failed.value.facts["path"]))
        else:
            assert hint == "nothing was moved: rename it again"
        catalog.rename_table("shop.orders", "shop.sales")
    assert catalog.tables("shop") == ["sales"]
    assert content(catalog, "shop.sales") == [ROW]


def failing(real: Callable[..., object], away: list[bool]) -> Callable[..., object]:
    """Return a function of the storage that fails once the store is away."""

    def called(*arguments: object) -> object:
        if away:
            raise AWAY
        return real(*arguments)

    return called


def test_a_rename_names_what_finishes_it_also_while_the_store_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, away = lake(tmp_path, "filesystem"), list[bool]()

    def rename_tree(self: LocalStorage, source: str, target: str, moved: Callable[[], None] | None = None) -> None:
        away.append(True)
        raise AWAY

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "rename_tree", rename_tree)
        for name in ("exists", "list"):
            real = getattr(LocalStorage, name)
            patched.setattr(LocalStorage, name, failing(real, away))
        with pytest.raises(ChangeUnfinished, match="could not be renamed") as failed:
            catalog.rename_table("shop.orders", "shop.sales")
    assert failed.value.retryable
    assert "when the store answers again, delete the folder" in (failed.value.hint or "")
    catalog.rename_table("shop.orders", "shop.sales")
    assert content(catalog, "shop.sales") == [ROW]


def test_a_folder_in_the_place_of_a_new_name_is_refused(tmp_path: Path) -> None:
    catalog = lake(tmp_path, "filesystem")
    place = tmp_path / "warehouse" / "shop.db" / "sales"
    place.mkdir()
    with pytest.raises(ConfigError, match="contains files without a table"):
        catalog.rename_table("shop.orders", "shop.sales")
    assert content(catalog, "shop.orders") == [ROW]


@pytest.mark.parametrize("kind", ["filesystem", "jdbc"])
def test_a_creation_that_was_refused_is_made_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    catalog, real = lake(tmp_path, kind), LocalStorage.create

    def create(storage: LocalStorage, path: str, data: bytes) -> bool:
        if path.endswith("schema-0"):
            raise REFUSED
        return real(storage, path, data)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "create", create)
        with pytest.raises(PermissionError):
            catalog.create_table("shop.sales", COLUMNS)
    catalog.create_table("shop.sales", COLUMNS)
    assert content(catalog, "shop.sales") == []
