"""Levels, runs and sections of a bucket's files."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from penstock.table.merge.sorted_runs import KeyedFile, Levels, newest_first, sections
from penstock.table.meta.data_file import EMPTY_STATS, DataFile
from penstock.table.values.binary_row import encode_row
from penstock.table.values.types import INT

KEY = (INT,)


def data_file(name: str, low: int, high: int, *, level: int = 0, sequences: tuple[int, int] = (0, 0)) -> DataFile:
    smallest, largest = (encode_row((key,), KEY) for key in (low, high))
    return DataFile(name, 10, 1, smallest, largest, EMPTY_STATS, EMPTY_STATS, *sequences, 0, level)


def shape(files: list[DataFile]) -> list[list[list[str]]]:
    return [[[file.name for file in run.data_files] for run in section.runs] for section in sections(files, KEY)]


def test_sections_are_divided_where_no_file_overlaps() -> None:
    files = [data_file("c", 10, 20), data_file("a", 1, 5), data_file("b", 4, 9)]
    assert shape(files) == [[["b"], ["a"]], [["c"]]] or shape(files) == [[["a"], ["b"]], [["c"]]]


def test_files_that_share_a_bound_are_in_one_section() -> None:
    assert len(sections([data_file("a", 1, 5), data_file("b", 5, 9)], KEY)) == 1


def test_a_level_above_0_is_one_run_and_comes_first() -> None:
    files = [
        data_file("new", 1, 100, sequences=(50, 60)),
        data_file("left", 1, 40, level=5, sequences=(0, 9)),
        data_file("right", 41, 90, level=5, sequences=(10, 19)),
        data_file("middle", 30, 60, level=4, sequences=(20, 29)),
    ]
    [section] = sections(files, KEY)
    assert [[file.name for file in run.data_files] for run in section.runs] == [["left", "right"], ["middle"], ["new"]]
    assert section.levels == (5, 4, 0)
    assert section.in_order


def test_level_0_files_without_overlap_share_a_run() -> None:
    files = [
        data_file("base", 0, 100, level=5, sequences=(0, 9)),
        data_file("a", 0, 10, sequences=(10, 11)),
        data_file("b", 20, 30, sequences=(12, 13)),
        data_file("over a", 5, 15, sequences=(14, 15)),
    ]
    assert shape(files) == [[["base"], ["a", "b"], ["over a"]]]


def test_numbers_have_to_be_read_when_two_writers_interleaved() -> None:
    files = [data_file("a", 0, 10, sequences=(0, 5)), data_file("b", 5, 20, sequences=(3, 8))]
    [section] = sections(files, KEY)
    assert not section.in_order


def test_interleaved_numbers_do_not_matter_without_key_overlap() -> None:
    files = [
        data_file("a", 0, 10, sequences=(0, 5)),
        data_file("b", 20, 30, sequences=(3, 8)),
        data_file("c", 0, 30, level=5, sequences=(-9, -1)),
    ]
    [section] = sections(files, KEY)
    assert section.in_order


def test_every_file_is_ordered_after_older_overlapping_files() -> None:
    random = Random(7)
    for _ in range(30):
        files = []
        for place in range(random.randint(1, 25)):
            low = random.randint(0, 60)
            high, first = low + random.randint(0, 15), place * 10
            files.append(data_file(str(place), low, high, sequences=(first, first + 9)))
        found = sections(random.sample(files, len(files)), KEY)
        assert sorted(file.name for section in found for file in section.data_files) == sorted(f.name for f in files)
        for section in found:
            assert section.in_order
            for run in section.runs:
                assert all(a.high < b.low for a, b in pairwise(run.files))
        ends = [[KeyedFile.of(file, KEY) for file in section.data_files] for section in found]
        for left, right in pairwise(ends):
            assert max(file.high for file in left) < min(file.low for file in right)


def test_level_0_is_ordered_newest_first() -> None:
    files = [data_file("old", 0, 1, sequences=(0, 4)), data_file("new", 0, 1, sequences=(5, 9))]
    assert [file.name for file in newest_first(files)] == ["new", "old"]


def test_levels_know_their_height() -> None:
    levels = Levels.of([data_file("a", 0, 1), data_file("b", 0, 1, level=4)], 6)
    assert (levels.max_level, levels.highest_occupied, levels.run_count) == (5, 4, 2)
    assert Levels.of([data_file("b", 0, 1, level=7)], 6).max_level == 7
    assert Levels.of([], 6).highest_occupied == -1
