"""What the process that Spark forks its Python workers from imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

# This runs the module as Spark does, without the loop that forks workers.
DAEMON = """
import runpy, sys
import pyspark.daemon

def manager():
    import pyarrow as pa
    pa.array([1])
    print("pandas" in sys.modules)
    import pandas as pd
    print(pa.array(pd.Series([1])).type)

pyspark.daemon.manager = manager
runpy.run_module("penstock.pipelines.spark.worker_daemon", run_name="__main__")
"""


@pytest.mark.slow
def test_workers_import_pandas_only_if_a_task_does() -> None:
    done = subprocess.run([sys.executable, "-c", DAEMON], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False", "int64"]
