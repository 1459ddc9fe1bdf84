"""Random stories, and above all those that failed once, leave a correct table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.store import Fault, Operation
from tests.simulation.story import Story
from tests.stories.performance import Performance
from tests.stories.plot import story_of
from tests.stories.shrink import faults_of
from tests.stories.wider import FIRST, is_wide

KEPT = sorted((Path(__file__).parent / "kept").glob("*.json"))
QUICK, MORE, NIGHT = 80, 240, 20_000
GROUP = 20
WIDE = [seed for seed in range(FIRST, FIRST + 240) if is_wide(seed)]
TRACE = "from tests.stories.test_stories import trace; print(trace({seed}))"


def play(seeds: range) -> None:
    for seed in seeds:
        Performance(story_of(seed), faults_of(seed)).run()


def trace(seed: int) -> str:
    return Performance(story_of(seed), faults_of(seed)).run().trace


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_story_that_failed_once_succeeds(path: Path) -> None:
    story = Story.of(path.read_text(encoding="utf-8"))
    Performance(story, faults_of(story.seed)).run()


@pytest.mark.parametrize("first", range(0, QUICK, GROUP))
def test_random_stories_succeed(first: int) -> None:
    play(range(first, first + GROUP))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(QUICK, MORE, GROUP))
def test_more_random_stories_succeed(first: int) -> None:
    play(range(first, first + GROUP))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(WIDE), GROUP))
def test_random_stories_with_all_merge_engines_succeed(first: int) -> None:
    for seed in WIDE[first : first + GROUP]:
        play(range(seed, seed + 1))


@pytest.mark.slow
@pytest.mark.timeout(40_000)
def test_many_random_stories_succeed(night: bool) -> None:
    play(range(MORE, NIGHT) if night else range(MORE, MORE + 1))


@pytest.mark.parametrize("seed", range(8))
def test_a_tag_whose_creation_arrives_late_exists_once(seed: int) -> None:
    """The request fails and takes effect later: the next attempt may find the tag, and refuses to create it again."""
    rows = {"op": "write", "columns": ["k"], "rows": [["+I", 1]]}
    steps = [rows, {"op": "tag", "name": "t1"}, rows]
    story = Story([("k", "INT NOT NULL")], [], steps, {"bucket": "-1"}, seed=seed)
    late = [Fault.LATE]

    def faults(operation: Operation) -> Fault | None:
        return late.pop() if late and operation.name == "create" and operation.path.endswith("/tag-t1") else None

    Performance(story, faults).run()
    assert not late


@pytest.mark.parametrize("seed", [4, 5, 17, 1002])
def test_equal_seeds_produce_equal_traces(seed: int) -> None:
    traces = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", TRACE.format(seed=seed)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(traces) == 1
    assert len(traces.pop().splitlines()) > 100
