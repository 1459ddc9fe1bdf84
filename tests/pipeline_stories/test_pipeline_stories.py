"""Random stories of pipelines, and above all those that failed once, leave correct tables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.pipelines.ledger import batch_logs
from tests.pipeline_stories import process
from tests.pipeline_stories.failure import StoryFailed
from tests.pipeline_stories.performance import Performance
from tests.pipeline_stories.plot import story_of
from tests.pipeline_stories.story import Story
from tests.simulation.store import Fault

KEPT = sorted((Path(__file__).parent / "kept").glob("*.json"))
QUICK, NIGHT = 7, 2000
JOINING = (13, 38)
LOOKING_UP = 10
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
@pytest.mark.parametrize("seed", JOINING)
def test_stories_whose_ranges_are_read_together_succeed(seed: int) -> None:
    story = story_of(seed)
    assert story.joins
    Performance(story).run()


@pytest.mark.slow
@pytest.mark.timeout(20_000)
def test_many_random_stories_succeed(night: bool) -> None:
    for seed in range(QUICK, NIGHT if night else QUICK + 1):
        Performance(story_of(seed)).run()


OPERATIONS = {"create": range(1, 10), "delete": range(1, 5), "exists": (1, 8, 12), "list": (1, 4, 8), "read": (1, 4, 8)}
ROW = {"k": "x", "p": "a", "n": "1", "v": "a", "b": None, "d": None, "t": None}


@pytest.mark.slow
@pytest.mark.parametrize("again_local", [True, False])
@pytest.mark.parametrize(("name", "number"), [(name, seed) for name, some in OPERATIONS.items() for seed in some])
def test_a_run_without_spark_survives_each_fault_of_its_checkpoint(
    name: str, number: int, again_local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run takes four batches, and the logs keep two. After the fault, it continues with or without Spark."""
    for module, kept in ((batch_logs, "_KEPT"), (process, "KEPT")):
        monkeypatch.setattr(module, kept, 2)
    inserts = [{"db": "shop_0", "table": "orders", "op": "I", "after": {"id": str(id_), **ROW}} for id_ in range(4)]
    send = {"op": "send", "messages": [[0, {"before": None, **insert}] for insert in inserts]}
    changes = name in {"create", "delete"}
    for fault in Fault if changes else (Fault.BEFORE, Fault.STALE, Fault.DIES_BEFORE):
        run = {"op": "run", "limit": 1, "local": True, "again_local": again_local}
        steps = [send, {**run, "fault": [f"checkpoint {name}", number, fault.name]}]
        played = Performance(Story("canal-json", {"orders": ["id"]}, {"errors": {"bad-record": "dead-letter"}}, steps))
        played.run()
        assert played.spark.done == 4
        assert [entry.fault for entry in played.log if entry.fault] == [fault]


def test_a_lost_row_is_noticed() -> None:
    """A story whose model has one message more than its pipeline must fail."""
    row = {"id": "1", **ROW}
    change = {"db": "shop_0", "table": "orders", "op": "I", "before": None, "after": row}
    errors = {"bad-record": "dead-letter"}
    steps = [{"op": "send", "messages": [[0, change]]}]
    played = Performance(Story("canal-json", {"orders": ["id"]}, {"errors": errors}, steps))
    played.model.take({**change, "after": {**row, "id": "2"}}, "nowhere")
    with pytest.raises(StoryFailed, match=r"lost .*'id', 2"):
        played.run()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, LOOKING_UP])
def test_equal_seeds_produce_equal_traces(seed: int) -> None:
    traces = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", TRACE.format(seed=seed)],
            env={**os.environ, "PYTHONHASHSEED": "0"},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for _ in range(2)
    }
    assert len(traces) == 1
    assert len(traces.pop().splitlines()) > 100
