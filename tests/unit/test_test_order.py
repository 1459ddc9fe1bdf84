"""The order in which a whole run starts the files of tests."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import LONGEST, rank

ROOT = Path(__file__).resolve().parents[2]


def test_the_longest_files_and_folders_exist() -> None:
    assert [name for name in LONGEST if not (ROOT / name).exists()] == []


def test_a_long_file_precedes_its_folder_and_unit_tests_are_last() -> None:
    tests = (
        "tests/chaos/test_kills.py::test_x",
        "tests/chaos/test_new.py::test_x",
        "tests/unit/test_x.py::test_x[a::b]",
    )
    assert sorted(tests, key=rank) == list(tests)
    assert rank(tests[2]) == len(LONGEST)
