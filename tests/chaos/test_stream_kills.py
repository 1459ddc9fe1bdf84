"""Sources as Spark streams on a cluster, while the driver and executors are killed and the source goes on changing.

The changes of all batches, each batch as it was read last, must give the rows of the source. From Kafka each change
must come once and in order, and a batch that is read again must be the same.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import cluster
from tests.chaos.bank import ROOT, end
from tests.chaos.driver import kill_session
from tests.chaos.test_executor_kills import TWICE, busy_executor
from tests.integration.kafka.test_behaviours import debezium
from tests.integration.mongodb.sync import MongoPlayground
from tests.integration.mysql.playground import Playground
from tests.servers import launch
from tests.servers.produce import producing
from tests.waiting import until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.mysql,
    pytest.mark.mongodb,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]
ROWS = 1500


@dataclass
class Source:
    """A source whose rows are (id, version). `change` makes some changes, `rows` are the rows that it has now."""

    kind: str
    key: str
    options: dict[str, str]
    change: Callable[[random.Random], None]
    rows: Callable[[], dict[int, int]]


@contextmanager
def mysql(kind: str, folder: Path) -> Iterator[Source]:
    with launch.running(kind, folder / "server") as port:
        server = Playground(kind, port)
        server.start_over()
        server.run("CREATE TABLE account (id INT PRIMARY KEY, version INT, filling VARCHAR(200))")
        for first in range(0, ROWS, 1000):
            rows = ", ".join(f"({number}, 0, REPEAT('x', 200))" for number in range(first, first + 1000))
            server.run(f"INSERT INTO account VALUES {rows}")

        def change(chance: random.Random) -> None:
            first = chance.randrange(ROWS)
            server.run(
                f"UPDATE account SET version = version + 1 WHERE id BETWEEN {first} AND {first + 20}",
                f"DELETE FROM account WHERE id = {chance.randrange(ROWS)}",
                f"REPLACE INTO account VALUES ({chance.randrange(ROWS)}, {chance.randrange(1000)}, 'new')",
            )

        options = {
            "hostname": "127.0.0.1",
            "port": str(port),
            "username": "cdc",
            "password": "cdc",
            "ssl.allow-public-key-retrieval": "true",
            "table": "play.account",
            "state": f"{folder}/state",
            "server-id": "7000-7003",
        }
        yield Source("mysql", "id", options, change, lambda: dict(server.rows("SELECT id, version FROM account")))


@contextmanager
def mongodb(_: str, folder: Path) -> Iterator[Source]:
    with (
        launch.running("mongodb", folder / "server") as port,
        MongoPlayground.at(f"mongodb://127.0.0.1:{port}/") as server,
    ):
        server.start_over()
        accounts = server.db.account
        accounts.insert_many([{"_id": number, "version": 0, "filling": "x" * 200} for number in range(ROWS)])

        def change(chance: random.Random) -> None:
            for _ in range(10):
                accounts.update_one({"_id": chance.randrange(ROWS)}, {"$inc": {"version": 1}})
            accounts.delete_one({"_id": chance.randrange(ROWS)})
            document = {"_id": chance.randrange(ROWS), "version": chance.randrange(1000), "filling": "new"}
            accounts.replace_one({"_id": document["_id"]}, document, upsert=True)

        def rows() -> dict[int, int]:
            return {account["_id"]: account["version"] for account in accounts.find()}

        yield Source("mongodb", "_id", {"hosts": server.hosts, "table": "play.account"}, change, rows)


@contextmanager
def kafka(_: str, folder: Path) -> Iterator[Source]:
    with launch.running("kafka", folder / "server", "num.partitions=3") as port:
        properties, now = {"bootstrap.servers": f"127.0.0.1:{port}"}, dict[int, int]()

        def send(changes: list[tuple[int, int | None]]) -> None:
            with producing(properties) as producer:
                for key, version in changes:
                    old = {"id": key, "version": now[key]} if key in now else None
                    new = {"id": key, "version": version} if version is not None else None
                    if old is None and new is None:
                        continue
                    kind = "c" if old is None else "d" if new is None else "u"
                    producer.produce("t", debezium(kind, old, new), partition=key % 3)
                    if version is None:
                        del now[key]
                    else:
                        now[key] = version

        def change(chance: random.Random) -> None:
            changes: list[tuple[int, int | None]] = [(chance.randrange(ROWS), chance.randrange(1000)) for _ in range(9)]
            send([*changes, (chance.randrange(ROWS), None)])

        send([(number, 0) for number in range(ROWS)])
        options = {
            "properties.bootstrap.servers": properties["bootstrap.servers"],
            "topic": "t",
            "value.format": "debezium-json",
            "startup.mode": "earliest-offset",
        }
        yield Source("kafka", "id", options, change, lambda: dict(now))


SOURCES = {"mysql": mysql, "mongodb": mongodb, "kafka": kafka}


@contextmanager
def changing(source: Source) -> Iterator[None]:
    """The source, with a thread that changes it until the block ends."""
    ended, chance = threading.Event(), random.Random(5)

    def run() -> None:
        while not ended.wait(0.2):
            source.change(chance)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@dataclass
class Query:
    source: Source
    spark: cluster.Cluster
    folder: Path

    def start(self) -> subprocess.Popen[bytes]:
        settings = dict(setting.split("=", 1) for setting in (*cluster.SETTINGS, *TWICE))
        options = {**self.source.options, "max-batch.rows": "600", "parallelism": "2"}
        words = [self.source.kind, json.dumps(options), self.spark.url, json.dumps(settings), str(self.folder)]
        command = [sys.executable, "-W", "ignore", "-m", "tests.chaos.stream_child", *words]
        log = (self.folder / "driver.log").open("ab")
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)

    def log(self) -> str:
        return (self.folder / "driver.log").read_text(errors="replace")[-8000:]

    def batches(self) -> list[Path]:
        return sorted((self.folder / "batches").glob("0*"))

    def wait_for_batches(self, driver: subprocess.Popen[bytes], more: int) -> None:
        """Until there are so many more batches, or the driver has ended."""
        wanted = len(self.batches()) + more
        until(lambda: len(self.batches()) >= wanted or driver.poll() is not None, self.log)

    def kill_executor(self, driver: subprocess.Popen[bytes]) -> None:
        while driver.poll() is None:
            process = busy_executor(self.spark)
            if process is not None:
                with suppress(ProcessLookupError):  # it has ended meanwhile
                    os.kill(process, signal.SIGKILL)
                    return
            time.sleep(0.02)

    def rows(self) -> list[dict[str, Any]]:
        """The changes of all batches in order, each batch as it was read last."""
        last: dict[str, list[dict[str, Any]]] = {}
        for path in self.batches():
            number, rows = path.name.partition("-")[0], json.loads(path.read_text())
            rows.sort(key=lambda row: list(row["_cdc_sequence"].values()))
            # A part of a table that is read again has the rows that it has by then. Records of a topic stay the same.
            assert self.source.kind != "kafka" or rows == last.get(number, rows), f"batch {number} has other rows now"
            last[number] = rows
        return [row for number in sorted(last) for row in last[number]]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.Cluster]:
    with cluster.running(tmp_path_factory.mktemp("spark") / "cluster") as found:
        yield found


@pytest.mark.parametrize("kind", SOURCES)
def test_streams_whose_drivers_and_executors_are_killed_have_each_change(
    kind: str, spark: cluster.Cluster, tmp_path: Path
) -> None:
    with SOURCES[kind](kind, tmp_path) as source:
        query = Query(source, spark, tmp_path)
        with changing(source):
            driver = query.start()
            try:
                query.wait_for_batches(driver, 1)
                query.kill_executor(driver)
                query.wait_for_batches(driver, 1)
                if driver.poll() is None:
                    kill_session(driver.pid)
            finally:
                end(driver)
        driver = query.start()
        try:
            assert driver.wait(400) == 0, query.log()
        finally:
            end(driver)
        rows, found = query.rows(), dict[int, int]()
        for row in rows:
            key = int(row[source.key])
            if row["rowkind"] in {"-D", "-U"}:
                # The rows of a topic come once and in order. A table is changed while it is read first.
                assert source.kind != "kafka" or found[key] == int(row["version"])
                found.pop(key, None)
            else:
                assert source.kind != "kafka" or key not in found
                found[key] = int(row["version"])
        assert found == source.rows(), query.log()
