"""Numbers whose hash in Spark is the wanted partition."""

from __future__ import annotations

import pytest

from penstock.pipelines.job.partition_ids import numbers_by_partition, spark_hash

# Printed by SELECT hash(number) in Spark 4.0.5.
HASHES = {0: 933211791, 1: -559580957, 2: 1765031574, 7: 1079293707, 1000: -14577491, 2147483647: 133916647}


@pytest.mark.parametrize("number", HASHES)
def test_the_hash_is_that_of_spark(number: int) -> None:
    assert spark_hash(number) == HASHES[number]


@pytest.mark.parametrize("count", [1, 2, 3, 8, 100])
def test_each_partition_has_its_number(count: int) -> None:
    numbers = numbers_by_partition(count)
    assert [spark_hash(number) % count for number in numbers] == list(range(count))
