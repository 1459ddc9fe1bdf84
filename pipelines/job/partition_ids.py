"""Distributes rows to partitions by a number in each row, in all supported versions of Spark."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.table.values.hashing import hash_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def partitioned(rows: DataFrame, count: int, column: str) -> DataFrame:
    """Return the rows in `count` partitions, each row in the partition of its number.

    A hash of the number would give several writers to some tasks, and no writer to others.
    """
    if hasattr(rows, "repartitionById"):  # since Spark 4.1
        return rows.repartitionById(count, column)
    from pyspark.sql import functions

    # Spark 4.0 partitions by hash only, so each number is replaced by one whose hash leads to its partition.
    numbers = functions.array(*map(functions.lit, numbers_by_partition(count)))
    # A number may exceed the count: its remainder is the partition.
    place = functions.pmod(functions.col(column), functions.lit(count))
    return rows.repartition(count, functions.element_at(numbers, place + 1))


@lru_cache(maxsize=64)
def numbers_by_partition(count: int) -> tuple[int, ...]:
    """Return, for each of `count` partitions, a number that Spark's hash partitioning assigns to it."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < count:
        found.setdefault(spark_hash(number) % count, number)
        number += 1
    return tuple(found[place] for place in range(count))


def spark_hash(number: int) -> int:
    """Return the hash that Spark computes for a value of its type INT; Paimon's is the same for these bytes."""
    return hash_row(number.to_bytes(4, "little"))
