"""Statements, their rows, and the text of their refusals."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

ORDERS = """CREATE TABLE {} (id INT NOT NULL, status STRING COMMENT 'how far' DEFAULT 'new', amount DECIMAL(10, 2),
    dt STRING NOT NULL, PRIMARY KEY (id, dt)) COMMENT 'all of them' PARTITIONED BY (dt)
    TBLPROPERTIES ('bucket' = '2', 'changelog-producer' = 'input')"""


def rows(spark: SparkSession, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a statement in order, decimals as floats."""
    found = [tuple(float(v) if isinstance(v, Decimal) else v for v in row) for row in spark.sql(sql).collect()]
    return sorted(found, key=repr)


def refusal(spark: SparkSession, sql: str) -> str:
    """The text with which a statement is refused: the sentence and its hint, no traceback."""
    with pytest.raises(PySparkException) as caught:
        spark.sql(sql).collect()
    text = str(caught.value)
    assert "Traceback" not in text, text
    return text


def fresh(spark: SparkSession, name: str, *values: str) -> None:
    """Create a table of orders with rows."""
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(ORDERS.format(name))
    if values:
        spark.sql(f"INSERT INTO {name} VALUES {', '.join(values)}")
