from __future__ import annotations

import itertools
import random

import datasketches
import pytest

from penstock.table.merge.aggregates.bitmaps import unite_hll, unite_theta

DISTINCT = 4000


def hll(bits: int, begin: int, end: int) -> bytes:
    sketch = datasketches.hll_sketch(bits, datasketches.tgt_hll_type.HLL_8)
    for number in range(begin, end):
        sketch.update(number)
    return bytes(sketch.serialize_compact())


def theta(bits: int, begin: int, end: int) -> bytes:
    sketch = datasketches.update_theta_sketch(bits)
    for number in range(begin, end):
        sketch.update(number)
    return bytes(sketch.compact().serialize())


@pytest.mark.parametrize("order", list(itertools.permutations([11, 12, 13])), ids=str)
def test_sketches_of_several_sizes_are_united_in_any_order(order: tuple[int, ...]) -> None:
    """One union of the library's own loses values here, if a sketch with fewer bits follows two others."""
    begins = range(0, 3 * DISTINCT, DISTINCT)
    sketches = [hll(bits, begin, begin + DISTINCT) for bits, begin in zip(order, begins, strict=True)]
    united = datasketches.hll_sketch.deserialize(unite_hll(sketches))
    assert united.get_estimate() == pytest.approx(3 * DISTINCT, rel=0.08)
    assert united.lg_config_k == 11
    others = [theta(bits, begin, begin + DISTINCT) for bits, begin in zip(order, begins, strict=True)]
    estimate = datasketches.compact_theta_sketch.deserialize(unite_theta(others)).get_estimate()
    assert estimate == pytest.approx(3 * DISTINCT, rel=0.08)


@pytest.mark.parametrize("seed", range(8))
def test_a_union_estimates_the_distinct_values_of_random_sketches(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        spans = [
            (chance.randrange(9, 15), chance.choice([3, 40, 700, DISTINCT])) for _ in range(chance.randrange(2, 5))
        ]
        sketches = [hll(bits, place * DISTINCT, place * DISTINCT + n) for place, (bits, n) in enumerate(spans)]
        estimate = datasketches.hll_sketch.deserialize(unite_hll(sketches)).get_estimate()
        # Four and a half standard errors of the sketch with the fewest bits.
        error = 4.7 / 2 ** (min(bits for bits, _ in spans) / 2)
        assert estimate == pytest.approx(sum(n for _, n in spans), rel=error), spans
