"""Making the format known to a session. Spark is imported only where a session is at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def register(session: SparkSession) -> None:
    """Let `session` read and write tables by `format("penstock")`, and hand filters down to them.

    Where the package is installed Spark finds the format by itself; what this adds then are the filters. Called twice
    it changes nothing.
    """
    from penstock.pipelines.spark_source.source import PenstockDataSource

    session.dataSource.register(PenstockDataSource)
    session.conf.set(PUSH_DOWN, "true")
