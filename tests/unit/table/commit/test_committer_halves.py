"""The two snapshots of a commit with a compaction: one hint LATEST and one listing of schemas for both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import CommitConflict
from penstock.storage.base import Storage
from penstock.table.commit import committer as commits
from penstock.table.commit.attempt import commit_snapshot
from penstock.table.commit.committer import Committer
from penstock.table.handle import Table
from penstock.table.meta.store import TableStore
from penstock.table.schema.changes import AddColumn
from penstock.table.values.types import parse_type
from tests.unit.table.tables import new_table, rows


class Counted:
    """A store that notes the calls for some names."""

    def __init__(self, inner: Storage, *names: str) -> None:
        self._inner, self._names = inner, names
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(path: Any, *arguments: Any) -> Any:
            if isinstance(path, str) and path.endswith(self._names):  # else several files at once
                self.calls.append(f"{name} {path.rpartition('/')[2]}")
            return found(path, *arguments)

        return call


def committed(table: Table, *names: str) -> Counted:
    """Add a row, and return the store with the calls that its commit made."""
    store = Counted(table.store.storage, *names)
    opened = Table(TableStore.open(store, table.store.paths.root))  # type: ignore[arg-type]
    with opened.writer(commit_user="job") as writer:
        writer.write(rows(opened, (1, "a", None)))
        store.calls.clear()
        writer.commit(0)
    return store


def lookup_table(folder: Path) -> Table:
    return new_table(folder, options={"bucket": "1", "changelog-producer": "lookup"})


def test_both_halves_of_a_commit_write_one_hint_and_list_the_schemas_once(tmp_path: Path) -> None:
    table = lookup_table(tmp_path)
    store = committed(table, "/LATEST", "/schema")
    writes = [call for call in store.calls if call.startswith(("list", "write"))]
    # The first listing is that of the writer, which compacts with the newest schema.
    assert writes == ["list schema", "list schema", "write_hint LATEST"]
    assert [snapshot.commit_kind for snapshot in table.snapshots] == ["APPEND", "COMPACT"]
    assert (tmp_path / "warehouse/shop.db/orders/snapshot/LATEST").read_text() == "2"


def test_a_commit_whose_compaction_is_lost_leaves_the_hint_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lookup_table(tmp_path)
    calls: list[object] = []
    writer = table.writer(commit_user="job")
    writer.write(rows(table, (1, "a", None)))
    messages = writer.prepare(1)

    def lose_the_second(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            raise CommitConflict("another job was faster")
        return commit_snapshot(*arguments)

    monkeypatch.setattr(commits, "commit_snapshot", lose_the_second)
    assert Committer(table.store, "job").commit(messages, 1).lost_compaction is not None
    assert (tmp_path / "warehouse/shop.db/orders/snapshot/LATEST").read_text() == "1"


def test_a_second_half_has_the_schema_version_that_was_made_after_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lookup_table(tmp_path)
    calls: list[object] = []

    def alter_between(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            table.store.evolve([AddColumn("more", parse_type("INT"))], lambda _new, _old: None)
        return commit_snapshot(*arguments)

    monkeypatch.setattr(commits, "commit_snapshot", alter_between)
    committed(table)
    assert [snapshot.schema_id for snapshot in table.snapshots] == [0, 1]
