"""A SPARK_HOME without its own copy of PySpark.

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

import pyspark

from penstock.pipelines.spark.java import cache_folder

_NEEDED = ("bin", "sbin", "jars", "conf")  # "conf" exists only if the user created it, perhaps later


def use_lean_home() -> None:
    """Set SPARK_HOME for the next JVM, unless it is set already or workers would not find the package."""
    if "SPARK_HOME" in os.environ:
        return
    package = Path(pyspark.__file__).parent
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
