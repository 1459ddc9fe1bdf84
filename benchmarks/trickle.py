"""From broker to readable: a steady trickle through a job with a short trigger, and how old rows are when they show.

    python -m benchmarks.trickle [EVENTS_PER_SECOND] [SECONDS] [COMPACTION ...] [--turns N] [--trigger T]
                                                                         1000, 40, inline, 1, 1s
    python -m benchmarks.trickle 1000 80 --trigger continuous                   the goal of half a second
    python -m benchmarks.trickle 1000 80 --trigger continuous --spark always    the same by Spark
    python -m benchmarks.trickle 1000 40 --trigger continuous --store 20        tables in a store, 20 ms an answer
    python -m benchmarks.trickle 1000 40 write-only background --turns 2        the goal for background compaction

COMPACTION is inline, background or write-only; of several, run by turns over one broker, the batches' times of all
turns are compared. An event's age is the time from its acknowledgement by the broker to the first moment at which a
snapshot that holds it can be opened. What came before the first snapshot, while Spark started, and SETTLING seconds
after it is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import object_store
from benchmarks.figures import Figure, record
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.store import TableMissing
from tests.servers.launch import running

ROOT = Path(__file__).resolve().parents[1]
PARTITIONS = 4
SETTLING = 6.0
STARTING = 240.0
DRAINING = 30.0
TYPES = {"id": "bigint", "amount": "decimal(10,2)", "note": "varchar(40)"}


@dataclass
class Trickle:
    """Sends at an even rate and remembers when each offset was acknowledged."""

    port: int
    topic: str
    rate: int
    acknowledged: list[dict[int, float]] = field(default_factory=lambda: [{} for _ in range(PARTITIONS)])

    def send(self, seconds: float) -> None:
        producer = Producer({"bootstrap.servers": f"127.0.0.1:{self.port}", "linger.ms": 2})
        began = time.monotonic()
        for number in range(int(self.rate * seconds)):
            producer.produce(self.topic, event(number), partition=number % PARTITIONS, callback=self._came)
            producer.poll(0)
            ahead = began + number / self.rate - time.monotonic()
            if ahead > 0.002:
                time.sleep(ahead)
        if producer.flush(DRAINING):
            raise TimeoutError(f"the broker did not take all events within {DRAINING} s")

    @property
    def ends(self) -> list[int]:
        return [max(offsets, default=-1) + 1 for offsets in self.acknowledged]

    def _came(self, error: object, message: Message) -> None:
        assert error is None, error
        self.acknowledged[message.partition()][message.offset()] = time.monotonic()


def event(number: int) -> str:
    row = {"id": str(number % 20_000), "amount": f"{number % 1000}.50", "note": f"note of event {number}"}
    head = {"type": "INSERT", "database": "shop", "table": "orders", "isDdl": False, "pkNames": ["id"]}
    return json.dumps(head | {"mysqlType": TYPES, "data": [row], "old": None, "es": 1_700_000_000_000, "ts": 1})


def command(
    port: int, topic: str, folder: Path, compaction: str, trigger: str, spark: str, warehouse: CatalogSettings
) -> list[str]:
    conf = {
        "topic": topic,
        "value.format": "canal-json",
        "scan.startup.mode": "earliest-offset",
        "properties.bootstrap.servers": f"127.0.0.1:{port}",
    }
    how = ("--table-conf", "write-only=true") if compaction == "write-only" else ("--compaction", compaction)
    return [
        *(sys.executable, "-W", "ignore", "-m", "penstock.pipelines.commands.main", "kafka-sync-table"),
        *("--warehouse", warehouse.warehouse),
        # Checkpoints in a store need a client of Spark's, even where no Spark starts.
        *(("--checkpoint", str(folder / "checkpoint")) if warehouse.options else ()),
        *(word for key, value in warehouse.options for word in ("--catalog-conf", f"{key}={value}")),
        *("--database", "shop", "--table", "orders", "--trigger", trigger),
        *("--table-conf", "bucket=2", *how, "--wait-for-data", "--spark", spark),
        *(word for key, value in conf.items() for word in ("--kafka-conf", f"{key}={value}")),
    ]


def watch(warehouse: CatalogSettings, over: threading.Event, found: list[tuple[float, dict[int, int]]]) -> None:
    """When each snapshot could be opened, and the offsets it reaches."""
    last = 0
    while not over.wait(0.01):
        try:
            latest = warehouse.store("shop.orders").snapshots.latest()
        except TableMissing:
            continue
        if latest is not None and latest.id != last:
            last = latest.id
            end = latest.properties.get("penstock.end")
            if end is not None:
                [offsets] = json.loads(end)["offsets"].values()
                found.append((time.monotonic(), {int(partition): offset for partition, offset in offsets.items()}))


def ages(trickle: Trickle, seen: list[tuple[float, dict[int, int]]], since: float) -> list[float]:
    reached = [0] * PARTITIONS
    found = []
    for moment, ends in seen:
        for partition, end in ends.items():
            times = trickle.acknowledged[partition]
            new = [times[offset] for offset in range(reached[partition], end) if offset in times]
            found += [moment - arrived for arrived in new if arrived >= since]
            reached[partition] = max(reached[partition], end)
    return found


def batch_seconds(log: str, settled: int) -> list[float]:
    """How long each batch took, but for the first few."""
    found = [float(seconds) for seconds in re.findall(r"event=batch number=.* seconds=([0-9.]+)", log)]
    return found[settled:]


@dataclass
class Ran:
    """The measurements of all runs of one way to compact."""

    ages: list[float] = field(default_factory=list)
    batches: list[float] = field(default_factory=list)
    compactions: int = 0

    def add(self, other: Ran) -> None:
        self.ages += other.ages
        self.batches += other.batches
        self.compactions += other.compactions


def run(port: int, topic: str, given: argparse.Namespace, compaction: str) -> Ran:
    with tempfile.TemporaryDirectory() as name:
        folder, trickle = Path(name), Trickle(port, topic, given.rate)
        if given.store is None:
            return run_in(CatalogSettings.of(f"{folder}/warehouse", {}), folder, trickle, given, compaction)
        with object_store.running(folder / "store", given.store) as store:
            warehouse = CatalogSettings.of(f"s3://{object_store.BUCKET}/warehouse", store.options)
            return run_in(warehouse, folder, trickle, given, compaction)


def run_in(
    warehouse: CatalogSettings, folder: Path, trickle: Trickle, given: argparse.Namespace, compaction: str
) -> Ran:
    port, topic, seconds = trickle.port, trickle.topic, given.seconds
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(DRAINING)
    over = threading.Event()
    seen: list[tuple[float, dict[int, int]]] = []
    watcher = threading.Thread(target=lambda: watch(warehouse, over, seen))
    watcher.start()
    with (folder / "job.log").open("wb") as log:
        job = subprocess.Popen(
            command(port, topic, folder, compaction, given.trigger, given.spark, warehouse),
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )
        trickle.send(1.0)
        wait(lambda: bool(seen) or job.poll() is not None, STARTING)
        trickle.send(seconds)
        wait(lambda: bool(seen) and reached(seen[-1][1]) == trickle.ends, DRAINING)
        over.set()
        watcher.join(DRAINING)
        job.terminate()
        job.wait(90)
    text = (folder / "job.log").read_text()
    if not seen:
        raise SystemExit(text[-4000:])
    times = batch_seconds(text, int(SETTLING))
    return Ran(ages(trickle, seen, seen[0][0] + SETTLING), times, text.count("event=compacted "))


def wait(true: Callable[[], bool], seconds: float) -> None:
    latest = time.monotonic() + seconds
    while not true() and time.monotonic() < latest:
        time.sleep(0.1)


def reached(ends: dict[int, int]) -> list[int]:
    return [ends.get(partition, 0) for partition in range(PARTITIONS)]


def report(given: argparse.Namespace, compaction: str, ran: Ran) -> float:
    """Prints it, and gives the 95th percentile of the batches' seconds."""
    print(
        f"{given.rate} events/s for {given.seconds:g} s, {given.turns} turn(s), trigger {given.trigger}, "
        f"compaction {compaction}:"
    )
    p50, p95, p99 = np.percentile(ran.ages, [50, 95, 99])
    print(
        f"  {len(ran.ages)} events, age when readable: p50 {p50:.2f} s, p95 {p95:.2f} s, p99 {p99:.2f} s, worst "
        f"{max(ran.ages):.2f} s"
    )
    how = ", by Spark" if given.spark == "always" else ""
    how += f", a store that answers after {given.store} ms" if given.store is not None else ""
    what = f"{given.rate:,} events/s, trigger {given.trigger}, compaction {compaction}{how}"
    record(Figure(f"{what}: p50 until readable", float(p50), "s", less=True))
    record(Figure(f"{what}: p95 until readable", float(p95), "s", goal=2.5, less=True))
    record(Figure(f"{what}: p99 until readable", float(p99), "s", goal=0.5 if given.store is None else 1.0, less=True))
    half, most = np.percentile(ran.batches, [50, 95])
    record(Figure(f"{what}: p95 of a batch", float(most), "s", less=True))
    print(
        f"  {len(ran.batches)} batches: p50 {half:.2f} s, p95 {most:.2f} s; {ran.compactions} compactions beside them"
    )
    return float(most)


def main(given: argparse.Namespace) -> None:
    ran = {compaction: Ran() for compaction in given.compaction or ("inline",)}
    with tempfile.TemporaryDirectory() as name, running("kafka", Path(name)) as port:
        for turn in range(given.turns):
            for compaction, all_turns in ran.items():
                topic = f"trickle-{turn}-{compaction}"
                result = run(port, topic, given, compaction)
                print(f"turn {turn + 1}, {compaction}: {len(result.batches)} batches", flush=True)
                all_turns.add(result)
    print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    p95 = {compaction: report(given, compaction, result) for compaction, result in ran.items()}
    beside = p95.pop("write-only", None)
    if beside is not None:
        for compaction, seconds in p95.items():
            what = f"p95 of a batch, {compaction} beside write-only"
            record(Figure(what, seconds, "s", beside, "write-only", 1 / 1.5, goal_of_ratio=True, less=True))
            print(f"p95 of a batch, {compaction} beside write-only: {seconds / beside:.2f} (goal: at most 1.5)")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rate", type=int, nargs="?", default=1000)
    parser.add_argument("seconds", type=float, nargs="?", default=40)
    parser.add_argument("compaction", nargs="*")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--trigger", default="1s")
    parser.add_argument("--spark", choices=["when-needed", "always"], default="when-needed")
    parser.add_argument("--store", type=int, metavar="MS", help="tables in an object store that waits so long")
    return parser.parse_args()


if __name__ == "__main__":
    main(arguments())
