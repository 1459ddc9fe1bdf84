"""The catalog on a standalone master with two workers, over Spark Connect, and in the shell spark-sql."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from penstock.pipelines.commands.main import main
from penstock.pipelines.spark.session_settings import prepare_environment
from penstock.pipelines.spark_catalog.catalog_jar import CLASS_NAME
from penstock.table.catalog.catalog import Catalog
from tests.chaos.cluster import SETTINGS, running

pytestmark = [pytest.mark.spark, pytest.mark.slow]

STATEMENTS = """
CREATE DATABASE lake.shop;
CREATE TABLE lake.shop.orders (id BIGINT, status STRING, PRIMARY KEY (id))
    TBLPROPERTIES ('bucket' = '8', 'changelog-producer' = 'input');
INSERT INTO lake.shop.orders SELECT id, 'new' FROM range(1000);
MERGE INTO lake.shop.orders t USING (SELECT id, 'paid' status FROM range(500, 1500)) s ON t.id = s.id
    WHEN MATCHED AND s.id % 2 = 0 THEN DELETE
    WHEN MATCHED THEN UPDATE SET status = s.status
    WHEN NOT MATCHED THEN INSERT *;
CALL lake.sys.create_tag('shop.orders', 'merged');
DELETE FROM lake.shop.orders WHERE id < 100;
CREATE TABLE lake.shop.log (id BIGINT, v STRING);
INSERT INTO lake.shop.log SELECT id, 'new' FROM range(1000);
MERGE INTO lake.shop.log t USING (SELECT id FROM lake.shop.orders WHERE id < 200) s ON t.id = s.id
    WHEN MATCHED AND s.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'seen';
CALL lake.sys.compact('shop.orders');
"""
# Runs the statements of a session in a process of its own: a process has one Spark context.
SESSION = """
import sys
from pyspark.sql import SparkSession
import penstock

url, warehouse, *settings = sys.argv[1:]
builder = SparkSession.builder
builder = builder.remote(url) if url.startswith(("sc:", "local")) else builder.master(url)
for text in settings:
    builder = builder.config(*text.split("=", 1))
spark = builder.getOrCreate()
penstock.register(spark, catalog="lake", warehouse=warehouse)
for statement in sys.stdin.read().split(";"):
    if "sys.compact" in statement and not url.startswith(("sc:", "local")):
        spark.sparkContext.setJobGroup("compact", "compact")
    if statement.strip():
        spark.sql(statement).collect()
if url.startswith("spark:"):
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("compact")]
    print("compacted in stages", [stage for job in jobs for stage in job.stageIds])
tagged = spark.sql("SELECT * FROM lake.shop.orders VERSION AS OF 'merged'")
print("rows", spark.table("lake.shop.orders").count(), tagged.count())
spark.sql("ANALYZE TABLE lake.shop.log COMPUTE STATISTICS").collect()
[[counted]] = spark.sql("SELECT mergedRecordCount FROM lake.shop.`log$statistics`").collect()
print("counted", counted, spark.sql("SELECT * FROM paimon_incremental_query('lake.shop.orders', 0, 1)").count())
spark.stop()
"""


def run_session(url: str, warehouse: Path, *settings: str) -> str:
    prepare_environment()
    command = [sys.executable, "-c", SESSION, url, str(warehouse), *settings]
    done = subprocess.run(command, input=STATEMENTS, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout


def check_orders(warehouse: Path) -> None:
    """The tables after the statements: 1000 rows, 250 deleted and 500 inserted by MERGE, 100 deleted.

    Without a key, 50 are deleted and 50 updated.
    """
    table = Catalog(str(warehouse)).table("shop.orders")
    rows = table.scan().to_arrow().to_pylist()
    expected = dict.fromkeys(range(100, 500), "new")
    expected |= dict.fromkeys([*range(501, 1000, 2), *range(1000, 1500)], "paid")
    assert {row["id"]: row["status"] for row in rows} == expected
    seen = Catalog(str(warehouse)).table("shop.log").scan().to_arrow().to_pylist()
    expected = dict.fromkeys([*range(100), *range(200, 1000)], "new") | dict.fromkeys(range(101, 200, 2), "seen")
    assert len(seen) == 950
    assert {row["id"]: row["v"] for row in seen} == expected


def test_a_standalone_master_with_two_workers(tmp_path: Path) -> None:
    with running(tmp_path / "cluster") as cluster:
        # Otherwise Spark puts so few rows into one task.
        several = "spark.sql.adaptive.coalescePartitions.enabled=false"
        said = run_session(cluster.url, tmp_path / "warehouse", *SETTINGS, several)
    assert "rows 1150 1250" in said
    check_orders(tmp_path / "warehouse")
    # By the logs of the executors, both workers wrote changes of MERGE, the first statement with old rows.
    logs = [path.read_text() for path in (tmp_path / "cluster").rglob("stderr")]
    stages = [set(re.findall(r"DeltaWithMetadata.*: Committed partition .* stage ([0-9]+)", log)) for log in logs]
    assert set.intersection(*(found for found in stages if found)), stages
    assert sum(bool(found) for found in stages) == 2
    (stage,) = re.findall(r"compacted in stages \[(\d+)\]", said)
    compacting = [log for log in logs if re.search(rf"Running task \S+ in stage {stage}\.0", log)]
    assert len(compacting) == 2


def test_spark_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="CANNOT RUN HERE: pip install 'pyspark[connect]'")
    said = run_session("local[2]", tmp_path / "warehouse", "spark.sql.shuffle.partitions=2")
    assert "rows 1150 1250" in said
    assert "counted 950 1000" in said
    check_orders(tmp_path / "warehouse")


def test_the_shell_of_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare_environment()
    jar = tmp_path / "penstock-spark.jar"
    assert main(["spark-jar", str(jar)]) == 0
    assert CLASS_NAME in capsys.readouterr().out
    settings = {
        "spark.sql.catalog.lake": CLASS_NAME,
        "spark.sql.catalog.lake.warehouse": str(tmp_path / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.catalogImplementation": "in-memory",
    }
    flags = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    script = tmp_path / "statements.sql"
    script.write_text(
        f"{STATEMENTS} SELECT count(*), 'rows' FROM lake.shop.orders; UPDATE lake.shop.orders SET id = 1;"
    )
    shell = f"{pyspark.__path__[0]}/bin/spark-sql"
    done = subprocess.run(
        [shell, "--master", "local[2]", "--jars", str(jar), *flags, "-f", str(script)],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"SPARK_HOME": pyspark.__path__[0]},
    )
    assert "1150\trows" in done.stdout, done.stderr[-5000:]
    assert "'id' is a part of the key and cannot be changed" in done.stdout + done.stderr
    # Errors of Spark's own statements are shown without the stack, too.
    assert "at penstock.spark." not in done.stdout + done.stderr
    check_orders(tmp_path / "warehouse")
