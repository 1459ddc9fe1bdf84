"""Two ways to start Spark's JVM faster: an archive of its classes, and a home of Spark without a zip of Python.

An archive of loaded classes halves the CPU time of a start (measured: 14 s to 6 s). It is created once per Java and
Spark version, by `penstock warm` or when an image is built, and used whenever it exists. A JVM that finds an archive
incompatible starts without it.

Spark puts `python/lib/pyspark.zip` of its home first on the path of each Python process it starts. Python caches no
bytecode for a zip, so about ten processes per start compile the same modules, each for half a second to a second.
Without the zip they import the installed package, which is the same code.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import site
import sys
import tempfile
from pathlib import Path

from penstock.pipelines.spark.java import cache_folder, pyspark_folder, pyspark_version

# A JVM whose classes or flags differ from those of the archive warns on its standard output, and then starts
# without the archive.
_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def archive_path() -> Path:
    """Return the path of the archive for this Java and this Spark, whether or not it exists."""
    java = Path(os.environ["JAVA_HOME"]).resolve()
    release = java / "release"
    spark = os.environ.get("SPARK_HOME", str(pyspark_folder() / "__init__.py"))
    # All that makes an archive useless when it changes: the JVM, the jars, and the release file that changes with
    # an update in the same folder.
    facts = f"{java}\n{spark}\n{pyspark_version()}\n{release.read_text() if release.exists() else ''}"
    return cache_folder() / "classes" / f"{hashlib.sha256(facts.encode()).hexdigest()[:16]}.jsa"


def use_flags() -> str:
    """Return the JVM flags that use the archive, or an empty string if it does not exist."""
    if "JAVA_HOME" not in os.environ or not (path := archive_path()).exists():
        return ""
    return f"-XX:SharedArchiveFile={path} {_SILENT}"


def make_flags(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    return f"-XX:ArchiveClassesAtExit={path} {_SILENT}"


# Without `python`, which contains the zip.
_NEEDED = ("bin", "sbin", "jars", "conf")  # "conf" exists only if the user created it, perhaps later


def use_lean_home() -> None:
    """Set SPARK_HOME for the next JVM, unless it is set already or workers would not find the package."""
    if "SPARK_HOME" in os.environ:
        return
    package = pyspark_folder()
    if (package / "jars").is_dir() and _is_found_by_workers(package.parent):
        os.environ["SPARK_HOME"] = str(_home_of(package))


def _is_found_by_workers(folder: Path) -> bool:
    """Return whether another process of the workers' Python has the folder on its path."""
    if os.environ.get("PYSPARK_PYTHON", sys.executable) != sys.executable:
        return False
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [*site.getsitepackages(), site.getusersitepackages(), *filter(None, given)]
    return folder.resolve() in {Path(path).resolve() for path in paths}


def _home_of(package: Path) -> Path:
    """Return a folder of links to the parts of the package that a JVM needs."""
    home = cache_folder() / "spark" / hashlib.sha256(str(package).encode()).hexdigest()[:12]
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        half = Path(tempfile.mkdtemp(dir=home.parent))
        for name in _NEEDED:
            (half / name).symlink_to(package / name)
        try:
            half.replace(home)
        except OSError:  # another process may create it at the same time; its folder is equivalent
            shutil.rmtree(half)
            if not home.exists():
                raise
    return home
