"""Environment variables that name a Spark or a Python that does not work are reported by their names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.spark.named_programs import check_spark_home, check_worker_python


def script(folder: Path, lines: str) -> str:
    program = folder / "python"
    program.write_text(f"#!/bin/sh\n{lines}\n")
    program.chmod(0o755)
    return str(program)


def test_a_spark_home_without_spark_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    check_spark_home()
    for home in ("/nowhere", str(tmp_path), ""):
        monkeypatch.setenv("SPARK_HOME", home)
        with pytest.raises(ConfigError, match="SPARK_HOME names a folder that contains no Spark") as refused:
            check_spark_home()
        assert refused.value.facts["SPARK_HOME"] == repr(home)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    check_spark_home()


def test_a_python_without_packages_or_of_another_version_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    check_worker_python()
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    missing = f"echo {own}; echo \"ModuleNotFoundError: No module named 'pyarrow'\" >&2; exit 1"
    for number, (lines, reason) in enumerate(
        [
            (missing, "ModuleNotFoundError: No module named 'pyarrow'"),
            ("echo 3.9; exit 1", f"it is Python 3.9, and the driver is Python {own}"),
            ("exit 7", "it ended with exit code 7"),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.setenv("PYSPARK_PYTHON", script(folder, lines))
        with pytest.raises(ConfigError, match="cannot run Spark's tasks") as refused:
            check_worker_python()
        assert refused.value.facts["reason"] == reason
    monkeypatch.setenv("PYSPARK_PYTHON", "/nowhere/python")
    with pytest.raises(ConfigError, match="cannot run Spark's tasks") as refused:
        check_worker_python()
    assert "does not start" in str(refused.value.facts["reason"])
    monkeypatch.setenv("PYSPARK_PYTHON", script(tmp_path, f"echo {own}"))
    check_worker_python()
