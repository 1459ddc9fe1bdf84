"""From the start after a kill to the first commit: a Kafka topic into a table, killed in the middle of a batch.

    python -m benchmarks.kills [TURNS]

Each turn sends EVENTS canal events to a running job, kills all of its processes when it has planned a batch with them
and not committed it, and starts the job again, which repeats that batch; first without Spark, then with it.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

import penstock
from benchmarks.figures import Figure, record
from benchmarks.processes import adopt_orphans, members, reaped
from benchmarks.trickle import DRAINING, PARTITIONS, ROOT, Trickle, command
from penstock.table.catalog.settings import CatalogSettings
from tests.servers.launch import running

EVENTS = 20_000
AT_ONCE = 10_000_000  # events per second: as fast as the broker takes them
GOAL = 8.0
WAITING = 240.0
LOOK_EVERY = 0.002
KEYS = 20_000  # of `trickle.event`


@dataclass(slots=True)
class Job:
    """A job that is started again and again over the same checkpoint and table."""

    port: int
    topic: str
    folder: Path
    spark: str
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        warehouse = CatalogSettings.of(f"{self.folder}/warehouse", {})
        words = command(self.port, self.topic, self.folder, "inline", "continuous", self.spark, warehouse)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)

    def wait(self, true: Callable[[], bool]) -> None:
        assert self.process is not None
        latest = time.monotonic() + WAITING
        while not true():
            if self.process.poll() is not None or time.monotonic() > latest:
                raise TimeoutError((self.folder / "log").read_text(errors="replace")[-4000:])
            time.sleep(LOOK_EVERY)

    def kill(self) -> None:
        """Kill all processes at once, as the loss of the machine would."""
        assert self.process is not None
        for pid in members(self.process.pid):
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        reaped(self.process.pid)

    def count(self, pattern: str) -> int:
        return sum(path.name.rpartition("-")[2].isdigit() for path in self.folder.glob(pattern))

    @property
    def snapshots(self) -> int:
        return self.count("warehouse/shop.db/orders/snapshot/snapshot-*")

    @property
    def is_in_a_batch(self) -> bool:
        planned = self.count("warehouse/_penstock/*/offsets/*")
        return planned > self.count("warehouse/_penstock/*/commits/*")


def seconds_after_kills(port: int, folder: Path, spark: str, turns: int) -> list[float]:
    """Return the seconds from each start to the first snapshot after it."""
    topic = f"kills-{spark}"
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(DRAINING)
    folder.mkdir()
    job, found = Job(port, topic, folder, spark), []
    job.start()
    for _ in range(turns):
        found.append(_turn(job))
        print(f"{spark}: {found[-1]:.2f} s", flush=True)
    job.wait(lambda: not job.is_in_a_batch)
    job.kill()
    rows = penstock.open_table(f"{folder}/warehouse/shop.db/orders").scan().to_arrow().num_rows
    assert rows == KEYS, rows
    return found


def _turn(job: Job) -> float:
    trickle = Trickle(job.port, job.topic, AT_ONCE)
    job.wait(lambda: not job.is_in_a_batch)
    trickle.send(EVENTS / AT_ONCE)
    job.wait(lambda: job.is_in_a_batch)
    job.kill()
    before, began = job.snapshots, time.monotonic()
    job.start()
    job.wait(lambda: job.snapshots > before)
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("turns", type=int, nargs="?", default=5)
    turns = parser.parse_args().turns
    adopt_orphans()
    with tempfile.TemporaryDirectory() as name, running("kafka", Path(name) / "broker") as port:
        for how, spark in (("without Spark", "when-needed"), ("with Spark", "always")):
            seconds = seconds_after_kills(port, Path(name) / spark, spark, turns)
            middle, most = statistics.median(seconds), max(seconds)
            print(f"{how}: median {middle:.2f} s, longest {most:.2f} s")
            what = f"start after a kill to the first commit, {how}"
            record(Figure(f"{what}: median of {turns}", middle, "s", goal=GOAL, less=True))
            record(Figure(f"{what}: longest", most, "s", goal=GOAL, less=True))


if __name__ == "__main__":
    main()
