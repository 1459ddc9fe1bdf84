"""Drivers that stand still at any instant (SIGSTOP), are replaced by another one, and go on after it has caught up.

PENSTOCK_CHAOS_ROUNDS=N makes N rounds of each kind, PENSTOCK_CHAOS_SEED=S chooses the instants.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.chaos.bank import ROOT, Bank, end
from tests.chaos.driver import session_of
from tests.integration.kafka.conftest import Broker
from tests.integration.postgres.conftest import server_port
from tests.integration.postgres.sync import PgPlayground, PgSync
from tests.waiting import until

__all__ = ["server_port"]

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


@pytest.mark.postgres
def test_a_stopped_reader_of_a_slot_that_was_replaced_ends_with_an_error(server_port: int, tmp_path: Path) -> None:
    server, dice, log = PgPlayground(server_port), random.Random(SEED), tmp_path / "driver.log"
    server.start_over()
    server.create("account", "id int PRIMARY KEY, cents bigint")
    server.run("INSERT INTO account SELECT n, 1000 FROM generate_series(1, 500) n")
    sync = PgSync(server, tmp_path, flags=("--max-batch-rows", "100"))
    sync_words = [word for word in sync.words if word != "--until-caught-up"]
    driver = [sys.executable, "-W", "ignore", "-m", "tests.chaos.driver", "none", "1", sync.command]
    run_through = partial(subprocess.run, cwd=ROOT, capture_output=True, text=True, check=False)
    for _ in range(2 * ROUNDS):
        with log.open("wb") as out:
            stopped = subprocess.Popen(
                [*driver, *sync_words, "--trigger", "continuous"],
                cwd=ROOT,
                env=os.environ | {"ON_HOST": "localhost"},
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        try:
            changes = log.read_text().count("event=batch ")
            until(lambda: log.read_text().count("event=batch ") > changes or stopped.poll() is not None, log.read_text)  # noqa: B023
            server.run("UPDATE account SET cents = cents + 1")
            time.sleep(dice.uniform(0, 0.7))
            send_to_all(stopped.pid, signal.SIGSTOP)
            server.run("UPDATE account SET cents = cents + 1 WHERE id % 3 = 0", "DELETE FROM account WHERE id % 50 = 1")
            done = run_through([*driver, *sync.words])
            assert done.returncode == 0, done.stderr
            judged = run_through(
                [sys.executable, "-W", "ignore", "-m", "penstock", "verify", sync.command, *sync.words]
            )
            assert judged.returncode == 0, judged.stdout + judged.stderr
            send_to_all(stopped.pid, signal.SIGCONT)
            server.run("INSERT INTO account SELECT coalesce(max(id), 0) + 1, 7 FROM account")
            assert stopped.wait(240) not in {0, 1}, log.read_text()
        finally:
            end(stopped)
        assert "Traceback" not in log.read_text()
        done = run_through([*driver, *sync.words])
        assert done.returncode == 0, done.stderr
        judged = run_through([sys.executable, "-W", "ignore", "-m", "penstock", "verify", sync.command, *sync.words])
        assert judged.returncode == 0, judged.stdout + judged.stderr
