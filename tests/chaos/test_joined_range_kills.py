"""A topic with many tables, whose small ranges are read together on a cluster: executors are killed, stand still and
are overtaken by second attempts of their tasks.

The tables have no keys: a row that came twice would be seen.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from tests.chaos import cluster
from tests.chaos.bank import ROOT, end
from tests.chaos.driver import session_of
from tests.chaos.test_executor_kills import busy_executor
from tests.integration.kafka.conftest import Broker
from tests.invariants import check_invariants
from tests.orphans import remove_orphans
from tests.servers.produce import producing
from tests.shop import insert
from tests.waiting import ended, until

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

PARTITIONS, KILLS = 8, 2
# Python processes are kept, since only a process that has read a partition before reads its ranges together.
TWICE = (
    "spark.speculation=true",
    "spark.speculation.interval=100ms",
    "spark.speculation.multiplier=1.1",
    "spark.speculation.quantile=0.1",
)


@dataclass
class Topic:
    """The rows sent so far, by table."""

    broker: Broker
    folder: Path
    tables: int
    dice: random.Random
    name: str = field(init=False)
    sent: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.name = self.broker.topic(partitions=PARTITIONS)

    def send(self, rows: int) -> None:
        with producing(self.broker.properties) as producer:
            for number in range(rows):
                new = len(self.sent) < self.tables
                table = f"t{len(self.sent) if new else self.dice.randrange(self.tables):03d}"
                self.sent[table].append(len(self.sent[table]))
                row = {"id": self.sent[table][-1], "note": f"row {number}"}
                producer.produce(self.name, insert(table, row), partition=self.dice.randrange(PARTITIONS))

    def command(self, *more: str) -> list[str]:
        kafka = {
            "topic": self.name,
            "value.format": "canal-json",
            "scan.startup.mode": "earliest-offset",
            "properties.bootstrap.servers": self.broker.properties["bootstrap.servers"],
        }
        return [
            *(sys.executable, "-W", "ignore", "-m", "penstock", "kafka-sync-database", "--until-caught-up"),
            *("--warehouse", f"{self.folder}/warehouse", "--database", "ods", "--max-batch-rows", "700"),
            *("--sync-primary-keys-from-source-schema", "false", "--include-keyless", "append"),
            *(word for key, value in kafka.items() for word in ("--kafka-conf", f"{key}={value}")),
            *more,
        ]

    def check_whole(self, log: Path) -> None:
        settings = CatalogSettings.of(f"{self.folder}/warehouse", {})
        tables = {name: Table(settings.store(f"ods.{name}")) for name in self.sent}
        found = {name: sorted(table.scan().to_arrow()["id"].to_pylist()) for name, table in tables.items()}
        assert found == self.sent, log.read_text(errors="replace")[-3000:]
        for table in list(tables.values())[::20]:
            check_invariants(table)
            remove_orphans(table.store, older_than=1 << 62)
            assert len(table.scan().to_arrow()) == len(self.sent[table.name.partition(".")[2]])


@contextmanager
def slow(worker: subprocess.Popen[bytes]) -> Iterator[None]:
    """A machine whose executors stand still again and again, longer than a task takes."""
    over = threading.Event()

    def send(number: signal.Signals) -> None:
        for entry in Path("/proc").iterdir():
            with suppress(ProcessLookupError, FileNotFoundError):
                if entry.name.isdigit() and int(entry.name) != worker.pid and session_of(int(entry.name)) == worker.pid:
                    os.kill(int(entry.name), number)

    def disturb() -> None:
        while not over.wait(2):
            send(signal.SIGSTOP)
            time.sleep(4)
            send(signal.SIGCONT)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        yield
    finally:
        over.set()
        ended(thread)


def test_killed_and_slow_executors_change_nothing_in_ranges_read_together(
    broker: Broker, tmp_path: Path, *, night: bool
) -> None:
    topic = Topic(broker, tmp_path, 200 if night else 60, random.Random(4))
    log = tmp_path / "driver.log"
    topic.send(2 * topic.tables)
    subprocess.run(topic.command(), cwd=ROOT, check=True, capture_output=True)
    topic.send(2000)
    settings = [word for setting in (*cluster.SETTINGS, *TWICE) for word in ("--spark-conf", setting)]
    with cluster.running(tmp_path / "cluster") as spark:
        with log.open("wb") as out:
            command = topic.command("--spark", "always", "--master", spark.url, *settings)
            driver = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out, start_new_session=True)
        try:
            with slow(spark.workers[1]):
                for number in range(KILLS):
                    kill_after_batches(spark, driver, log, number)
                assert driver.wait(600) == 0, log.read_text(errors="replace")[-6000:]
        finally:
            end(driver)
    topic.check_whole(log)


def kill_after_batches(spark: cluster.Cluster, driver: subprocess.Popen[bytes], log: Path, batches: int) -> None:
    """Kill an executor that runs a task, once there were so many batches and unless the driver has ended."""

    def killed() -> bool:
        if driver.poll() is not None:
            return True
        process = busy_executor(spark)
        if process is None or log.read_text(errors="replace").count("event=batch ") < batches:
            return False
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        return True

    until(killed, lambda: log.read_text(errors="replace")[-3000:])
