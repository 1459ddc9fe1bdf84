"""Batches that were planned, whose snapshots the source table has lost or replaced before they were read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PositionLost
from penstock.pipelines.config.load import parsed
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.driver.batch_driver import BatchDriver
from penstock.pipelines.table_source.source import TableSource
from tests.integration.failing_calls import Killed, die
from tests.unit.pipelines.table_source.test_source import Lake
from tests.without_spark import run_here

pytestmark = pytest.mark.slow


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    lake.create("orders", {"bucket": "1"})
    lake.write("orders", [{"id": 1, "city": "a", "score": 1}])
    run_here(spec(lake))
    for number in (2, 3):
        lake.write("orders", [{"id": number, "city": "b", "score": number}])
    return lake


def spec(lake: Lake, **pipeline: Any) -> PipelineSpec:
    described = {"name": "layer", "checkpoint": f"{lake.folder}/checkpoint", "until": "caught-up", **pipeline}
    return parsed(
        {
            "pipeline": described,
            "source": {"type": "table", "tables": ["ods.orders"]},
            "sink": {"catalog": {"warehouse": f"{lake.folder}/lake"}, "database": "dwd"},
        }
    )


def replace_snapshots(lake: Lake) -> None:
    lake.table("ods.orders").rollback_to(1)
    for number in (7, 8, 9):
        lake.write("orders", [{"id": number, "city": "c", "score": number}])


def expire_snapshots(lake: Lake) -> None:
    lake.write("orders", [{"id": 4, "city": "c", "score": 4}])
    lake.table("ods.orders").expire_snapshots(retain_max=1, retain_min=1, older_than=2**60)


def killed_before_it_reads(lake: Lake) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BatchDriver, "take", lambda *_: die())
        with pytest.raises(Killed):
            run_here(spec(lake))


def test_snapshots_that_are_replaced_after_the_plan_are_not_committed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = TableSource.plan

    def planned_before_they_were_replaced(source: TableSource, *given: Any) -> Any:
        found = plan(source, *given)
        monkeypatch.setattr(TableSource, "plan", plan)
        replace_snapshots(lake)
        return found

    monkeypatch.setattr(TableSource, "plan", planned_before_they_were_replaced)
    with pytest.raises(PositionLost, match="replaced"):
        run_here(spec(lake))
    assert lake.rows("dwd.orders") == [(1, "a", 1)]
    run_here(spec(lake, resnapshot=True))
    assert lake.rows("dwd.orders") == lake.rows("ods.orders")


@pytest.mark.parametrize("again", [{}, {"resnapshot": True}])
def test_a_request_that_was_interrupted_is_carried_out_once_by_the_next_run(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, again: dict[str, Any]
) -> None:
    killed_before_it_reads(lake)
    expire_snapshots(lake)
    with monkeypatch.context() as patch:
        patch.setattr(TableSource, "latest_offsets", lambda *_: die())
        with pytest.raises(Killed):  # it has finished the batch that was planned, without its rows
            run_here(spec(lake, resnapshot=True))
    run_here(spec(lake, **again))
    assert lake.rows("dwd.orders") == lake.rows("ods.orders")
    snapshots = len(lake.table("dwd.orders").snapshots)
    run_here(spec(lake))
    assert len(lake.table("dwd.orders").snapshots) == snapshots
    assert not list(lake.folder.rglob("*reset-*"))


@pytest.mark.parametrize("lose", [replace_snapshots, expire_snapshots])
def test_a_planned_batch_whose_snapshots_are_lost_is_refused(lake: Lake, lose: Any) -> None:
    killed_before_it_reads(lake)
    lose(lake)
    with pytest.raises(PositionLost):
        run_here(spec(lake))
    assert lake.rows("dwd.orders") == [(1, "a", 1)]
    run_here(spec(lake, resnapshot=True))
    assert lake.rows("dwd.orders") == lake.rows("ods.orders")
