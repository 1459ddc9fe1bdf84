"""From each kind of source to readable: a small even load, and how old rows are when they show.

    python -m benchmarks.source_freshness [KIND ...] [--rate ROWS_PER_SECOND] [--seconds S] [--trigger T]
                                           all             100                       40         continuous

One writer inserts rows with rising ids, a transaction each, so the rows of a snapshot are the first ones. The age of a
row is the time from the answer to its insert to the first moment at which a snapshot that holds it can be opened. Rows
of the first SETTLING seconds after the first snapshot are left out. `benchmarks.trickle` has a larger load from Kafka.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np

from benchmarks.figures import Figure, record
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.store import TableMissing
from tests.servers.launch import Kind, running

ROOT = Path(__file__).resolve().parents[1]
SETTLING = 6.0
STARTING, DRAINING = 240.0, 60.0


@dataclass
class Source:
    """How to insert the row of a number, and the words of a command that reads the table `t`."""

    insert: Callable[[int], object]
    words: list[str]


@contextmanager
def kafka(port: int, folder: Path) -> Iterator[Source]:
    from confluent_kafka import Producer

    from tests.integration.kafka.conftest import Broker
    from tests.shop import insert

    broker = Broker(port, folder)
    topic, producer = broker.topic(), Producer(broker.properties)

    def send(number: int) -> None:
        producer.produce(topic, insert("t", {"id": number, "note": f"note of row {number}"}))
        if producer.flush(DRAINING):
            raise TimeoutError(f"the broker did not take a message within {DRAINING} s")

    words = ["kafka-sync-table", "--warehouse", f"{folder}/warehouse", "--database", "ods", "--table", "t"]
    conf = [f"topic={topic}", "value.format=canal-json", f"properties.bootstrap.servers=127.0.0.1:{port}"]
    conf += ["scan.startup.mode=earliest-offset"]
    yield Source(send, [*words, "--primary-keys", "id", *(word for item in conf for word in ("--kafka-conf", item))])


@contextmanager
def mysql(port: int, folder: Path) -> Iterator[Source]:
    from tests.integration.mysql.playground import Playground
    from tests.integration.mysql.sync import Sync

    server = Playground("mysql", port)
    server.start_over()
    server.run("CREATE TABLE t (id INT PRIMARY KEY, amount DECIMAL(10, 2), note VARCHAR(40))")
    sync = Sync(server, folder, "t", ["table-name=t"])
    yield Source(
        lambda number: server.run(f"INSERT INTO t VALUES ({number}, {number % 1000}.50, 'note of row {number}')"),
        [sync.command, *sync.words],
    )


@contextmanager
def postgres(port: int, folder: Path) -> Iterator[Source]:
    import psycopg

    from tests.integration.postgres.sync import DATABASE, PgPlayground, PgSync

    server = PgPlayground(port)
    server.start_over()
    server.create("t", "id int PRIMARY KEY, amount numeric(10, 2), note varchar(40)")
    sync = PgSync(server, folder, "t", ["table-name=t"])
    address = f"host=127.0.0.1 port={port} user=postgres dbname={DATABASE}"
    with psycopg.connect(address, autocommit=True) as connection:
        yield Source(
            lambda number: connection.execute(
                "INSERT INTO t VALUES (%s, %s, %s)", (number, number % 1000, f"note of row {number}")
            ),
            [sync.command, *sync.words],
        )


@contextmanager
def mongodb(port: int, folder: Path) -> Iterator[Source]:
    from tests.integration.mongodb.sync import MongoPlayground, MongoSync

    with MongoPlayground.at(f"mongodb://127.0.0.1:{port}/") as server:
        server.start_over()
        server.db.create_collection("t")
        sync = MongoSync(server, folder, "t")
        yield Source(
            lambda number: server.db.t.insert_one(
                {"_id": number, "amount": number % 1000, "note": f"note of row {number}"}
            ),
            ["mongodb-sync-table", *sync.words],
        )


@contextmanager
def pulsar(port: int, folder: Path) -> Iterator[Source]:
    from tests.integration.pulsar.conftest import Broker
    from tests.integration.pulsar.sync import Sync
    from tests.shop import insert

    broker = Broker(port, folder)
    topic = broker.topic()
    with broker.client() as client:
        producer = client.create_producer(topic, batching_enabled=False)
        yield Source(
            lambda number: producer.send(insert("t", {"id": number, "note": f"note of row {number}"}).encode()),
            ["pulsar-sync-table", *Sync(broker, folder).flags(topic, "--table", "t", "--primary-keys", "id")],
        )


SOURCES = {"kafka": kafka, "mysql": mysql, "postgres": postgres, "mongodb": mongodb, "pulsar": pulsar}


@dataclass
class Watch:
    """When each row was inserted, and when each snapshot could be opened, with the number of its rows."""

    warehouse: CatalogSettings
    inserted: list[float] = field(default_factory=list)
    seen: list[tuple[float, int]] = field(default_factory=list)

    def look(self, over: threading.Event) -> None:
        last = 0
        while not over.wait(0.01):
            try:
                latest = self.warehouse.store("ods.t").snapshots.latest()
            except TableMissing:
                continue
            if latest is not None and latest.id != last:
                last = latest.id
                self.seen.append((time.monotonic(), latest.total_record_count or 0))

    def reached(self) -> int:
        return self.seen[-1][1] if self.seen else 0

    def send(self, insert: Callable[[int], object], rate: int, seconds: float) -> None:
        began, first = time.monotonic(), len(self.inserted)
        for number in range(first, first + int(rate * seconds)):
            ahead = began + (number - first) / rate - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
            insert(number)
            self.inserted.append(time.monotonic())

    def ages(self, since: float) -> list[float]:
        found, reached = [], 0
        for moment, rows in self.seen:
            found += [moment - at for at in self.inserted[reached:rows] if at >= since]
            reached = max(reached, rows)
        return found


def run(kind: str, given: argparse.Namespace) -> list[float]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server may run as a user of its own
        with running(cast(Kind, kind), folder / "server") as port, SOURCES[kind](port, folder) as source:
            return measured(source, folder, given)


def measured(source: Source, folder: Path, given: argparse.Namespace) -> list[float]:
    words = [word for word in source.words if word != "--until-caught-up"]
    command = [sys.executable, "-W", "ignore", "-m", "penstock.pipelines.commands.main", *words]
    watch, over = Watch(CatalogSettings.of(f"{folder}/warehouse", {})), threading.Event()
    looking = threading.Thread(target=watch.look, args=(over,))
    looking.start()
    log = folder / "job.log"
    with log.open("wb") as out:
        job = subprocess.Popen([*command, "--trigger", given.trigger], cwd=ROOT, stdout=out, stderr=out)
    try:
        watch.send(source.insert, given.rate, 1.0)
        wait(lambda: bool(watch.seen) or job.poll() is not None, STARTING)
        since = time.monotonic() + SETTLING
        watch.send(source.insert, given.rate, SETTLING + given.seconds)
        wait(lambda: watch.reached() == len(watch.inserted) or job.poll() is not None, DRAINING)
    finally:
        over.set()
        looking.join()
        job.terminate()
        job.wait(90)
    if watch.reached() != len(watch.inserted):
        raise SystemExit(f"{watch.reached()} of {len(watch.inserted)} rows are readable:\n{log.read_text()[-4000:]}")
    return watch.ages(since)


def wait(true: Callable[[], bool], seconds: float) -> None:
    latest = time.monotonic() + seconds
    while not true() and time.monotonic() < latest:
        time.sleep(0.05)


def main(given: argparse.Namespace) -> None:
    for kind in given.kinds or SOURCES:
        ages = run(kind, given)
        p50, p99 = np.percentile(ages, [50, 99])
        what = f"{kind}, {given.rate} rows/s, trigger {given.trigger}"
        print(f"{what}: {len(ages)} rows, p50 {p50:.3f} s, p99 {p99:.3f} s, worst {max(ages):.3f} s", flush=True)
        record(Figure(f"{what}: p50 until readable", float(p50), "s", less=True))
        record(Figure(f"{what}: p99 until readable", float(p99), "s", goal=0.5, less=True))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(SOURCES))
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--trigger", default="continuous")
    return parser.parse_args()


if __name__ == "__main__":
    main(arguments())
