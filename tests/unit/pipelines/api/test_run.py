"""What a command that runs a pipeline does with a JVM that was started ahead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.ingest.source_waits import WaitEnded
from penstock.pipelines.api import run, start_order
from penstock.pipelines.errors import StoppedEarly
from penstock.pipelines.spark import first_jvm
from penstock.pipelines.spark.start_mark import StartMark
from tests.here import note_as_spark_does
from tests.here import run as carried
from tests.shop import Shop, insert


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A pipeline that has committed what there is."""
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1}))
    carried(shop.spec())
    note_as_spark_does(tmp_path / "checkpoint")
    return shop


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(first_jvm, "start", lambda *given: found.append("started"))
    monkeypatch.setattr(first_jvm, "end", lambda: found.append("ended"))
    return found


@pytest.mark.parametrize("rows", [0, 1])
def test_a_jvm_that_a_run_does_not_need_is_ended(rows: int, shop: Shop, done: list[str]) -> None:
    mark = StartMark(shop.folder / "mark")
    mark.note(needed=True)
    for number in range(rows):
        shop.put("2.json", insert("orders", {"id": 2 + number}))
    assert run.run_command(shop.spec(), mark=mark) == 0
    assert done == ["ended"]
    assert not mark.expects_spark
    assert len(shop.ids("orders")) == 1 + rows


def test_a_stop_that_ends_the_question_whether_to_start_one_is_no_error(
    shop: Shop, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*_: Any, **__: Any) -> bool:
        raise WaitEnded("a stop ended the wait for the source")

    monkeypatch.setattr(start_order, "seems_to_need_spark", ended)
    with pytest.raises(StoppedEarly):
        run.run_command(shop.spec(), mark=None, asked=lambda: True)
    assert run.run_command(shop.spec(pipeline={"until": "forever"}), mark=None, asked=lambda: True) == 0
    assert done == ["ended", "ended"]


@pytest.mark.parametrize("until", ["caught-up", "forever"])
def test_other_runs_start_one(until: str, shop: Shop, done: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def needed_spark(*given: Any, **named: Any) -> None:
        assert mark.expects_spark  # a run that is killed now starts the next JVM at once
        named["on_summary"]({"batch": 1, "spark": True})

    mark = StartMark(shop.folder / "mark")
    monkeypatch.setattr(run, "run_here", needed_spark)
    monkeypatch.setattr(start_order, "TIMES_SMALL", 0)
    shop.put("2.json", insert("orders", {"id": 2}))
    assert run.run_command(shop.spec(pipeline={"until": until}), mark=mark) == 0
    assert done == ["started"]
    assert mark.expects_spark


def test_the_summary_says_whether_spark_was_started(shop: Shop) -> None:
    shop.put("2.json", insert("orders", {"id": 2}))
    done = run.run_here(shop.spec())
    assert (done["batch"], done["records"], done["spark"]) == (1, {"ods.orders": 1}, False)
