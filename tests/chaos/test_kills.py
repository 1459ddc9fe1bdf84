"""Exactly once under SIGKILL, on this machine: drivers killed at named points and at random instants, workers too.

PENSTOCK_CHAOS_ROUNDS=N makes N random kills (one by default, more at night), PENSTOCK_CHAOS_SEED=S chooses them.
"""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.pipelines.errors import TasksLost
from tests.chaos.bank import KILLED, Bank, end, python_workers
from tests.chaos.driver import POINTS, WITHOUT_SPARK
from tests.integration.kafka.conftest import Broker

ROUNDS = int(os.environ.get("PENSTOCK_CHAOS_ROUNDS", "1"))
TIMEOUT = 1200 + 120 * ROUNDS

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(TIMEOUT)]

SEED = int(os.environ.get("PENSTOCK_CHAOS_SEED", "11"))


def count_kills(number: int) -> None:
    """Write how many random kills there were to the file PENSTOCK_CHAOS_LOG: some drivers end before their kill."""
    log = os.environ.get("PENSTOCK_CHAOS_LOG")
    if log:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{number}\n")


@pytest.mark.parametrize("spark", ["always", "when-needed"])
def test_kills_of_the_driver_at_any_point_lose_and_repeat_nothing(spark: str, broker: Broker, tmp_path: Path) -> None:
    bank = Bank(broker, tmp_path, spark=spark)
    bank.send(120)
    bank.kill_at(POINTS if spark == "always" else POINTS | WITHOUT_SPARK)
    instants = random.Random(SEED)
    ended = []
    for number in range(2 * ROUNDS):
        # Spark and the driver continue where the other one was killed.
        bank.spark = ("when-needed", "always")[(number + (spark == "always")) % 2]
        bank.send(600)
        # The first one goes on until it is killed, and others may be killed while they end.
        more = ["--until-caught-up"] if ended else []
        ended.append(bank.kill_after(instants.uniform(0, 2 if bank.spark == "always" else 0.5), *more))
        bank.check_sound()
    assert ended[:1] in ([], [KILLED])
    count_kills(ended.count(KILLED))
    assert bank.run() == 0, bank.log()
    bank.check_whole()


@pytest.mark.parametrize("attempts", [4, 1])
def test_workers_killed_in_the_middle_of_tasks_change_nothing(attempts: int, broker: Broker, tmp_path: Path) -> None:
    bank = Bank(broker, tmp_path, f"local[2,{attempts}]")
    bank.send(600)
    driver = bank.start("none", 1, "--until-caught-up")
    try:
        for number in (1, 3):
            bank.wait_until(lambda number=number: bank.has_snapshot(number) or driver.poll() is not None)  # type: ignore[misc]
            for worker in python_workers(driver.pid):
                with suppress(ProcessLookupError):  # it has ended meanwhile
                    os.kill(worker, signal.SIGKILL)
        # Without a second attempt the batch fails if a worker had a task, and the next run repeats it.
        assert driver.wait(240) in ({0} if attempts > 1 else {0, TasksLost.exit_code}), bank.log()
    finally:
        end(driver)
    if attempts == 1:
        bank.check_sound()
        assert bank.run() == 0, bank.log()
    bank.check_whole()


@pytest.mark.parametrize(
    ("asleep", "successor"), [("always", "always"), ("when-needed", "always"), ("always", "when-needed")]
)
def test_a_replaced_driver_that_wakes_up_changes_nothing(
    asleep: str, successor: str, broker: Broker, tmp_path: Path
) -> None:
    bank = Bank(broker, tmp_path, spark=asleep)
    bank.send(240)
    awake = tmp_path / "awake"
    sleeper = bank.start("files written", 2, WAIT_FOR=str(awake), ON_HOST="localhost")
    try:
        bank.wait_until(lambda: (tmp_path / "checkpoint/offsets/1").exists() and len(bank.tables()) == 3)
        bank.wait_until(lambda: bank.has_snapshot(1))
        bank.spark = successor
        assert bank.run() == 0, bank.log()
        bank.check_whole()
        awake.touch()
        assert sleeper.wait(240) != 0, bank.log()
    finally:
        end(sleeper)
    bank.check_whole()
    bank.send(60)
    assert bank.run() == 0, bank.log()
    bank.check_whole()
