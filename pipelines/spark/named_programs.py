"""Checks of the Spark and the Python that environment variables name, before a JVM is started with them."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from penstock.errors import ConfigError

_SECONDS = 60  # for importing the packages on a busy machine
_PROBE = "import sys; print(*sys.version_info[:2], sep='.'); import numpy, pyarrow"


def check_spark_home() -> None:
    """Raise ConfigError if SPARK_HOME names a folder that contains no Spark."""
    home = os.environ.get("SPARK_HOME")
    if home is not None and not Path(home, "bin", "spark-submit").is_file():
        raise ConfigError(
            "SPARK_HOME names a folder that contains no Spark",
            SPARK_HOME=repr(home),
            missing="bin/spark-submit",
            hint="unset SPARK_HOME: the package pyspark contains a Spark; or set it to the folder of another one",
        )


def check_worker_python() -> None:
    """Raise ConfigError if PYSPARK_PYTHON names a Python that cannot run the tasks of this process."""
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    if python != sys.executable:  # this one has the packages, and starting another one takes time
        _check_python(python, f"{sys.version_info.major}.{sys.version_info.minor}")


@cache
def _check_python(python: str, own_version: str) -> None:
    try:
        done = subprocess.run(
            [python, "-c", _PROBE], capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as reason:
        raise _refusal(python, f"it does not start: {reason}") from reason
    version = done.stdout.strip()
    if version and version != own_version:
        raise _refusal(python, f"it is Python {version}, and the driver is Python {own_version}")
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise _refusal(python, lines[-1] if lines else f"it ended with exit code {done.returncode}")


def _refusal(python: str, reason: str) -> ConfigError:
    return ConfigError(
        "the Python that PYSPARK_PYTHON names cannot run Spark's tasks",
        PYSPARK_PYTHON=python,
        reason=reason,
        hint=f"unset PYSPARK_PYTHON: tasks then run with {sys.executable}; or install Penstock for that Python",
    )
