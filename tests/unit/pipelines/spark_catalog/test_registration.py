from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

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
