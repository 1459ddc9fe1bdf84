"""Random stories of pipelines, and above all those that failed once, leave correct tables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline_stories.failure import StoryFailed
from tests.pipeline_stories.performance import Performance
from tests.pipeline_stories.plot import story_of
from tests.pipeline_stories.story import Story

KEPT = sorted((Path(__file__).parent / "kept").glob("*.json"))
QUICK, NIGHT = 7, 2000
TRACE = "from tests.pipeline_stories.test_pipeline_stories import trace; print(trace({seed}))"


def trace(seed: int) -> str:
    return Performance(story_of(seed)).run().trace


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_story_that_failed_once_succeeds(path: Path) -> None:
    Performance(Story.of(path.read_text(encoding="utf-8"))).run()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(QUICK))
def test_random_stories_succeed(seed: int) -> None:
    Performance(story_of(seed)).run()


@pytest.mark.slow
@pytest.mark.timeout(20_000)
def test_many_random_stories_succeed(night: bool) -> None:
    for seed in range(QUICK, NIGHT if night else QUICK + 1):
        Performance(story_of(seed)).run()


def test_a_lost_row_is_noticed() -> None:
    """A story whose model has one message more than its pipeline must fail."""
    row = {"id": "1", "k": "x", "p": "a", "n": "1", "v": "a", "b": None, "d": None, "t": None}
    change = {"db": "shop_0", "table": "orders", "op": "I", "before": None, "after": row}
    errors = {"bad-record": "dead-letter"}
    steps = [{"op": "send", "messages": [[0, change]]}]
    played = Performance(Story("canal-json", {"orders": ["id"]}, {"errors": errors}, steps))
    played.model.take({**change, "after": {**row, "id": "2"}}, "nowhere")
    with pytest.raises(StoryFailed, match=r"lost .*'id', 2"):
        played.run()


@pytest.mark.slow
def test_equal_seeds_produce_equal_traces() -> None:
    traces = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", TRACE.format(seed=0)],
            env={**os.environ, "PYTHONHASHSEED": "0"},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for _ in range(2)
    }
    assert len(traces) == 1
    assert len(traces.pop().splitlines()) > 100
