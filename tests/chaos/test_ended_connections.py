"""Drivers that run on while their server ends one of their connections in each batch."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from pymysql import OperationalError

from tests.chaos.bank import ROOT
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync
from tests.integration.postgres.conftest import server_port
from tests.integration.postgres.sync import PgPlayground, PgSync
from tests.servers import launch
from tests.waiting import until

__all__ = ["server_port"]

pytestmark = [pytest.mark.mysql, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(600)]
KILLS = 10
CHANGE = "UPDATE account SET cents = cents + 1"


@dataclass
class Served:
    """A pipeline, and how its connections are ended: `end_all` returns how many there were."""

    sync: Sync | PgSync
    change: Callable[[], object]
    end_all: Callable[[], int]


@contextmanager
def mysql(folder: Path, _: pytest.FixtureRequest) -> Iterator[Served]:
    with launch.running("mysql", folder / "server") as port:
        server = Playground("mysql", port)
        server.start_over()
        rows = ", ".join(f"({number}, 1000)" for number in range(500))
        server.run("CREATE TABLE account (id INT PRIMARY KEY, cents BIGINT)", f"INSERT INTO account VALUES {rows}")

        def end_all() -> int:
            found = list(server.rows("SELECT id FROM information_schema.processlist WHERE user = 'cdc'"))
            for (number,) in found:
                with suppress(OperationalError):  # it has ended by itself
                    server.run(f"KILL {number}")
            return len(found)

        yield Served(Sync(server, folder, flags=["--max-batch-rows", "200"]), lambda: server.run(CHANGE), end_all)


@contextmanager
def postgres(folder: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    server = PgPlayground(request.getfixturevalue("server_port"))
    server.start_over()
    server.create("account", "id int PRIMARY KEY, cents bigint")
    server.run("INSERT INTO account SELECT n, 1000 FROM generate_series(1, 500) n")
    ending = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'cdc'"
    sync = PgSync(server, folder, flags=("--max-batch-rows", "200"))
    yield Served(sync, lambda: server.run(CHANGE), lambda: int(server.run(ending)))


@pytest.mark.parametrize("source", [mysql, postgres], ids=["mysql", "postgres"])
def test_a_driver_survives_the_end_of_its_connections(
    source: Callable[..., AbstractContextManager[Served]], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    dice, log = random.Random(5), tmp_path / "driver.log"
    with source(tmp_path, request) as served:
        sync = served.sync
        start = [sys.executable, "-W", "ignore", "-m", "penstock"]
        words = [sync.command, *(word for word in sync.words if word != "--until-caught-up")]
        with log.open("wb") as out:
            driver = subprocess.Popen([*start, *words, "--trigger", "continuous"], cwd=ROOT, stdout=out, stderr=out)
        try:
            ended = 0
            while ended < KILLS:
                batches = log.read_text().count("event=batch ")
                served.change()
                time.sleep(dice.uniform(0, 0.4))
                ended += served.end_all()
                wait_for_batch(driver, log, batches)
        finally:
            end_plainly(driver)
        for again in ([sync.command, *sync.words], ["verify", sync.command, *sync.words]):
            done = subprocess.run([*start, *again], cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr


def wait_for_batch(driver: subprocess.Popen[bytes], log: Path, before: int) -> None:
    """Wait until there is another batch than the number before."""

    def has_more() -> bool:
        assert driver.poll() is None, log.read_text()
        return log.read_text().count("event=batch ") > before

    until(has_more, log.read_text)


def end_plainly(driver: subprocess.Popen[bytes]) -> None:
    driver.terminate()
    with suppress(subprocess.TimeoutExpired):
        driver.wait(120)
    driver.kill()
    driver.wait()
