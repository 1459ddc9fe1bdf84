"""Orphans among the files of Iceberg metadata: what a writer that died leaves, and never what a kept version names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.table.handle import Table
from penstock.table.iceberg.place import IcebergPlace
from penstock.table.maintenance.orphans import find_orphans
from tests.iceberg import AT_TABLE, VECTORS, folder_of, iceberg_rows, newest, ordered
from tests.orphans import remove_orphans
from tests.unit.table.tables import new_table, rows

LATE = 1 << 60
NO_OPTIONS: Mapping[str, str] = {}
ALL_VERSIONS = {"metadata.iceberg.delete-after-commit.enabled": "false"}
TWO_BEFORE = {"metadata.iceberg.previous-versions-max": "2"}


def commit(table: Table, *values: tuple[object, ...]) -> None:
    with table.writer() as writer:
        writer.write(rows(table, *values))
        writer.commit()


def filled(folder: Path, commits: int = 6, options: Mapping[str, str] = NO_OPTIONS) -> Table:
    columns = [("id", "BIGINT NOT NULL"), ("name", "STRING")]
    table = new_table(folder, columns, options={"bucket": "1", **AT_TABLE, **options})
    for number in range(commits):
        commit(table, (number, "a"), (0, str(number)))
        table.compact()
    return table


def orphans(table: Table) -> set[str]:
    return {orphan.path.rpartition("/")[2] for orphan in find_orphans(table.store, older_than=LATE)}


def folder_files(table: Table) -> set[str]:
    return {path.name for path in folder_of(table).iterdir()}


@pytest.mark.parametrize("options", [NO_OPTIONS, TWO_BEFORE, VECTORS, ALL_VERSIONS])
def test_nothing_that_publications_keep_is_an_orphan(options: Mapping[str, str], tmp_path: Path) -> None:
    table = filled(tmp_path, 6, options)
    table.expire_snapshots(retain_max=2, retain_min=1)
    commit(table, (9, "z"))
    assert orphans(table) == set()


@pytest.mark.slow
def test_an_unfinished_publication_leaves_orphans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = filled(tmp_path)
    before = folder_files(table)
    with monkeypatch.context() as patched:
        # The manifests and the list are written, the version is not.
        patched.setattr(IcebergPlace, "create_version", _dies)
        with pytest.raises(KeyboardInterrupt):
            commit(table, (77, "lost"))
    left = folder_files(table) - before
    assert any(name.startswith("snap-") for name in left)
    assert orphans(table) == left
    table.compact()
    expected, names = ordered(iceberg_rows(folder_of(table))), folder_files(table) - left
    assert remove_orphans(table.store, older_than=LATE).deleted == len(left)
    assert folder_files(table) == names
    assert ordered(iceberg_rows(folder_of(table))) == expected


def _dies(self: IcebergPlace, version: int, data: bytes) -> bool:
    raise KeyboardInterrupt


def test_young_files_belong_to_a_publication_that_runs(tmp_path: Path) -> None:
    table = filled(tmp_path, 1)
    lost = folder_of(table) / "00000000-m0.avro"
    lost.write_bytes(b"")
    assert find_orphans(table.store) == []
    os.utime(lost, (1, 1))
    assert [orphan.path for orphan in find_orphans(table.store)] == [str(lost)]


def test_versions_before_the_kept_ones_are_orphans(tmp_path: Path) -> None:
    table = filled(tmp_path, 6, TWO_BEFORE)
    folder = folder_of(table)
    current = int(newest(folder).name.split(".")[0][1:])
    kept = {f"v{current - number}.metadata.json" for number in range(3)}
    assert {path.name for path in folder.glob("v*.metadata.json")} == kept
    # As a writer leaves them that dies after its own version.
    for number in (1, current - 3):
        (folder / f"v{number}.metadata.json").write_bytes(newest(folder).read_bytes())
    assert orphans(table) == {"v1.metadata.json", f"v{current - 3}.metadata.json"}


@pytest.mark.parametrize("name", ["notes.txt", "version-hint.text", "index.html", "v1.metadata.json.bak"])
def test_files_of_others_are_kept(name: str, tmp_path: Path) -> None:
    table = filled(tmp_path, 2)
    path = folder_of(table) / name
    if not path.exists():
        path.write_bytes(b"x")
    assert orphans(table) == set()


def test_metadata_of_another_catalog_keeps_all_files(tmp_path: Path) -> None:
    table = filled(tmp_path, 2)
    (folder_of(table) / "lost-m0.avro").write_bytes(b"")
    assert orphans(table) == {"lost-m0.avro"}
    (folder_of(table) / "00001-5b3c.metadata.json").write_bytes(b"{}")
    assert orphans(table) == set()


@pytest.mark.parametrize("damaged", ["v*.metadata.json", "snap-*.avro"])
def test_metadata_that_cannot_be_read_keeps_all_files(
    damaged: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = filled(tmp_path, 2)
    (folder_of(table) / "lost-m0.avro").write_bytes(b"")
    for path in folder_of(table).glob(damaged):
        path.write_bytes(b"?")
    assert orphans(table) == set()
    assert "event=iceberg_files_kept" in caplog.text


def test_a_missing_list_of_the_newest_version_keeps_all_files(tmp_path: Path) -> None:
    table = filled(tmp_path, 2)
    (folder_of(table) / "lost-m0.avro").write_bytes(b"")
    for path in folder_of(table).glob("snap-*.avro"):
        path.unlink()
    assert orphans(table) == set()


def test_vectors_that_the_next_publication_needs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = filled(tmp_path, 1, VECTORS)
    for number in (2, 3):
        commit(table, (number, "a"), (number // 2, "b"), (number + 100, "c"))
    before, create = folder_files(table), IcebergPlace.create_version
    append = max(snapshot.id for snapshot in table.refresh().snapshots) + 1

    def dying(self: IcebergPlace, version: int, data: bytes) -> bool:
        if version > append:  # the compaction, which has the vectors
            raise KeyboardInterrupt
        return create(self, version, data)

    with monkeypatch.context() as patched:
        patched.setattr(IcebergPlace, "create_version", dying)
        with pytest.raises(KeyboardInterrupt):
            commit(table, (4, "a"), (2, "b"), (104, "c"))
    left = {name for name in folder_files(table) - before if name.endswith(".puffin")}
    assert left
    assert orphans(table)
    assert not left & orphans(table)
