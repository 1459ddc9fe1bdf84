"""A home for Spark without its own copy of PySpark.

Spark puts `python/lib/pyspark.zip` of its home before everything else on the path of each Python process it starts.
Nothing in a zip is kept compiled: ten processes a start compile the same modules, each for half a second to a second.
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

_NEEDED = ("bin", "sbin", "jars", "conf")  # the last is there where somebody made it, perhaps later


def use_lean_home() -> None:
    """Set SPARK_HOME for the JVM that is started next, unless somebody has, or workers would not find the package."""
    if "SPARK_HOME" in os.environ:
        return
    package = Path(pyspark.__file__).parent
    if (package / "jars").is_dir() and _is_found_by_workers(package.parent):
        os.environ["SPARK_HOME"] = str(_home_of(package))


def _is_found_by_workers(folder: Path) -> bool:
    """Whether another process of the workers' Python has the folder on its path."""
    if os.environ.get("PYSPARK_PYTHON", sys.executable) != sys.executable:
        return False
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [*site.getsitepackages(), site.getusersitepackages(), *filter(None, given)]
    return folder.resolve() in {Path(path).resolve() for path in paths}


def _home_of(package: Path) -> Path:
    """A folder of links to the parts of the package that a JVM needs."""
    home = cache_folder() / "spark" / hashlib.sha256(str(package).encode()).hexdigest()[:12]
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        half = Path(tempfile.mkdtemp(dir=home.parent))
        for name in _NEEDED:
            (half / name).symlink_to(package / name)
        try:
            half.replace(home)
        except OSError:  # two first starts may meet here: the other's is as good
            shutil.rmtree(half)
            if not home.exists():
                raise
    return home
