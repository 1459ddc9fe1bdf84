"""Names that would lead out of the warehouse or a table's folder, at every door that takes one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import ConfigError, PenstockError, TableCorrupt
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.maintenance.file_deletion import delete_all
from penstock.table.meta.paths import TablePaths
from penstock.table.schema.changes import SetOption
from tests.cases import each

AWAY = ["../elsewhere", "..", ".", "a/../../elsewhere", "/etc", "a\0b", "", " ", "x" * 300, "é" * 200, "\ud800"]
ROWS = pa.table({"a": pa.array([1], pa.int32())})


@pytest.fixture
def outside(tmp_path: Path) -> Catalog:
    """A warehouse around the other one."""
    around = Catalog(str(tmp_path), {"local.sync": "false"})
    around.create_database("elsewhere")
    around.create_table("elsewhere.precious", [("a", "INT")])
    return around


@pytest.fixture
def catalog(tmp_path: Path, outside: Catalog) -> Catalog:
    made = Catalog(str(tmp_path / "warehouse"), {"local.sync": "false"})
    made.create_database("d")
    made.create_table("d.t", [("a", "INT")])
    return made


def written(catalog: Catalog) -> Table:
    with catalog.table("d.t").writer() as writer:
        writer.write(ROWS)
        writer.commit()
    return catalog.table("d.t")


DOORS: dict[str, Callable[[Catalog, str], object]] = {
    "tables": lambda c, name: c.tables(name),
    "create_database": lambda c, name: c.create_database(name),
    "drop_database": lambda c, name: c.drop_database(name, cascade=True),
    "drop_database if missing": lambda c, name: c.drop_database(name, ignore_if_missing=True, cascade=True),
    "table": lambda c, name: c.table(f"d.{name}"),
    "table of a database": lambda c, name: c.table(f"{name}.t"),
    "table_exists": lambda c, name: c.table_exists(f"d.{name}"),
    "create_table": lambda c, name: c.create_table(f"d.{name}", [("a", "INT")]),
    "create_table in a database": lambda c, name: c.create_table(f"{name}.t", [("a", "INT")]),
    "drop_table": lambda c, name: c.drop_table(f"d.{name}"),
    "drop_table if missing": lambda c, name: c.drop_table(f"d.{name}", ignore_if_missing=True),
    "drop_table of a database": lambda c, name: c.drop_table(f"{name}.precious"),
    "rename from": lambda c, name: c.rename_table(f"d.{name}", "d.new"),
    "rename to": lambda c, name: c.rename_table("d.t", f"d.{name}"),
    "rename to a database": lambda c, name: c.rename_table("d.t", f"{name}.new"),
    "alter_table": lambda c, name: c.alter_table(f"d.{name}", [SetOption("bucket", "2")]),
    "branch in a name": lambda c, name: c.table(f"d.t$branch_{name}"),
    "create_tag": lambda c, name: written(c).create_tag(name),
    "delete_tag": lambda c, name: written(c).delete_tag(name),
    "scan a tag": lambda c, name: written(c).scan(tag=name).to_arrow(),
    "create_branch": lambda c, name: written(c).create_branch(name),
    "delete_branch": lambda c, name: written(c).delete_branch(name),
    "fast_forward": lambda c, name: written(c).fast_forward(name),
    "scan a branch": lambda c, name: written(c).scan(branch=name).to_arrow(),
    "reset_consumer": lambda c, name: written(c).reset_consumer(name, 1),
    "rollback_to": lambda c, name: written(c).rollback_to(name),
}


@pytest.mark.parametrize("door", DOORS)
def test_no_name_leads_out_of_the_warehouse(catalog: Catalog, outside: Catalog, tmp_path: Path, door: str) -> None:
    def around() -> list[Path]:
        return sorted(path for path in tmp_path.rglob("*") if "warehouse" not in path.parts)

    def is_refused(name: str) -> None:
        if (door, name) == ("scan a branch", ""):
            return  # no branch is the main branch
        with pytest.raises(PenstockError) as refused:
            DOORS[door](catalog, name)
        assert "\0" not in str(refused.value)
        assert around() == before
        assert outside.tables("elsewhere") == ["precious"]

    before = around()
    each(AWAY, is_refused)


@pytest.mark.parametrize("name", ["a b", "Ä", "a..b", "...a", "%2e%2e", "2024-05-06 10:00", "x" * 200])
def test_odd_names_within_the_warehouse_are_accepted(catalog: Catalog, name: str) -> None:
    table = written(catalog)
    table.create_tag(name)
    table.create_branch(name)
    table.reset_consumer(name, 1)
    assert (table.scan(tag=name).to_arrow().num_rows, name in table.tags, name in table.branches) == (1, True, True)


@pytest.mark.parametrize("folder", ["..", "../t", "a/../../t", "a/./b", "a//b", "a\0b", "../../.."])
def test_data_files_are_below_their_table(catalog: Catalog, folder: str) -> None:
    with pytest.raises(ConfigError, match="leads out of the table's folder"):
        catalog.create_table("d.evil", [("a", "INT")], options={"data-file.path-directory": folder})
    with pytest.raises(ConfigError, match="leads out"):
        TablePaths.of("/w/d.db/evil", {"data-file.path-directory": folder})
    assert catalog.tables("d") == ["t"]


def test_a_data_folder_below_the_table_is_accepted(catalog: Catalog) -> None:
    catalog.create_table("d.u", [("a", "INT")], options={"data-file.path-directory": "/files/data/"})
    with catalog.table("d.u").writer() as writer:
        writer.write(ROWS)
        writer.commit()
    assert list(Path(catalog.table("d.u").path, "files", "data").rglob("data-*"))


def test_files_outside_of_the_table_are_neither_read_nor_deleted(catalog: Catalog, tmp_path: Path) -> None:
    store = written(catalog).store
    file = tmp_path / "precious"
    file.write_text("x")
    away = f"{store.paths.root}/bucket-0/../../../../precious"
    assert Path(away).resolve() == file
    swept = delete_all(store, [away])
    assert (swept.deleted, swept.failed, file.exists()) == (0, 1, True)
    for name in ("../snapshot/snapshot-1", "/etc/passwd", "..", ""):
        for path in (store.paths.manifest, store.paths.statistics, lambda item: store.paths.index_file(item, "", 0)):
            with pytest.raises(TableCorrupt, match="outside of the folder of the table"):
                path(name)


KEYED: list[tuple[str, str]] = [("id", "INT NOT NULL"), ("p", "STRING")]
LONG_NAMES: dict[str, Callable[[Catalog], Table]] = {
    "prefix": lambda c: c.create_table("d.l", KEYED, primary_keys=["id"], options={"data-file.prefix": "x" * 250}),
    "prefix of changes": lambda c: c.create_table("d.l", KEYED, options={"changelog-file.prefix": "é" * 100}),
    "partition column": lambda c: c.create_table(
        "d.l", [("id", "INT"), ("p" * 240, "STRING")], partition_keys=["p" * 240]
    ),
    "escaped partition column": lambda c: c.create_table(
        "d.l", [("id", "INT"), (":" * 100, "STRING")], partition_keys=[":" * 100]
    ),
    "null partition": lambda c: c.create_table(
        "d.l", KEYED, partition_keys=["p"], options={"partition.default-name": "x" * 300}
    ),
    "data folder": lambda c: c.create_table("d.l", KEYED, options={"data-file.path-directory": "x" * 300}),
    "commit user": lambda c: c.create_table("d.l", KEYED, primary_keys=["id"], options={"bucket": "-2"}),
}


@pytest.mark.parametrize("case", LONG_NAMES)
def test_names_that_are_too_long_for_a_file_system_are_refused_by_name(catalog: Catalog, case: str) -> None:
    def write() -> None:
        with LONG_NAMES[case](catalog).writer(commit_user="u" * 250 if case == "commit user" else "etl") as writer:
            writer.write(pa.table({"id": pa.array([1], pa.int32()), "p": pa.array([None], pa.string())}))
            writer.commit()

    with pytest.raises(ConfigError, match="is too long") as caught:
        write()
    assert caught.value.hint


@pytest.mark.parametrize(
    "options", [{"data-file.prefix": "x" * 190, "changelog-file.prefix": "x" * 190, "changelog-producer": "input"}]
)
def test_the_longest_prefixes_are_usable(catalog: Catalog, options: dict[str, str]) -> None:
    more = {"file.suffix.include.compression": "true", "bucket": "1"}
    table = catalog.create_table("d.l", KEYED, primary_keys=["id"], options=options | more)
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array([1], pa.int32()), "p": ["a"]}))
        writer.commit()
    assert table.scan().to_arrow().num_rows == 1
