"""Drops that are killed at each of their files: nothing of the dropped table is in the next table of its name."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.storage.local import LocalStorage
from penstock.table.catalog.file_catalog import FileCatalog
from penstock.table.maintenance.branches import create_branch, delete_branch
from penstock.table.maintenance.tags import create_tag
from penstock.table.meta.store import branch_names
from tests.unit.table.tables import new_table, rows


class KilledError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class KilledStorage(LocalStorage):
    """Deletes the files of a folder in any order, as object stores do, and is killed before one of them."""

    left: list[int] = None  # type: ignore[assignment]
    seed: int = 0

    def delete_tree(self, path: str) -> None:
        files = sorted(str(file) for file in Path(path).rglob("*") if file.is_file())
        random.Random(self.seed).shuffle(files)
        for file in files:
            if not self.left[0]:
                raise KilledError
            self.left[0] -= 1
            Path(file).unlink()
        LocalStorage.delete_tree(self, path)


def catalog_of(folder: Path, killed_after: int | None = None, seed: int = 0) -> penstock.Catalog:
    count = 1 << 30 if killed_after is None else killed_after
    storage = KilledStorage(sync=False, left=[count], seed=seed)
    return penstock.Catalog(str(folder), backend=FileCatalog(storage, str(folder)))


def fill(catalog: penstock.Catalog) -> None:
    options = {"bucket": "1", "changelog-producer": "input", "consumer.expiration-time": "1 d"}
    catalog.create_database("shop")
    table = catalog.create_table("shop.orders", [("id", "INT NOT NULL")], ["id"], options=options)
    for number in range(2):
        with table.writer() as writer:
            writer.write(pa.table({"id": pa.array([number], pa.int32())}))
            writer.commit()
    create_tag(table.store, "first", 1)
    create_branch(table.store, "dev", "first")
    table.store.storage.write(f"{table.store.paths.root}/consumer/consumer-c", b'{"nextSnapshot": 2}')


@pytest.mark.parametrize("whole", [False, True], ids=["table", "database"])
@pytest.mark.parametrize("seed", range(2))
def test_the_next_table_has_nothing_of_a_table_whose_drop_was_killed(tmp_path: Path, seed: int, whole: bool) -> None:
    fill(catalog_of(tmp_path / "filled"))
    for number in range(100):
        folder = Path(shutil.copytree(tmp_path / "filled", tmp_path / str(number)))
        killed = catalog_of(folder, number, seed)
        try:
            if whole:
                killed.drop_database("shop", cascade=True)
            else:
                killed.drop_table("shop.orders")
        except KilledError:
            pass
        else:
            return
        again = catalog_of(folder)
        again.create_database("shop", ignore_if_exists=True)
        if "orders" in again.tables("shop"):
            again.drop_table("shop.orders")
        table = again.create_table("shop.orders", [("id", "INT NOT NULL")], ["id"])
        left = sorted(path.name for path in Path(table.path).rglob("*") if path.is_file())
        assert left == ["schema-0"], number
    raise AssertionError("the drop has more files than this test expects")


def test_snapshots_of_a_table_without_a_schema_are_refused(tmp_path: Path) -> None:
    """Java deletes a table's files in any order."""
    catalog = catalog_of(tmp_path)
    fill(catalog)
    table = catalog.table("shop.orders")
    (Path(table.path) / "schema" / "schema-0").unlink()
    for create in (
        lambda: catalog.create_table("shop.orders", [("id", "INT")]),
        lambda: penstock.create_table(table.path, [("id", "INT")]),
    ):
        with pytest.raises(ConfigError, match="snapshots of an older table whose schema is gone") as caught:
            create()
        assert caught.value.facts["snapshots"] == "1 to 2"


def test_a_branch_whose_deletion_was_killed_does_not_come_back(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    for number in range(3):
        with table.writer() as writer:
            writer.write(rows(table, (number, "a", None)))
            writer.commit()
        create_tag(table.store, f"tag{number + 1}", number + 1)
    create_branch(table.store, "dev", "tag3")
    branch = Path(table.path) / "branch" / "branch-dev"
    (branch / "schema" / "schema-0").unlink()
    with pytest.raises(ConfigError, match="an interrupted creation or deletion has left") as caught:
        create_branch(table.store, "dev", "tag1")
    assert caught.value.facts["snapshots"] == "3 to 3"
    delete_branch(table.store, "dev")
    assert branch_names(table.store) == []
    create_branch(table.store, "dev", "tag1")
    assert table.store.on_branch("dev").snapshots.ids() == [1]
