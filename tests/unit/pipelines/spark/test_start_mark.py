"""The sign that the last run of a command found something."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.spark.start_mark import StartMark


def test_a_mark_is_of_one_command_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    mark = StartMark.of(["run", "shop.yaml"])
    assert not mark.expects_spark
    mark.note(needed=False)
    mark.note(needed=True)
    mark.note(needed=True)
    assert mark.expects_spark
    assert StartMark.of(["run", "shop.yaml"]).expects_spark
    assert not StartMark.of(["run", "other.yaml"]).expects_spark
    monkeypatch.chdir(tmp_path)
    assert not StartMark.of(["run", "shop.yaml"]).expects_spark
    mark.note(needed=False)
    assert not mark.expects_spark


def test_a_mark_that_cannot_be_written_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    mark = StartMark(tmp_path / "file/mark")
    mark.note(needed=True)
    assert not mark.expects_spark


def test_a_working_directory_that_was_deleted_is_refused_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.setenv("PWD", str(folder))
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(ConfigError, match="working directory of this process was deleted") as refused:
        StartMark.of(["run", "shop.yaml"])
    assert refused.value.facts["directory"] == str(folder)
