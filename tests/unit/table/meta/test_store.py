"""The store of a table: schema changes, and the object that commits them."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.storage.environment import Environment
from penstock.table.meta.store import FileCommits, TableStore
from penstock.table.schema.changes import AddColumn, Check, RenameColumn, SchemaChange, SetOption
from penstock.table.schema.table_schema import TableSchema
from penstock.table.usable import check_usable
from tests.unit.table.tables import new_table, rows


@dataclass(frozen=True)
class Reporting(FileCommits):
    """Commits that pass the name of a changed table on, as a metastore needs it."""

    changed: tuple[list[str], ...] = ([],)

    def evolve_schema(self, store: TableStore, changes: Sequence[SchemaChange], check: Check) -> TableSchema:
        evolved = FileCommits.evolve_schema(self, store, changes, check)
        self.changed[0].append(store.name)
        return evolved


def test_changes_create_the_next_schema_version(tmp_path: Path) -> None:
    store = new_table(tmp_path).store
    before = store.schema()
    evolved = store.evolve([AddColumn("more", "INT")], check_usable)
    assert evolved.id == before.id + 1
    assert evolved.names == (*before.names, "more")
    assert evolved.time_millis == store.schema().time_millis
    assert store.schema() == evolved


def test_changes_that_change_nothing_return_the_newest_version(tmp_path: Path) -> None:
    store = new_table(tmp_path, options={"bucket": "1"}).store
    assert store.evolve([SetOption("bucket", "1")], check_usable).id == 0
    assert store.schemas.ids() == [0]


def test_a_refused_version_is_not_created(tmp_path: Path) -> None:
    store = new_table(tmp_path).store
    with pytest.raises(ConfigError, match="csv"):
        store.evolve([SetOption("file.format", "csv")], check_usable)
    assert store.schemas.ids() == [0]


def test_options_that_fix_the_layout_change_only_before_the_first_snapshot(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.store.evolve([SetOption("merge-engine", "first-row")], check_usable)
    with table.refresh().writer() as writer:
        writer.write(rows(table, (1, "x", None)))
        writer.commit()
    with pytest.raises(ConfigError, match="merge-engine"):
        table.store.evolve([SetOption("merge-engine", "deduplicate")], check_usable)


def test_a_branch_commits_as_its_table_does(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.create_branch("b")
    commits = Reporting(([],))
    branch = replace(table.store, commits=commits).on_branch("b")
    branch.evolve([RenameColumn("amount", "total")], check_usable)
    assert commits.changed == ([branch.name],)
    assert "total" not in table.store.schema().names


def test_a_pickled_store_keeps_its_commits(tmp_path: Path) -> None:
    store = replace(new_table(tmp_path).store, ambient=Environment(), commits=Reporting((["t"],)))
    assert pickle.loads(pickle.dumps(store)).commits == Reporting((["t"],))
