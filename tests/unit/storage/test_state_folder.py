from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.storage.state_folder import StateFolder


def test_files_are_listed_in_order_without_folders_and_hidden_files(tmp_path: Path) -> None:
    folder = StateFolder(f"{tmp_path}/a/")
    for name in ("2", "1", ".half"):
        folder.write(name, name.encode())
    folder.below("deeper").write("3", b"3")
    assert folder.names() == ["1", "2"]
    assert folder.below("deeper").read("3") == b"3"
    assert StateFolder(str(tmp_path)).below("a", prefix="2").names() == ["2"]


def test_a_missing_file_reads_as_none(tmp_path: Path) -> None:
    folder = StateFolder(f"{tmp_path}/none")
    assert folder.read("1") is None
    assert folder.below("1").read("2") is None
    assert folder.names() == []
    assert not folder.exists
    assert not folder.delete("1")


def test_a_file_below_a_file_reads_as_none(tmp_path: Path) -> None:
    folder = StateFolder(str(tmp_path))
    folder.write("1", b"x")
    assert folder.below("1").read("2") is None


def test_secrets_are_not_printed_and_references_are_resolved_late() -> None:
    folder = StateFolder.of("s3://bucket/path", {"s3.secret-key": "hidden", "s3.access-key": "${NOT_SET_ANYWHERE}"})
    assert "hidden" not in repr(folder)
    assert pickle.loads(pickle.dumps(folder)) == folder
    with pytest.raises(ConfigError, match="NOT_SET_ANYWHERE"):
        folder.names()


def test_an_unchanged_folder_writes_aside(tmp_path: Path) -> None:
    folder, aside = StateFolder(f"{tmp_path}/state"), f"{tmp_path}/aside"
    for name in ("1", "2", "3"):
        folder.below("deeper").write(name, b"before")
    asked = folder.unchanged(aside).below("deeper")
    asked.write("2", b"after")
    assert (asked.create("1", b"other"), asked.create("1", b"before"), asked.create("4", b"new")) == (False, True, True)
    assert (asked.delete("4"), asked.create("4", b"newer"), asked.delete("3"), asked.delete("5")) == (
        True,
        True,
        True,
        False,
    )
    assert [asked.read(name) for name in ("1", "2", "3", "4", "5")] == [b"before", b"after", b"before", b"newer", None]
    assert asked.names() == ["1", "2", "3", "4"]
    assert folder.unchanged(aside).below("deeper", prefix="4").names() == ["4"]
    assert [folder.below("deeper").read(name) for name in ("1", "2", "3", "4")] == [
        b"before",
        b"before",
        b"before",
        None,
    ]
    assert StateFolder(f"{tmp_path}/none").unchanged(aside).below("deeper").exists
    assert not (tmp_path / "none").exists()
