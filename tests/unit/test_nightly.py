"""A night that was stopped continues: what is done is not done again, and the summary counts it."""

from __future__ import annotations

import argparse
import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nightly import (
    _ENDED,
    COMMITS_TESTS,
    FAULTS_TESTS,
    KILLS_TEST,
    ORDERS_TESTS,
    OTHER_TESTS,
    PARTS,
    PEERS_TEST,
    PROPERTIES,
    PYTEST,
    ROOT,
    Night,
    Piece,
    Result,
    chosen_parts,
    counted,
    python,
    stories,
)


def test_a_night_that_was_stopped_continues(tmp_path: Path) -> None:
    ran: list[str] = []

    def piece(name: str, result: Result) -> Piece:
        return Piece("stories", name, lambda: ran.append(name) or result)

    first = [piece("0 500", {"stories": 500, "failed": 0, "failures": []})]
    second = [piece("500 500", {"stories": 500, "failed": 1, "failures": ["seed 777"]})]
    Night(tmp_path, 1).run(first, jobs=1)
    Night(tmp_path, 1).run(first + second, jobs=1)
    assert ran == ["0 500", "500 500"]
    summary = json.loads((tmp_path / "summary.json").read_text())["stories"]
    assert (summary["pieces"], summary["stories"], summary["failed"]) == (2, 1000, 1)
    assert summary["failures"] == ["seed 777"]


def test_the_seeds_of_a_night_are_cut_into_pieces_without_gap() -> None:
    assert [piece.name for piece in stories(1_000_000, 1200)] == ["1000000 500", "1000500 500", "1001000 200"]


@pytest.mark.parametrize(
    ("line", "counts"),
    [("30 passed in 31.10s", (None, "30")), ("2 failed, 7 passed, 1 skipped in 247.20s (0:04:07)", ("2", "7"))],
)
def test_the_last_line_of_pytest_is_read(line: str, counts: tuple[str | None, str]) -> None:
    found = _ENDED.fullmatch(line)
    assert found is not None
    assert found.groups() == counts


@pytest.mark.parametrize(
    ("passed", "last_line", "failures"),
    [
        (7, "7 passed in 2.00s", []),
        (7, "7 passed, 2 skipped in 2.00s", ["NOT RUN: 2 tests of a b"]),
        (0, "3 skipped in 2.00s", ["NOT RUN: 3 tests of a b"]),
        (0, "no tests ran in 0.10s", ["NOT RUN: all tests of a b"]),
    ],
)
def test_tests_that_did_not_run_fail_a_night(passed: int, last_line: str, failures: list[str]) -> None:
    assert counted(passed, [], last_line, ("a", "b")) == {
        "passed": passed,
        "failed": len(failures),
        "failures": failures,
    }


def test_parts_are_chosen_by_name() -> None:
    assert chosen_parts(",".join(PARTS)) == list(PARTS)
    assert chosen_parts("fuzz, stories") == ["fuzz", "stories"]


@pytest.mark.parametrize("text", ["fuz", "stories,", ""])
def test_an_unknown_part_is_refused_with_the_known_names(text: str) -> None:
    with pytest.raises(
        argparse.ArgumentTypeError, match="choose from stories, pipelines, peers, statements, faults, orders"
    ):
        chosen_parts(text)


@pytest.mark.slow
def test_the_tests_of_a_night_find_their_fixtures() -> None:
    named = (PEERS_TEST, KILLS_TEST, *COMMITS_TESTS, *FAULTS_TESTS, *ORDERS_TESTS, *OTHER_TESTS)
    planned = python(*PYTEST, "--setup-plan", "--night", *named)
    assert planned.returncode == 0, planned.stdout[-2000:]


# Tests that try more with `--night`, but which no night runs by their names.
ELSEWHERE = {
    "tests/stories/test_stories.py::test_many_random_stories_succeed": "the part `stories` plays more",
    "tests/pipeline_stories/test_pipeline_stories.py::test_many_random_stories_succeed": "`pipelines` plays more",
    "tests/statements/test_statements.py::test_many_random_scripts_match_the_model": "`statements` plays more",
    "tests/integration/install/test_oldest_spark.py::python": "`make oldest`: it fetches another Spark",
}


def test_every_folder_with_properties_is_a_part_of_the_night() -> None:
    files = [file for file in (ROOT / "tests" / "unit").rglob("test_*.py") if "\n@given(" in file.read_text("utf-8")]
    assert files
    assert {f"tests/unit/{file.relative_to(ROOT / 'tests' / 'unit').parts[0]}" for file in files} == {
        *PROPERTIES,
        "tests/unit/test_strategies.py",
    }


def test_every_test_that_tries_more_at_night_is_a_part_of_the_night() -> None:
    named = (PEERS_TEST, KILLS_TEST, *COMMITS_TESTS, *FAULTS_TESTS, *ORDERS_TESTS, *OTHER_TESTS)
    found = sorted(found_in_tests())
    covered = [test for test in found if test.startswith(("tests/fuzz/", *named)) or test in ELSEWHERE]
    assert found == covered
    assert ELSEWHERE.keys() <= set(found)
    # The files of fuzz tests are collected by the part itself.
    assert {name for name in OTHER_TESTS if not any(test.startswith(name) for test in found)} == set()


def found_in_tests() -> Iterator[str]:
    """Yield the tests and fixtures that have the fixture `night`, take `seeds` of a night or read the flag."""
    for file in (ROOT / "tests").rglob("test_*.py"):
        text = file.read_text(encoding="utf-8")
        if file == Path(__file__) or ("night" not in text and "seeds" not in text):
            continue
        takes_seeds = "from tests.fuzz.mutations import" in text
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and tries_more_at_night(node, takes_seeds=takes_seeds):
                yield f"{file.relative_to(ROOT)}::{node.name}"


def tries_more_at_night(function: ast.FunctionDef, *, takes_seeds: bool) -> bool:
    arguments = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    texts = {node.value for node in ast.walk(function) if isinstance(node, ast.Constant)}
    return "night" in arguments or (takes_seeds and "seeds" in names) or "--night" in texts
