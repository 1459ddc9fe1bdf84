from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.ingest.source import Range, cut, grouped, piece_size, shares

spans = st.tuples(st.integers(0, 10**9), st.integers(1, 10**7)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(spans, st.integers(1, 10**6))
def test_parts_cover_a_range_once_in_order_with_similar_sizes(span: tuple[int, int], size: int) -> None:
    size = max(size, (span[1] - span[0]) // 50)
    pieces = list(cut(*span, size))
    assert pieces[0][0] == span[0]
    assert pieces[-1][1] == span[1]
    assert all(left[1] == right[0] for left, right in pairwise(pieces))
    lengths = [stop - start for start, stop in pieces]
    assert max(lengths) - min(lengths) <= 1


@given(st.dictionaries(st.text(), st.integers(0, 10**6)), st.integers(0, 10**6))
def test_shares_do_not_exceed_the_total_and_every_task_has_one(available: dict[str, int], limit: int) -> None:
    granted = shares(available, limit)
    assert granted.keys() == available.keys()
    assert all(0 <= granted[place] <= count for place, count in available.items())
    assert all(granted[place] > 0 for place, count in available.items() if count)
    assert sum(granted.values()) <= max(limit, 0) + len(available) or granted == available


@given(st.dictionaries(st.text(), st.integers(0, 10**6)), st.integers(0, 10**6))
def test_shares_leave_no_small_rest_for_another_batch(available: dict[str, int], limit: int) -> None:
    assert sum(shares(available, limit).values()) >= min(limit, sum(available.values()))


def test_a_backlog_in_one_partition_is_shared_by_all_tasks() -> None:
    size = piece_size([1_000_000, 10], 4)
    assert len(list(cut(0, 1_000_000, size))) == 4


def test_small_ranges_are_not_divided() -> None:
    assert len(list(cut(0, 30_000, piece_size([30_000], 16)))) <= 2


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=200), st.integers(1, 8))
def test_groups_keep_order_and_are_about_as_many_as_tasks(weights: list[int], tasks: int) -> None:
    ranges = [Range(number, "p", 0, weight, weight) for number, weight in enumerate(weights)]
    groups = grouped(ranges, tasks)
    assert [item for group in groups for item in group] == ranges
    assert all(groups)
    assert len(groups) <= 2 * tasks + 1


def test_a_range_survives_json() -> None:
    range_ = Range(3, "shop/0", 5, {"file": "b", "pos": 4}, 7)
    assert Range.from_json(range_.to_json()) == range_
