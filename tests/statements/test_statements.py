"""Random scripts of SQL do what the model says, above all those that failed once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.statements.dice import Dice
from tests.statements.model_table import Row
from tests.statements.play import DuckDb, Play, failure_of, kept, play_seed, shrunk
from tests.statements.spark import Spark

KEPT = kept(Path(__file__).parent / "kept")


@pytest.fixture(scope="module")
def spark() -> Iterator[Spark]:
    engine = Spark()
    yield engine
    engine.close()


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_script_that_failed_once_succeeds(path: Path) -> None:
    Play(DuckDb(), json.loads(path.read_text(encoding="utf-8"))).run()


@pytest.mark.parametrize(
    ("seed", "steps"), [(0, 40), *(pytest.param(seed, 100, marks=pytest.mark.slow) for seed in range(1, 6))]
)
def test_random_scripts_match_the_model(seed: int, steps: int) -> None:
    assert play_seed(DuckDb(), seed, steps) >= steps


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_script_that_failed_once_succeeds_in_spark(spark: Spark, path: Path) -> None:
    Play(spark, json.loads(path.read_text(encoding="utf-8"))).run()


@pytest.mark.spark
@pytest.mark.slow
def test_random_scripts_match_the_model_in_spark(spark: Spark) -> None:
    play_seed(spark, 1, 60)


@pytest.mark.slow
def test_many_random_scripts_match_the_model(night: bool) -> None:
    for seed in range(6, 206 if night else 7):
        play_seed(DuckDb(), seed, 100)


class Forgetful(DuckDb):
    """An engine that says it has emptied a table, and has not."""

    def run(self, statement: str) -> list[Row]:
        return [] if statement.startswith("TRUNCATE") else super().run(statement)


@pytest.mark.slow
def test_a_wrong_engine_is_noticed_and_its_script_shortened() -> None:
    failure = failure_of(Forgetful(), Dice(23).script(60))
    assert failure is not None
    failure = shrunk(Forgetful(), failure)
    assert failure.cause == "truncate no snapshot"
    assert failure.steps[-1]["op"] == "truncate"
    assert len(failure.steps) < 10
    assert all(len(step.get("rows", [0])) == 1 for step in failure.steps)


def test_equal_seeds_draw_equal_scripts() -> None:
    assert Dice(7).script(80) == Dice(7).script(80) != Dice(8).script(80)
