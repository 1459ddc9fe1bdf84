"""The application that the documentation hands to spark-submit, submitted; sessions of Spark Connect are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from penstock.pipelines.spark.code_zip import zip_code
from penstock.pipelines.spark.session_settings import package_home, prepare_environment
from tests.pages import ROOT, blocks
from tests.shop import Shop, insert

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_pipeline_runs_by_spark_submit_with_its_master_and_a_zip(tmp_path: Path) -> None:
    (application,) = [block for block in blocks(ROOT / "docs/deploying.md") if block.note == "file=penstock-run.py"]
    (tmp_path / "penstock-run.py").write_text(application.text)
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1}))
    (tmp_path / "shop.yaml").write_text(
        f"pipeline: {{name: shop}}\nsource: {{type: files, path: {shop.inbox}, value.format: canal-json}}\n"
        f"sink: {{catalog: {{warehouse: {tmp_path}/warehouse}}, database: ods}}\n"
    )
    prepare_environment()
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    archive = zip_code(tmp_path)
    words = [
        "--master",
        "local[2]",
        "--driver-memory",
        "1g",
        "--py-files",
        str(archive),
        "penstock-run.py",
        "shop.yaml",
    ]
    environment = os.environ | {"SPARK_HOME": str(Path(pyspark.__file__).parent), "PYTHONPATH": package_home()}
    done = subprocess.run(
        [str(submit), *words, "--until-caught-up"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert shop.ids("orders") == [1]


def test_a_session_of_spark_connect_is_refused_with_the_reason(tmp_path: Path) -> None:
    code = "from penstock.pipelines.spark.session import open_session; open_session('x')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"SPARK_REMOTE": "sc://localhost:1", "PYTHONPATH": package_home()},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert "the session is a Spark Connect session" in done.stderr
