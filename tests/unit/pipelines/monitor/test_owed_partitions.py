"""Tables and metastore are compared once a minute, to find missing partitions."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.pipelines.monitor.owed_partitions import OwedPartitions
from penstock.table.meta.store import TableMissing


class Warehouse:
    """The stores of a warehouse. The table `gone` was dropped after the state had been read."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def store(self, table: str) -> Any:
        self.asked.append(table)
        if table == "gone":
            raise TableMissing("there is no such table", table=table)
        return SimpleNamespace(commits=SimpleNamespace(owed_partitions=lambda _: ["dt=1", "dt=2"]))


def test_tables_are_looked_at_again_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    tables = [SimpleNamespace(table=name, error=None) for name in ("gone", "there")]
    state, warehouse, looks = SimpleNamespace(tables=tables, parked={}), Warehouse(), OwedPartitions()

    def found() -> tuple[str, ...]:
        return looks.of(cast("Any", state), cast("Any", warehouse))

    missing, lacking = found()
    assert "there is no such table" in missing
    assert "2 partitions (dt=1, dt=2)" in lacking
    now = 159.0
    assert found() == (missing, lacking)
    assert warehouse.asked == ["gone", "there"]
    now = 160.0
    found()
    assert warehouse.asked == ["gone", "there"] * 2
