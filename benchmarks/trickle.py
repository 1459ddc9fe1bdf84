"""From broker to readable: a steady trickle through a job with a short trigger, and how old rows are when they show.

    python -m benchmarks.trickle [EVENTS_PER_SECOND] [SECONDS] [COMPACTION ...]      1000, 40, inline

COMPACTION is inline, background or write-only; of several, run in turn, the batches' times are compared.
An event's age is the time from its acknowledgement by the broker to the first moment at which a snapshot that holds it
can be opened. What came before the first snapshot, while Spark started, and SETTLING seconds after it is left out.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.pipelines.run.tables import Warehouse
from penstock.table.meta.store import TableMissing
from tests.servers.launch import running

ROOT = Path(__file__).resolve().parents[1]
PARTITIONS = 4
SETTLING = 8.0
STARTING = 120.0
TYPES = {"id": "bigint", "amount": "decimal(10,2)", "note": "varchar(40)"}


@dataclass
class Trickle:
    """Sends at an even rate and remembers when each offset was acknowledged."""

    port: int
    rate: int
    acknowledged: list[dict[int, float]] = field(default_factory=lambda: [{} for _ in range(PARTITIONS)])

    def send(self, seconds: float) -> None:
        producer = Producer({"bootstrap.servers": f"127.0.0.1:{self.port}", "linger.ms": 2})
        began = time.monotonic()
        for number in range(int(self.rate * seconds)):
            producer.produce("trickle", event(number), partition=number % PARTITIONS, callback=self._came)
            producer.poll(0)
            ahead = began + number / self.rate - time.monotonic()
            if ahead > 0.002:
                time.sleep(ahead)
        producer.flush()

    def _came(self, error: object, message: Message) -> None:
        assert error is None, error
        self.acknowledged[message.partition()][message.offset()] = time.monotonic()


def event(number: int) -> str:
    row = {"id": str(number % 20_000), "amount": f"{number % 1000}.50", "note": f"note of event {number}"}
    head = {"type": "INSERT", "database": "shop", "table": "orders", "isDdl": False, "pkNames": ["id"]}
    return json.dumps(head | {"mysqlType": TYPES, "data": [row], "old": None, "es": 1_700_000_000_000, "ts": 1})


def command(port: int, folder: Path, compaction: str) -> list[str]:
    conf = {
        "topic": "trickle",
        "value.format": "canal-json",
        "scan.startup.mode": "earliest-offset",
        "properties.bootstrap.servers": f"127.0.0.1:{port}",
    }
    how = ("--table-conf", "write-only=true") if compaction == "write-only" else ("--compaction", compaction)
    return [
        *(sys.executable, "-W", "ignore", "-m", "penstock.pipelines.commands.main", "kafka-sync-table"),
        *("--warehouse", str(folder / "warehouse"), "--database", "shop", "--table", "orders", "--trigger", "1s"),
        *("--table-conf", "bucket=2", *how, "--wait-for-data"),
        *(word for key, value in conf.items() for word in ("--kafka-conf", f"{key}={value}")),
    ]


def watch(warehouse: Warehouse, over: threading.Event, found: list[tuple[float, dict[int, int]]]) -> None:
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
                offsets = json.loads(end)["offsets"]["trickle"]
                found.append((time.monotonic(), {int(partition): offset for partition, offset in offsets.items()}))


def ages(trickle: Trickle, seen: list[tuple[float, dict[int, int]]], since: float) -> list[float]:
    reached = [0] * PARTITIONS
    found = []
    for moment, ends in seen:
        for partition, end in ends.items():
            times = trickle.acknowledged[partition]
            new = [times[offset] for offset in range(reached[partition], end) if offset in times]
            found += [moment - came for came in new if came >= since]
            reached[partition] = max(reached[partition], end)
    return found


def batch_seconds(log: Path, settled: int) -> list[float]:
    """How long each batch took, but for the first few."""
    found = [float(seconds) for seconds in re.findall(r"event=batch number=.* seconds=([0-9.]+)", log.read_text())]
    return found[settled:]


@dataclass(frozen=True, slots=True)
class Ran:
    ages: list[float]
    batches: list[float]


def run(rate: int, seconds: float, compaction: str) -> Ran:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running("kafka", folder / "kafka") as port:
            admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
            admin.create_topics([NewTopic("trickle", PARTITIONS, 1)])["trickle"].result()
            trickle = Trickle(port, rate)
            over = threading.Event()
            seen: list[tuple[float, dict[int, int]]] = []
            warehouse = Warehouse.of(f"{folder}/warehouse", {})
            watcher = threading.Thread(target=lambda: watch(warehouse, over, seen))
            watcher.start()
            latest = time.monotonic() + STARTING
            with (folder / "job.log").open("wb") as log:
                job = subprocess.Popen(command(port, folder, compaction), cwd=ROOT, stdout=log, stderr=log)
                trickle.send(1.0)
                while not seen and job.poll() is None and time.monotonic() < latest:
                    time.sleep(0.1)
                trickle.send(seconds)
                time.sleep(6)
                over.set()
                watcher.join()
                job.terminate()
                job.wait(90)
            if not seen:
                raise SystemExit((folder / "job.log").read_text()[-4000:])
            return Ran(ages(trickle, seen, seen[0][0] + SETTLING), batch_seconds(folder / "job.log", int(SETTLING)))


def main(rate: int = 1000, seconds: float = 40, *compactions: str) -> None:
    p95: dict[str, float] = {}
    for compaction in compactions or ("inline",):
        ran = run(rate, seconds, compaction)
        print(f"{rate} events/s for {seconds:g} s, trigger 1 s, compaction {compaction}: {len(ran.ages)} events seen")
        print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        p50, p95_age, p99 = np.percentile(ran.ages, [50, 95, 99])
        print(f"age when readable: p50 {p50:.2f} s, p95 {p95_age:.2f} s, p99 {p99:.2f} s, worst {max(ran.ages):.2f} s")
        half, p95[compaction] = np.percentile(ran.batches, [50, 95])
        print(f"{len(ran.batches)} batches: p50 {half:.2f} s, p95 {p95[compaction]:.2f} s", flush=True)
    if "write-only" in p95:
        for compaction, seconds_ in p95.items():
            print(f"p95 of a batch, {compaction} beside write-only: {seconds_ / p95['write-only']:.2f}")


if __name__ == "__main__":
    given = sys.argv[1:]
    main(*(kind(text) for kind, text in zip((int, float), given, strict=False)), *given[2:])
