"""Queries of Spark on random tables: with filters pushed into the scan, the rows are those of a filter of all rows.

The judge is Spark itself, on a copy of all rows that no data source reads.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.table.catalog.catalog import Catalog
from tests.random_tables import values
from tests.random_tables.conditions import Column, Conditions
from tests.random_tables.tables import Limits, random_table

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(36_000)]

FIRST = int(os.environ.get("PENSTOCK_FILTER_SEED", "1"))
TABLES = range(FIRST, FIRST + int(os.environ.get("PENSTOCK_FILTER_TABLES", "3")))
QUERIES = int(os.environ.get("PENSTOCK_FILTER_QUERIES", "12"))
# Spark has no TIME.
LIMITS = Limits(types=(*values.PLAIN, *values.DECIMALS, *values.TIMES, *values.LOCAL_TIMES))


def columns_of(spark: SparkSession) -> Iterator[Column]:
    """Yield the columns of the copy, and members of its structures, with literals of the values that they have."""
    for field in spark.table("whole").schema:
        inner = [f"`{field.name}`.`{member.name}`" for member in getattr(field.dataType, "fields", ())]
        for path in inner or [f"`{field.name}`"]:
            [(type_,)] = spark.sql(f"SELECT typeof({path}) FROM whole LIMIT 1").collect() or [("",)]
            if type_.startswith(("array", "map", "struct")) or not type_:
                continue
            text = f"hex({path})" if type_ == "binary" else f"CAST({path} AS STRING)"
            found = spark.sql(f"SELECT DISTINCT {text} v FROM whole WHERE {path} IS NOT NULL ORDER BY v").collect()
            literals = [literal(value, type_) for (value,) in found]
            if literals:
                yield Column(path, type_, literals)


def literal(text: str, type_: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"X'{text}'" if type_ == "binary" else f"CAST('{escaped}' AS {type_})"


def query(choice: random.Random, columns: list[Column]) -> str:
    where, column = Conditions(columns).one(choice), choice.choice(columns)
    shown = ", ".join(column.name for column in choice.sample(columns, choice.randint(1, min(3, len(columns)))))
    return choice.choice(
        [
            f"SELECT {shown} FROM t WHERE {where}",
            f"SELECT {shown} FROM t WHERE {where}",
            f"SELECT count(*), count({column.name}) FROM t WHERE {where}",
            f"SELECT {column.name} FROM t WHERE {column.name} IN (SELECT {column.name} FROM t WHERE {where})",
            f"SELECT {shown}, __paimon_bucket >= -2 FROM t WHERE {where}",
        ]
    )


def rows(spark: SparkSession, sql: str, table: str) -> list[str]:
    """The rows of a query of one of the tables; the copy has no metadata, which is the same for all rows here."""
    text = sql.replace(" FROM t", f" FROM {table}")
    if table == "whole":
        text = text.replace("__paimon_bucket >= -2", "true")
    return sorted(repr(tuple(row)) for row in spark.sql(text).collect())


@pytest.mark.parametrize("seed", TABLES)
def test_a_pushed_filter_keeps_the_rows_of_a_filter_of_all_rows(
    spark: SparkSession, catalog: Catalog, seed: int
) -> None:
    name = f"random_{seed}"
    random_table(catalog, f"shop.{name}", seed, LIMITS)
    spark.table(name).localCheckpoint().createOrReplaceTempView("whole")
    columns, choice = list(columns_of(spark)), random.Random(seed)
    for _ in range(QUERIES if columns else 0):
        sql = query(choice, columns)
        try:
            expected = rows(spark, sql, "whole")
        except PySparkException:
            continue  # such as a number that is too large for a type
        assert rows(spark, sql, f"lake.shop.{name}") == expected, f"seed {seed}: {sql}"
