"""The order in which a whole run starts the files of tests, and which of them it may leave out."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from tests.order import FURTHER, LONGEST, FileScheduling, further_place, rank

ROOT = Path(__file__).resolve().parents[2]


def test_the_longest_files_and_folders_exist() -> None:
    assert [name for name in LONGEST if not (ROOT / name).exists()] == []


def test_a_long_file_precedes_its_folder_and_unit_tests_are_last() -> None:
    tests = (
        "tests/integration/kafka/test_docs.py::test_x",
        "tests/integration/spark/test_job.py::test_x",
        "tests/unit/test_x.py::test_x[a::b]",
    )
    assert sorted(tests, key=rank) == list(tests)
    assert rank(tests[2]) == len(LONGEST)


def test_further_tests_are_last_and_apart_from_the_others_of_their_file() -> None:
    always = "tests/integration/kafka/test_kafka_source.py::test_x"
    further = "tests/integration/mysql/test_modes.py::test_x[mysql-a]"
    last = "tests/integration/mysql/test_modes.py::test_x[mariadb_11_8-a]"
    differs = "tests/integration/mysql/test_following.py::test_x[mariadb_11_8]"
    unit = "tests/unit/test_x.py::test_x"
    assert sorted((last, further, unit, always, differs), key=rank) == [always, differs, unit, further, last]
    assert [further_place(test) is None for test in (always, differs, unit, further)] == [True, True, True, False]
    scope = partial(FileScheduling._split_scope, object.__new__(FileScheduling))
    assert scope(always) == "tests/integration/kafka/test_kafka_source.py"
    assert len({"tests/integration/mysql/test_modes.py", scope(further), scope(last)}) == 3


def test_each_pattern_of_further_tests_finds_a_file() -> None:
    files = [f"{path.relative_to(ROOT).as_posix()}::" for path in (ROOT / "tests").rglob("test_*.py")]
    for pattern in FURTHER:
        file = re.split(r"\.\*", pattern)[0]
        assert any(re.match(f"tests/{file}", name) for name in files), pattern
