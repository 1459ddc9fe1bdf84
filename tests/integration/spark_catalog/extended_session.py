"""A session of its own process, created with the extension of the catalog, and what it answers to statements."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from penstock.pipelines.commands.main import main
from penstock.pipelines.spark.session_settings import prepare_environment
from penstock.pipelines.spark_catalog.catalog_jar import EXTENSIONS

# Each line is a statement and what it shows; a refusal is shown behind "refused: ".
_SESSION = r"""
import sys
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
import penstock

warehouse, jar, extensions = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.shuffle.partitions", "1")
spark = builder.config("spark.jars", jar).config("spark.sql.extensions", extensions).getOrCreate()
penstock.register(spark, catalog="lake", warehouse=warehouse, options={"local.sync": "false"})
for line in sys.stdin.read().splitlines():
    try:
        shown = [tuple(row) for row in spark.sql(line.replace("\\n", "\n")).collect()]
    except PySparkException as refused:
        shown = "refused: " + " ".join(str(refused).split())[:700]
    print("ANSWER", shown)
spark.stop()
"""


def session_jar(folder: Path) -> Path:
    """Write the jar of the catalog, and return its path."""
    prepare_environment()
    jar = folder / "penstock-spark.jar"
    assert main(["spark-jar", str(jar)]) == 0
    return jar


def answers(folder: Path, jar: Path, warehouse: Path, statements: Sequence[str]) -> list[str]:
    """Run statements, each in one line, in a session with the extension and the catalog `lake`."""
    done = subprocess.run(
        [sys.executable, "-c", _SESSION, str(warehouse), str(jar), EXTENSIONS],
        input="\n".join(statements),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return [line.removeprefix("ANSWER ") for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
