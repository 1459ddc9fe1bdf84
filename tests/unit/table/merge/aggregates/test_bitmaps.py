from __future__ import annotations

import itertools
import math
import random
import statistics

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


@pytest.mark.parametrize(("bits", "few", "fewer"), [(16, 3000, 15), (14, 700, 13), (15, 300, 12), (13, 7, 6)])
def test_few_values_of_a_sketch_with_fewer_bits_are_not_lost_in_a_large_one(bits: int, few: int, fewer: int) -> None:
    """The library loses most of them, which the error of one sketch hides; 25 of them show it."""
    errors = []
    for begin in range(0, 25 * 10**6, 10**6):
        sketches = [hll(bits, begin, begin + DISTINCT), hll(fewer, begin + 500_000, begin + 500_000 + few)]
        united = datasketches.hll_sketch.deserialize(unite_hll(sketches))
        assert united.lg_config_k == fewer
        errors.append(united.get_estimate() - DISTINCT - few)
    assert abs(statistics.mean(errors)) < 4 * (DISTINCT + few) / 2 ** (fewer / 2) / math.sqrt(len(errors))


def test_the_later_sketch_of_two_small_ones_decides_the_bits_as_in_java() -> None:
    """Java unites with the room of the later one."""
    for earlier, later in [(12, 4), (4, 12), (14, 9)]:
        united = datasketches.hll_sketch.deserialize(unite_hll([hll(earlier, 0, 3), hll(later, 10, 13)]))
        assert (united.lg_config_k, round(united.get_estimate())) == (later, 6)
