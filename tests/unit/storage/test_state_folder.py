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
