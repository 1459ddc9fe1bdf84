"""What a command that runs a pipeline does with a JVM that was started ahead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.pipelines.api import run
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


def test_a_jvm_that_an_idle_run_does_not_need_is_ended(shop: Shop, done: list[str]) -> None:
    mark = StartMark(shop.folder / "mark")
    mark.note(found=True)
    assert run.run_command(shop.spec(), mark=mark) == 0
    assert done == ["ended"]
    assert not mark.expects_something


@pytest.mark.parametrize("until", ["caught-up", "forever"])
def test_other_runs_start_one(until: str, shop: Shop, done: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def found_a_batch(*given: Any, **named: Any) -> None:
        named["on_summary"]({"batch": 1})

    monkeypatch.setattr(run, "run_here", found_a_batch)
    shop.put("2.json", insert("orders", {"id": 2}))
    mark = StartMark(shop.folder / "mark")
    assert run.run_command(shop.spec(pipeline={"until": until}), mark=mark) == 0
    assert done == ["started"]
    assert mark.expects_something
