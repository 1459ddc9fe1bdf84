"""Registers the format with a session. Spark is imported only when a session is passed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def register(session: SparkSession) -> None:
    """Let `session` read and write tables with `format("penstock")`, with filter pushdown.

    If the package is installed, Spark finds the format by itself, and this only adds filter pushdown. Called twice it
    changes nothing.
    """
    from penstock.pipelines.spark_source.source import PenstockDataSource

    session.dataSource.register(PenstockDataSource)
    session.conf.set(PUSH_DOWN, "true")
