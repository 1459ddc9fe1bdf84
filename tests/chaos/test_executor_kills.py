"""Databases read on a cluster whose executors are killed while Spark runs slow tasks twice: judged by verify.

`test_cluster_kills` has drivers and workers, with Kafka.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.chaos import cluster
from tests.chaos.bank import ROOT, end, python_workers
from tests.chaos.driver import session_of
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync
from tests.integration.postgres.conftest import server_port
from tests.integration.postgres.sync import PgPlayground, PgSync
from tests.servers import launch

__all__ = ["server_port"]

pytestmark = [pytest.mark.mysql, pytest.mark.postgres, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

# A second attempt as soon as a task is slower than another one, and a new Python process for each task.
TWICE = (
    "spark.speculation=true",
    "spark.speculation.interval=100ms",
    "spark.speculation.multiplier=1.1",
    "spark.speculation.quantile=0.1",
    "spark.python.worker.reuse=false",
)
ROWS, KILLS = 20_000, 2


@contextmanager
def source(kind: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[Sync | PgSync]:
    if kind == "postgres":
        postgres = PgPlayground(request.getfixturevalue("server_port"))
        postgres.start_over()
        postgres.create("account", "id int PRIMARY KEY, owner varchar(20), cents bigint")
        yield PgSync(postgres, folder)
        return
    with launch.running("mysql" if kind == "mysql" else "mariadb", folder / "server") as port:
        mysql = Playground(kind, port)
        mysql.start_over()
        mysql.run("CREATE TABLE account (id INT PRIMARY KEY, owner VARCHAR(20), cents BIGINT)")
        yield Sync(mysql, folder)


def command(sync: Sync | PgSync, *more: str) -> list[str]:
    return [sys.executable, "-W", "ignore", "-m", "penstock", *more, sync.command, *sync.words]


def busy_executor(spark: cluster.Cluster) -> int | None:
    """The JVM of an executor that runs a task now, or None. Its Python processes end with it."""
    busy = {worker.pid for worker in spark.workers if python_workers(worker.pid)}
    for entry in Path("/proc").iterdir():
        with suppress(ProcessLookupError, FileNotFoundError):
            runs = entry.name.isdigit() and session_of(int(entry.name)) in busy
            if runs and b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                return int(entry.name)
    return None


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.Cluster]:
    with cluster.running(tmp_path_factory.mktemp("spark") / "cluster") as found:
        yield found


@pytest.mark.parametrize("kind", ["postgres", "mysql", "mariadb"])
def test_killed_executors_and_second_attempts_lose_and_repeat_nothing(
    kind: str, spark: cluster.Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with source(kind, tmp_path, request) as sync:
        for first in range(0, ROWS, 2000):
            rows = ", ".join(f"({n}, 'owner {n % 5}', 0)" for n in range(first, first + 2000))
            sync.server.run(f"INSERT INTO account VALUES {rows}")
        subprocess.run(command(sync), cwd=ROOT, check=True, capture_output=True)
        for turn in range(10):
            sync.server.run(f"UPDATE account SET cents = cents + 1, owner = 'turn {turn}' WHERE id % 3 <> {turn % 3}")
        settings = [word for setting in (*cluster.SETTINGS, *TWICE) for word in ("--spark-conf", setting)]
        words = [*command(sync), "--spark", "always", "--max-batch-rows", "40000", "--master", spark.url, *settings]
        log = tmp_path / "driver.log"
        with log.open("wb") as out:
            driver = subprocess.Popen(words, cwd=ROOT, stdout=out, stderr=out, start_new_session=True)
        try:
            for number in range(KILLS):
                while driver.poll() is None:
                    process = busy_executor(spark)
                    if process is not None and log.read_text(errors="replace").count("event=batch ") >= number:
                        with suppress(ProcessLookupError):  # it has ended meanwhile
                            os.kill(process, signal.SIGKILL)
                            break
                    time.sleep(0.05)
            assert driver.wait(300) == 0, log.read_text(errors="replace")[-6000:]
        finally:
            end(driver)
        judged = subprocess.run(command(sync, "verify"), cwd=ROOT, capture_output=True, text=True, check=False)
        assert judged.returncode == 0, judged.stdout + judged.stderr + log.read_text(errors="replace")[-3000:]
