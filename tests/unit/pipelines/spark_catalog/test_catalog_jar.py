"""The Java classes of the catalog: javac accepts them, and the jar is named by what it is made from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyspark
import pytest

from penstock.pipelines.spark_catalog.catalog_jar import SOURCES, cached_jar, joined_source

# Raw types, because the compiler in Spark ignores generics; the files are joined to one, which is a class file's home.
ALLOWED = ("rawtypes", "unchecked", "cast", "serial", "classfile", "path", "auxiliaryclass", "processing")


@pytest.mark.java
@pytest.mark.slow
def test_javac_has_no_warnings(tmp_path: Path) -> None:
    lint = "-Xlint:all," + ",".join(f"-{name}" for name in ALLOWED)
    jars = f"{pyspark.__path__[0]}/jars/*"
    files = [str(path) for path in sorted(SOURCES.glob("*.java"))]
    command = ["javac", lint, "-Werror", "-proc:none", "-d", str(tmp_path), "-cp", jars, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_joined_source_has_one_package_and_each_import_once() -> None:
    lines = joined_source().splitlines()
    imports = [line for line in lines if line.startswith("import ")]
    assert [line for line in lines if line.startswith("package ")] == ["package penstock.spark;"]
    assert len(imports) == len(set(imports))
    assert sum("class PenstockCatalog " in line for line in lines) == 1


def test_each_version_of_spark_has_its_own_jar() -> None:
    assert cached_jar("4.3.0") == cached_jar("4.3.0")
    assert cached_jar("4.3.0") != cached_jar("4.3.1")
