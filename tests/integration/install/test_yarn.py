"""The commands of the documentation for YARN, run on a resource manager and a node manager of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from tests.integration.install.environments import UV, environment_of_wheel
from tests.pages import ROOT, blocks
from tests.servers import launch
from tests.shop import Shop, insert

pytestmark = [pytest.mark.yarn, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1500)]

# What the administrators of a cluster set: the jars of Spark are on each node, containers suit its size.
DEFAULTS = """spark.yarn.jars local:{spark}/jars/*
spark.executor.instances 1
spark.yarn.report.interval 5s
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
"""


def page(mark: str) -> str:
    (block,) = [block for block in blocks(ROOT / "docs/deploying.md") if mark in block.text + block.note]
    return block.text


def typed(command: str, folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=1000, check=False
    )
    logs = [log.read_text(errors="replace")[-2000:] for log in sorted(folder.rglob("container_*/std*"))]
    assert done.returncode == 0, "\n".join([done.stderr[-3000:], *logs])


@pytest.mark.skipif(not UV.exists(), reason="CANNOT RUN HERE: no uv beside the tests' environment (make env brings it)")
def test_a_pipeline_runs_on_yarn_with_a_packed_environment_and_keeps_its_tables_on_hdfs(tmp_path: Path) -> None:
    packed = environment_of_wheel(tmp_path / "env", extras="hdfs")
    spark = next(packed.glob("lib/python*/site-packages/pyspark"))
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS.format(spark=spark))
    (tmp_path / "penstock-run.py").write_text(page("file=penstock-run.py"))
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1}))
    with launch.running("yarn", tmp_path / "cluster") as port:
        warehouse = f"hdfs://localhost:{port}/warehouse"
        (tmp_path / "shop.yaml").write_text(
            f"pipeline: {{name: shop, until: caught-up}}\n"
            f"source: {{type: files, path: {shop.inbox}, value.format: canal-json}}\n"
            f"sink: {{catalog: {{warehouse: '{warehouse}'}}, database: ods}}\n"
        )
        environment = os.environ | {
            "PATH": f"{packed}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "VIRTUAL_ENV": str(packed),
            "SPARK_HOME": str(spark),
            "SPARK_CONF_DIR": str(tmp_path),
            "HADOOP_CONF_DIR": str(tmp_path / "cluster" / "conf"),
        }
        for command in re.split(r"^\$ ", page("--master yarn"), flags=re.MULTILINE)[1:]:
            typed(command, tmp_path, environment)
        orders = penstock.Catalog(warehouse).table("ods.orders")
        assert orders.scan().to_arrow()["id"].to_pylist() == [1]
        (snapshot,) = orders.snapshots
        assert snapshot.commit_user.startswith("shop-")
    shutil.rmtree(packed)  # most of a gigabyte
    (tmp_path / "penstock.tar.gz").unlink()
