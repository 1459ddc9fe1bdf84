from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.spark.session_start import SessionStart


def test_a_session_is_opened_beside_other_work() -> None:
    may_open, session = threading.Event(), object()

    def opening() -> Any:
        may_open.wait()
        return session

    start = SessionStart(opening)  # returns, although the session waits
    may_open.set()
    assert start.session() is session
    assert start.session() is session


def test_an_error_of_opening_is_raised_where_the_session_is_needed() -> None:
    def opening() -> Any:
        raise ConfigError("no such master")

    start = SessionStart(opening)
    with pytest.raises(ConfigError, match="no such master"):
        start.session()


# The session cannot be opened here. Until then all imports are made.
AHEAD = """
import sys
from penstock import late_pandas
from penstock.pipelines.spark.session_start import SessionStart

late_pandas.defer()

class NoJvm:
    def gateway(self):
        raise RuntimeError("there is no JVM")

start = SessionStart.ahead(NoJvm(), "shop", None, 1, None)
print(start.is_open)

from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import LongType, StructType
from pyspark.util import PythonEvalType

rows = StructType().add("id", LongType())
pandas_udf(lambda batches: batches, returnType=rows, functionType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
print("pandas" in sys.modules)
"""


@pytest.mark.slow
def test_a_run_with_spark_sends_tasks_without_importing_pandas() -> None:
    done = subprocess.run([sys.executable, "-c", AHEAD], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False", "False"]
