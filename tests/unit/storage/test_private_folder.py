"""Folders in the shared temporary one: nobody else reads them, and nobody else's are used."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from penstock.storage.private_folder import _own, private_folder
from penstock.table.compaction.lookup_store import lookup_folder
from penstock.table.dynamic_buckets.index_folder import default_folder


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder, by its guessable name for this user."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    _own.cache_clear()
    return tmp_path / f"penstock-{os.getuid()}"


@pytest.mark.parametrize("made", [lookup_folder, default_folder, lambda: private_folder("x")])
def test_a_private_folder_is_created_and_found_again(shared: Path, made: object) -> None:
    assert callable(made)
    before = os.umask(0)
    try:
        folder = made()
    finally:
        os.umask(before)
    assert folder.parent == shared
    assert [path.stat().st_mode & 0o777 for path in (shared, folder)] == [0o700, 0o700]
    (folder / "kept").touch()
    assert made() == folder
    assert (folder / "kept").exists()


def test_a_readable_folder_is_restricted_and_a_writable_one_emptied(shared: Path) -> None:
    folder = private_folder("x")
    (folder / "kept").touch()
    shared.chmod(0o755)
    folder.chmod(0o755)
    assert (private_folder("x") / "kept").exists()
    folder.chmod(0o777)
    assert list(private_folder("x").iterdir()) == []
    assert (shared.stat().st_mode | folder.stat().st_mode) & 0o777 == 0o700


@pytest.mark.parametrize("which", ["the folder", "the one in it"])
def test_a_link_is_not_followed(shared: Path, tmp_path: Path, which: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o777)
    if which == "the one in it":
        shared.mkdir(mode=0o700)
        (shared / "x").symlink_to(elsewhere)
    else:
        shared.symlink_to(elsewhere)
    folder = private_folder("x")
    assert folder.resolve() != (elsewhere / "x").resolve() != folder
    assert elsewhere not in folder.resolve().parents
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(elsewhere.iterdir()) == []
    assert private_folder("x") == folder, "the same one as long as the process lives"


@pytest.mark.skipif(os.getuid() != 0, reason="CANNOT RUN HERE: only root makes folders of other users")
def test_a_folder_of_another_user_is_not_used(shared: Path) -> None:
    shared.mkdir(mode=0o777)
    os.chown(shared, 4712, 4712)
    folder = private_folder("x")
    assert shared not in folder.parents
    assert folder.stat().st_uid == os.getuid()
