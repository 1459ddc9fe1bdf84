"""An archive of the JVM's loaded classes: a start of Spark costs half the CPU with it (measured: 14 s to 6 s).

It is made once per Java and Spark, by `penstock warm` or when an image is built, and used whenever it is there. A JVM
that finds it does not fit goes on without.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pyspark

from penstock.pipelines.spark.java import cache_folder

_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def archive_path() -> Path:
    """Where the archive for this Java and this Spark is, or would be."""
    java = Path(os.environ["JAVA_HOME"]).resolve()
    release = java / "release"
    spark = os.environ.get("SPARK_HOME", pyspark.__file__)
    facts = f"{java}\n{spark}\n{pyspark.__version__}\n{release.read_text() if release.exists() else ''}"
    return cache_folder() / "classes" / f"{hashlib.sha256(facts.encode()).hexdigest()[:16]}.jsa"


def use_flags() -> str:
    """The JVM's flags to use the archive; none while there is none."""
    if "JAVA_HOME" not in os.environ or not (path := archive_path()).exists():
        return ""
    return f"-XX:SharedArchiveFile={path} {_SILENT}"


def make_flags(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    return f"-XX:ArchiveClassesAtExit={path} {_SILENT}"
