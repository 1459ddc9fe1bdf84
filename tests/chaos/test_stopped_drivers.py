"""Drivers that stand still at any instant (SIGSTOP), are replaced by another one, and go on after it has caught up.

PENSTOCK_CHAOS_ROUNDS=N makes N rounds of each kind, PENSTOCK_CHAOS_SEED=S chooses the instants.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.chaos.bank import Bank, end
from tests.chaos.driver import session_of
from tests.integration.kafka.conftest import Broker

ROUNDS = int(os.environ.get("PENSTOCK_CHAOS_ROUNDS", "1"))
SEED = int(os.environ.get("PENSTOCK_CHAOS_SEED", "11"))

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600 + 240 * ROUNDS)]


def send_to_all(leader: int, number: signal.Signals) -> None:
    """Send a signal to a driver and to everything that it has started."""
    for entry in Path("/proc").iterdir():
        with suppress(ProcessLookupError, FileNotFoundError):
            if entry.name.isdigit() and session_of(int(entry.name)) == leader:
                os.kill(int(entry.name), number)


def stand_still(bank: Bank, driver: subprocess.Popen[bytes], seconds: float) -> bool:
    """Stop a driver so long after its next commit. Return whether it still ran."""
    before = bank.snapshots()
    bank.wait_until(lambda: bank.snapshots() - before or driver.poll() is not None)
    with suppress(subprocess.TimeoutExpired):
        driver.wait(seconds)
    send_to_all(driver.pid, signal.SIGSTOP)
    return driver.poll() is None


@pytest.mark.parametrize(
    ("asleep", "successor"), [("when-needed", "when-needed"), ("always", "when-needed"), ("when-needed", "always")]
)
def test_a_stopped_driver_that_was_replaced_ends_with_an_error(
    asleep: str, successor: str, broker: Broker, tmp_path: Path
) -> None:
    bank, dice = Bank(broker, tmp_path), random.Random(SEED)
    bank.send(120)
    for _ in range(3 * ROUNDS if asleep == successor else ROUNDS):
        bank.spark = asleep
        # On this machine a second driver is refused for a minute. On another one nothing is known of the first.
        stopped = bank.start(ON_HOST="localhost")
        try:
            bank.send(600)
            assert stand_still(bank, stopped, dice.uniform(0, 1.0)), bank.log()
            bank.send(60)
            bank.spark = successor
            assert bank.run() == 0, bank.log()
            bank.check_whole()
            send_to_all(stopped.pid, signal.SIGCONT)
            bank.send(60)
            assert stopped.wait(240) not in {0, 1}, bank.log()
        finally:
            end(stopped)
        assert "Traceback" not in bank.log()
        bank.check_sound()
        assert bank.run() == 0, bank.log()
        bank.check_whole()
