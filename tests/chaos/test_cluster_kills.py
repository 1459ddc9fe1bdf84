"""Exactly once under SIGKILL on a standalone master with two workers: a worker with its executor, and drivers at every
third named point, at night at each. `test_kills` has all points on one machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import cluster
from tests.chaos.bank import Bank, end
from tests.chaos.driver import POINTS
from tests.integration.kafka.conftest import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


def test_kills_of_driver_and_worker_on_a_cluster_lose_and_repeat_nothing(
    broker: Broker, tmp_path: Path, night: bool
) -> None:
    with cluster.running(tmp_path / "cluster") as spark:
        bank = Bank(broker, tmp_path, spark.url, cluster.SETTINGS)
        bank.send(120)
        bank.kill_at(list(POINTS)[:: 1 if night else 3])
        bank.send(120)
        driver = bank.start("none", 1, "--until-caught-up")
        try:
            reached = max(table.latest_snapshot.id for table in bank.tables() if table.latest_snapshot)
            bank.wait_until(lambda: bank.has_snapshot(reached + 1) or driver.poll() is not None)
            spark.kill_worker(0)
            assert driver.wait(240) == 0, bank.log()
        finally:
            end(driver)
        bank.check_whole()
