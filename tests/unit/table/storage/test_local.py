"""Local files: whole or not there, one maker a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.table.storage.local import LocalStorage
from penstock.table.storage.open import open_storage, probe

storage = LocalStorage()


def test_create_makes_parents_and_refuses_a_taken_name(tmp_path: Path) -> None:
    path = f"{tmp_path}/a/b/snapshot-1"
    assert storage.create(path, b"one")
    assert not storage.create(path, b"two")
    assert storage.read(path) == b"one"
    assert [entry.name for entry in storage.list(f"{tmp_path}/a/b")] == ["snapshot-1"]


def test_write_replaces(tmp_path: Path) -> None:
    storage.write(f"{tmp_path}/hint", b"1")
    storage.write(f"{tmp_path}/hint", b"2")
    assert storage.read(f"{tmp_path}/hint") == b"2"


def test_ranges_are_read_alone(tmp_path: Path) -> None:
    storage.write(f"{tmp_path}/f", b"0123456789")
    assert storage.read_range(f"{tmp_path}/f", 3, 4) == b"3456"


def test_a_missing_folder_lists_empty(tmp_path: Path) -> None:
    assert storage.list(f"{tmp_path}/none") == []


def test_delete_leaves_full_folders_and_ignores_missing_files(tmp_path: Path) -> None:
    storage.write(f"{tmp_path}/d/f", b"")
    storage.delete(f"{tmp_path}/d")
    assert storage.exists(f"{tmp_path}/d/f")
    storage.delete(f"{tmp_path}/d/f")
    storage.delete(f"{tmp_path}/d/f")
    storage.delete(f"{tmp_path}/d")
    assert not storage.exists(f"{tmp_path}/d")


def test_output_tells_its_place_and_makes_parents(tmp_path: Path) -> None:
    with storage.open_output(f"{tmp_path}/p=1/bucket-0/f") as stream:
        stream.write(b"abc")
        assert stream.tell() == 3
    assert storage.size(f"{tmp_path}/p=1/bucket-0/f") == 3


def test_rename_refuses_an_existing_target(tmp_path: Path) -> None:
    storage.write(f"{tmp_path}/a/f", b"")
    storage.write(f"{tmp_path}/b/f", b"")
    with pytest.raises(FileExistsError):
        storage.rename_tree(f"{tmp_path}/a", f"{tmp_path}/b")


def test_probe_leaves_nothing(tmp_path: Path) -> None:
    found, path = open_storage(str(tmp_path), {})
    probe(found, path)
    assert storage.list(path) == []
