from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException

import penstock
from penstock.errors import ConfigError
from penstock.pipelines.spark_catalog import catalog_jar
from penstock.pipelines.spark_catalog.registration import _warn_of_another_python


def session(master: str, python: str) -> Any:
    return cast(Any, SimpleNamespace(_sc=SimpleNamespace(master=master, pythonExec=python)))


@pytest.mark.parametrize(
    ("other", "is_warned"),
    [
        (session("local[2]", sys.executable), False),
        (session("local", "/nowhere/python3"), True),
        (session("local[*]", "python-that-is-nowhere"), True),
        (session("spark://master:7077", "/nowhere/python3"), False),  # its machines have their own paths
        (SimpleNamespace(), False),
    ],
)
def test_tasks_with_another_python_are_warned_of(other: Any, is_warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    _warn_of_another_python(other)
    assert (f"PYSPARK_PYTHON={sys.executable}" in caplog.text) is is_warned


def test_a_python_of_the_same_environment_is_not_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    _warn_of_another_python(session("local[1]", "python3"))
    assert not caplog.text


class WithoutJars:
    """A session of Spark Connect whose server accepts no files of its clients."""

    def __init__(self) -> None:
        self.conf, self.settings = self, dict[str, str]()
        self.dataSource = SimpleNamespace(register=lambda _: None)

    def get(self, key: str, default: str | None = None) -> str | None:
        return self.settings.get(key, default)

    def set(self, key: str, value: str) -> None:
        self.settings[key] = value

    def addArtifact(self, path: str) -> None:
        raise PySparkException(f"Artifacts are not allowed here: {path}\nat the.server")


def test_a_session_that_refuses_jars_names_reads_by_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(catalog_jar, "jar_without_session", lambda: tmp_path / "catalog.jar")
    monkeypatch.setattr("pyspark.sql.utils.is_remote", lambda: True)
    found = WithoutJars()
    with pytest.raises(ConfigError, match="refuses the jar of the catalog") as caught:
        penstock.register(cast(Any, found), catalog="lake", warehouse=tmp_path)
    assert caught.value.facts["reason"] == f"Artifacts are not allowed here: {tmp_path}/catalog.jar"
    assert caught.value.hint == "tables are read and written by their path without it: see docs/spark.md"
    # A catalog without its class would make other statements of the session fail.
    assert not any(key.startswith("spark.sql.catalog.lake") for key in found.settings)
