"""Manifests put together, and tables that lost files."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError, TableCorrupt
from penstock.table.catalog.clone import copy_table
from penstock.table.handle import Table
from penstock.table.meta.live import all_manifests, live_entries
from penstock.table.meta.snapshot import CommitKind
from tests.invariants import check_invariants
from tests.unit.table.tables import content, new_table, rows

COLUMNS = [("dt", "STRING NOT NULL"), ("id", "INT NOT NULL")]


def filled(folder: Path, commits: int = 4) -> Table:
    table = new_table(folder, COLUMNS, keys=("dt", "id"), partitions=("dt",), options={"bucket": "1"})
    for number in range(commits):
        with table.writer() as writer:
            writer.write(rows(table, ("a", number), ("b", number)))
            writer.commit()
    return table


def data_files(table: Table) -> list[Path]:
    return sorted(Path(table.path).glob("dt=*/bucket-0/data-*"))


def test_manifests_are_merged(tmp_path: Path) -> None:
    table = filled(tmp_path)
    table.compact(full=True)
    before = content(table)
    seen = table.compact_manifests(dry_run=True)
    assert (len(seen.paths), seen.snapshot) == (5, None)
    done = table.compact_manifests()
    assert done.snapshot is not None
    assert done.snapshot.commit_kind is CommitKind.COMPACT
    (manifest,) = all_manifests(table.store, done.snapshot)
    assert (manifest.added_files, manifest.deleted_files) == (2, 0)
    assert done.snapshot.total_record_count == 8
    assert content(table) == before
    assert table.compact_manifests() == table.compact_manifests(dry_run=True)  # nothing left to do
    check_invariants(table)


def test_lost_data_files_are_removed_from_the_table(tmp_path: Path) -> None:
    table = filled(tmp_path)
    lost = data_files(table)[0]
    lost.unlink()
    with pytest.raises(TableCorrupt):
        content(table)
    assert table.remove_unexisting_files([{"dt": "b"}]).paths == ()
    assert [Path(path) for path in table.remove_unexisting_files(dry_run=True).paths] == [lost]
    done = table.remove_unexisting_files([{"dt": "a"}])
    assert done.snapshot is not None
    assert done.snapshot.commit_kind is CommitKind.OVERWRITE
    assert len(content(table)) == 7
    assert table.remove_unexisting_files().snapshot is None
    with table.writer() as writer:
        writer.write(rows(table, ("a", 77)))
        writer.commit()
    assert len(content(table)) == 8


def test_a_table_continues_without_lost_manifests(tmp_path: Path) -> None:
    table = filled(tmp_path)
    assert table.latest_snapshot is not None
    lost = all_manifests(table.store, table.latest_snapshot)[1]
    Path(table.store.paths.manifest(lost.name)).unlink()
    table = penstock.open_table(table.path)
    with pytest.raises(TableCorrupt):
        content(table)
    assert len(table.remove_unexisting_manifests(dry_run=True).paths) == 1
    assert table.remove_unexisting_manifests().snapshot is not None
    assert len(content(table)) == 6
    assert table.remove_unexisting_manifests().paths == ()
    assert table.latest_snapshot is not None
    assert len(live_entries(table.store, table.latest_snapshot)) == 6
    assert table.latest_snapshot.total_record_count == 6


def test_an_empty_table_needs_no_repair(tmp_path: Path) -> None:
    table = filled(tmp_path, 0)
    assert table.compact_manifests().paths == ()
    assert table.remove_unexisting_files().paths == ()
    assert table.remove_unexisting_manifests().paths == ()


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_a_table_is_copied_file_by_file(tmp_path: Path, vectors: str) -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": vectors}
    table = new_table(tmp_path, COLUMNS, keys=("dt", "id"), partitions=("dt",), options=options)
    for number in range(3):
        with table.writer() as writer:
            writer.write(rows(table, ("a", number), ("a", 0)))
            writer.commit()
    catalog = penstock.Catalog(str(tmp_path / "elsewhere"))
    copied = copy_table(table, catalog, "new.t")
    assert content(copied) == content(table)
    assert [snapshot.id for snapshot in copied.snapshots] == [table.snapshots[-1].id]
    check_invariants(copied)
    with copied.writer() as writer:
        writer.write(rows(copied, ("b", 9)))
        writer.commit()
    assert len(content(copied)) == len(content(table)) + 1
    with pytest.raises(ConfigError, match="exists already"):
        copy_table(table, catalog, "new.t")
    empty = new_table(tmp_path / "empty", COLUMNS, keys=("dt", "id"), partitions=("dt",), options={"bucket": "1"})
    assert content(copy_table(empty, catalog, "new.e")) == []


def test_a_copied_table_has_its_changelog_and_expires(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"changelog-producer": "input"})
    for number in range(2):
        with table.writer() as writer:
            writer.write(rows(table, (number, "x", None)))
            writer.commit()
    catalog = penstock.Catalog(tmp_path / "other")
    copied = copy_table(table, catalog, "new.t")
    assert copied.changes(1, 2).to_pylist() == table.changes(1, 2).to_pylist()
    with copied.writer() as writer:
        writer.write(rows(table, (7, "y", None)))
        writer.commit()
    assert copied.expire_snapshots(retain_max=1, older_than=1 << 60).snapshots == 1
    assert copied.remove_orphan_files(older_than=1 << 60, dry_run=True) == []
    assert len(content(copied)) == 3
