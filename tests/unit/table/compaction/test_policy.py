"""The files that compaction selects, which are those of Java, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.table.compaction.append_policy import AppendPolicy, pick_bins, pick_bucket, pick_window
from penstock.table.compaction.policy import Pick, Policy, must_wait, pick, pick_all
from penstock.table.merge.sorted_runs import Levels
from penstock.table.meta.data_file import DataFile
from penstock.table.options.table_options import TableOptions
from tests.unit.table.merge.test_sorted_runs import data_file

MB = 1 << 20


def levels_of(level0: list[int], upper: dict[int, int], num_levels: int = 6) -> Levels:
    """Sizes: of level-0 files newest first, of whole levels by their number."""
    files = [
        replace(data_file(f"L0-{place}", 0, 9, sequences=(100 - place, 100 - place)), size=size)
        for place, size in enumerate(level0)
    ]
    files += [replace(data_file(f"L{level}", 0, 9, level=level), size=size) for level, size in upper.items()]
    return Levels.of(files, num_levels)


def picked(policy: Policy, level0: list[int], upper: dict[int, int], **facts: int) -> tuple[int, int] | None:
    """How many files, and where they go."""
    found = pick(policy, levels_of(level0, upper), **facts)
    return None if found is None else (len(found.files), found.level)


def test_four_runs_wait() -> None:
    assert picked(Policy(), [1, 1, 1, 1], {}) is None


def test_five_equal_files_are_compacted_to_the_top_level() -> None:
    assert picked(Policy(), [1] * 5, {}) == (5, 5)


def test_four_more_files_above_a_small_top_level_rewrite_everything() -> None:
    assert picked(Policy(), [10] * 4, {5: 12}) == (5, 5)


def test_a_large_top_level_is_kept_and_small_files_are_compacted_below_it() -> None:
    assert picked(Policy(), [10] * 4, {5: 10_000}) == (4, 4)


def test_size_ratio_absorbs_only_runs_that_are_not_much_larger() -> None:
    assert picked(Policy(), [10, 10, 10], {3: 500, 5: 90_000}) == (3, 2)


def test_size_ratio_leaves_a_larger_older_file_of_level_0() -> None:
    # The next run is on level 0 too, and nothing may end there: it goes along, to the first level above.
    assert picked(Policy(), [10, 10, 500], {4: 60_000, 5: 900_000}) == (4, 4)


def test_too_many_runs_are_reduced_to_the_trigger() -> None:
    assert picked(Policy(), [1, 10, 100], {3: 10_000, 4: 10**6, 5: 10**8}) == (4, 3)


def test_growing_runs_below_the_trigger_wait() -> None:
    assert picked(Policy(), [1, 10, 100], {4: 10_000, 5: 10**6}) is None


def test_one_percent_more_is_still_absorbed() -> None:
    assert picked(Policy(), [100, 101, 204], {4: 5000, 5: 10**6}) == (4, 4)
    assert picked(Policy(size_ratio=0), [100, 101, 204], {4: 5000, 5: 10**6}) is None


def test_a_single_file_on_its_level_is_done() -> None:
    assert picked(Policy(up_level0=True), [], {5: 100}) is None


def test_level_0_is_compacted_after_each_commit_for_lookups() -> None:
    policy = Policy(up_level0=True)
    assert picked(policy, [1], {}) == (1, 5)
    assert picked(policy, [1], {5: 1000}) == (1, 4)
    assert picked(policy, [1], {4: 100, 5: 10_000}) == (1, 3)
    assert picked(policy, [50], {4: 40, 5: 10_000}) == (2, 4)
    assert picked(policy, [1], {1: 100, 5: 10_000}) == (2, 1)


def test_gentle_lookups_postpone_level_0() -> None:
    policy = Policy(up_level0=True, gentle_interval=3)
    assert [picked(policy, [1], {5: 1000}, skipped=n) for n in range(3)] == [None, None, (1, 4)]


def test_optimization_interval_compacts_everything() -> None:
    policy = Policy(optimization_interval=1000)
    assert picked(policy, [1], {5: 1000}, idle_millis=1001) == (2, 5)
    assert picked(policy, [1], {5: 1000}, idle_millis=1000) is None
    assert picked(policy, [], {5: 1000}, idle_millis=2000) is None


def test_small_buckets_are_fully_compacted_by_the_total_size_threshold() -> None:
    assert picked(Policy(total_size_threshold=500), [1], {5: 100}) == (2, 5)
    assert picked(Policy(total_size_threshold=101), [1], {5: 100}) is None


def test_a_large_increment_is_merged_by_its_threshold() -> None:
    assert picked(Policy(incremental_size_threshold=50), [60], {5: 10**6}) == (2, 5)
    assert picked(Policy(incremental_size_threshold=50), [50], {5: 10**6}) is None


def test_full_compaction_selects_all_files() -> None:
    everything = pick_all(levels_of([1, 1], {4: 10, 5: 100}))
    assert everything is not None
    assert (len(everything.files), everything.level) == (4, 5)


def test_full_compaction_of_the_top_level_selects_only_dirty_files() -> None:
    levels = levels_of([], {5: 100})
    assert pick_all(levels) is None
    assert pick_all(levels, {"L5"}) == Pick(levels.upper[4], 5)
    assert pick_all(levels_of([], {})) is None


def test_writer_waits_while_more_runs_than_the_stop_trigger_exist() -> None:
    assert not must_wait(Policy(), levels_of([1] * 7, {5: 1}))
    assert must_wait(Policy(), levels_of([1] * 8, {5: 1}))


def test_options_set_the_policy() -> None:
    policy = Policy.of(TableOptions({"num-sorted-run.compaction-trigger": "3", "compaction.size-ratio": "7"}))
    assert (policy.trigger, policy.stop_trigger, policy.num_levels, policy.size_ratio) == (3, 6, 4, 7)
    assert not policy.up_level0
    gentle = Policy.of(TableOptions({"lookup-compact": "gentle"}), needs_lookup=True)
    assert (gentle.up_level0, gentle.gentle_interval) == (True, 10)
    assert Policy.of(TableOptions({"compaction.force-up-level-0": "true"})).up_level0


# ---------------------------------------------------------------------------------------------- append tables


def append_files(*megabytes: float) -> list[DataFile]:
    sizes = [int(size * MB) for size in megabytes]
    return [replace(data_file(str(place), 0, 0), size=size, row_count=100) for place, size in enumerate(sizes)]


def names(files: list[DataFile]) -> str:
    return "".join(file.name for file in files)


@pytest.mark.parametrize(
    ("sizes", "chosen"),
    [((1, 1, 1, 1), ""), ((1, 1, 1, 1, 1), "01234"), ((300, 1, 1, 1, 1), ""), ((300, 1, 1, 1, 1, 1), "12345")],
)
def test_five_neighbours_of_a_bucket_are_compacted(sizes: tuple[int, ...], chosen: str) -> None:
    assert names(pick_window(AppendPolicy(), append_files(*sizes))) == chosen


@pytest.mark.parametrize(
    ("sizes", "chosen"),
    [((1, 1), ""), ((1, 1, 1), "012"), ((300, 1, 1, 1), "123"), ((1, 300, 300), ""), ((1, 300, 1), "012")],
)
def test_full_compaction_of_an_append_bucket_skips_large_files_at_its_head(sizes: tuple[int, ...], chosen: str) -> None:
    assert names(pick_bucket(AppendPolicy(), append_files(*sizes))) == chosen


def test_full_compaction_rewrites_large_files_with_deleted_rows() -> None:
    assert names(pick_bucket(AppendPolicy(), append_files(300, 300), {"0"})) == "01"


def test_small_files_without_buckets_are_packed_by_size() -> None:
    assert [names(bin_) for bin_ in pick_bins(AppendPolicy(), append_files(1, 2, 1, 1, 1, 200))] == ["02341"]
    assert pick_bins(AppendPolicy(), append_files(1, 1, 1, 1)) == []
    assert [names(b) for b in pick_bins(AppendPolicy(), append_files(170, 171, 172, 173, 174, 175))] == ["012", "345"]


def test_a_full_compaction_needs_only_two_small_files() -> None:
    assert [names(b) for b in pick_bins(AppendPolicy(), append_files(1, 1), full=True)] == ["01"]
    assert pick_bins(AppendPolicy(), append_files(1), full=True) == []
    assert pick_bins(AppendPolicy(), append_files(1, 200), full=True) == []


def test_files_with_deleted_rows_are_always_selected() -> None:
    assert [names(b) for b in pick_bins(AppendPolicy(), append_files(1, 1, 1), {"1": 1})] == ["1"]
    assert [names(b) for b in pick_bins(AppendPolicy(), append_files(250, 1, 1), {"0": 1}, full=True)] == ["0", "12"]


def test_large_files_with_many_deleted_rows_are_packed_too() -> None:
    found = pick_bins(AppendPolicy(min_files=1), append_files(250), {"0": 21})
    assert [names(b) for b in found] == ["0"]
    assert pick_bins(AppendPolicy(min_files=1), append_files(250), {"0": 20}) == []
