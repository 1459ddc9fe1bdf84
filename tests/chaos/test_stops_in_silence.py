"""SIGTERM to runs whose server is there and says nothing more: at login, in plans and reads, and in waits."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.chaos.bank import ROOT
from tests.chaos.proxy import Proxy, proxied
from tests.integration.kafka.conftest import Broker as KafkaBroker
from tests.integration.mongodb.conftest import server_address
from tests.integration.mongodb.sync import MongoPlayground
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync as MySqlSync
from tests.integration.postgres.conftest import server_port
from tests.integration.postgres.sync import PgPlayground, PgSync
from tests.integration.pulsar.conftest import Broker as PulsarBroker
from tests.integration.pulsar.conftest import broker
from tests.integration.pulsar.sync import Sync as PulsarSync
from tests.servers import launch
from tests.waiting import until

__all__ = ["broker", "server_address", "server_port"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ROWS = 3000
FILLING = "x" * 100
# Of the bytes that a whole run receives.
PARTS = (0.0, 0.3, 0.8)
STOPS_S = 20  # on a busy machine; it takes about one


@dataclass
class Source:
    """A server behind a proxy. `words` are the command of a pipeline with the given number, and `change` adds a row."""

    proxy: Proxy
    words: Callable[[int], list[str]]
    change: Callable[[], object]


@contextmanager
def kafka(folder: Path, _: pytest.FixtureRequest) -> Iterator[Source]:
    port = launch.free_port()
    with proxied(port) as proxy:
        launch.start("kafka", folder / "server", port, f"advertised.listeners=PLAINTEXT://127.0.0.1:{proxy.port}")
        try:
            found = KafkaBroker(proxy.port, folder)
            topic = found.topic(2)
            found.send(topic, *(json.dumps({"id": number, "filling": FILLING}) for number in range(ROWS)))
            conf = {
                "topic": topic,
                "value.format": "json",
                "properties.bootstrap.servers": f"127.0.0.1:{proxy.port}",
                "scan.startup.mode": "earliest-offset",
            }
            words = [*conf_words("--kafka-conf", conf), "--table", "t"]
            yield Source(
                proxy,
                lambda number: ["kafka-sync-table", *target(folder, number), *words],
                lambda: None,
            )
        finally:
            launch.kill("kafka", folder / "server")


@contextmanager
def mysql(folder: Path, _: pytest.FixtureRequest) -> Iterator[Source]:
    with launch.running("mysql", folder / "server") as port, proxied(port) as proxy:
        server = Playground("mysql", port)
        server.start_over()
        rows = ", ".join(f"({number}, '{FILLING}')" for number in range(ROWS))
        server.run("CREATE TABLE t (id INT PRIMARY KEY, filling VARCHAR(200))", f"INSERT INTO t VALUES {rows}")

        def words(number: int) -> list[str]:
            sync = MySqlSync(server, folder / f"run-{number}", conf=[f"port={proxy.port}"])
            return [sync.command, *sync.words]

        yield Source(proxy, words, lambda: server.run("UPDATE t SET filling = 'y' WHERE id = 1"))


@contextmanager
def postgres(folder: Path, request: pytest.FixtureRequest) -> Iterator[Source]:
    server = PgPlayground(request.getfixturevalue("server_port"))
    server.start_over()
    server.create("t", "id int PRIMARY KEY, filling text")
    server.run(f"INSERT INTO t SELECT n, '{FILLING}' FROM generate_series(1, {ROWS}) n")
    with proxied(server.port) as proxy:

        def words(number: int) -> list[str]:
            conf = [f"port={proxy.port}", f"slot.name=stopped_{number}"]
            sync = PgSync(server, folder / f"run-{number}", conf=conf)
            return [sync.command, *sync.words]

        yield Source(proxy, words, lambda: server.run("UPDATE t SET filling = 'y' WHERE id = 1"))
        end = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active"
        until(lambda: not server.run(end), "the ends of the sessions that hold slots")
        server.start_over()


@contextmanager
def mongodb(folder: Path, request: pytest.FixtureRequest) -> Iterator[Source]:
    address = request.getfixturevalue("server_address")
    with MongoPlayground.at(address) as server, proxied(urlsplit(address).port or 0) as proxy:
        server.start_over()
        server.db["t"].insert_many([{"_id": number, "filling": FILLING} for number in range(ROWS)])
        conf = {
            "hosts": f"127.0.0.1:{proxy.port}",
            "database": server.db.name,
            "connection.options": "directConnection=true",
        }
        words = conf_words("--mongodb-conf", conf)
        change = lambda: server.db["t"].update_one({"_id": 1}, {"$set": {"filling": "y"}})  # noqa: E731
        yield Source(proxy, lambda number: ["mongodb-sync-database", *target(folder, number), *words], change)


@contextmanager
def pulsar(folder: Path, request: pytest.FixtureRequest) -> Iterator[Source]:
    found: PulsarBroker = request.getfixturevalue("broker")
    topic = found.topic()
    with found.client() as client:
        producer = client.create_producer(topic, batching_enabled=True, batching_max_messages=50)
        for number in range(ROWS):
            producer.send_async(json.dumps({"id": number, "filling": FILLING}).encode(), lambda *_: None)
        producer.flush()
    with proxied(found.port) as proxy:
        proxy.replaced = {b"127.0.0.1:%d" % found.port: b"127.0.0.1:%d" % proxy.port}

        def words(number: int) -> list[str]:
            url, name = f"pulsar://127.0.0.1:{proxy.port}", f"stopped-{number}"
            more = {"pulsar__client__serviceUrl": url, "pulsar__consumer__subscriptionName": name}
            sync = PulsarSync(found, folder / f"run-{number}", "json")
            return ["pulsar-sync-table", *sync.flags(topic, "--table", "t", **more)]

        yield Source(proxy, words, lambda: found.send(topic, json.dumps({"id": 1, "filling": "y"})))


def conf_words(flag: str, conf: dict[str, str]) -> list[str]:
    return [word for key, value in conf.items() for word in (flag, f"{key}={value}")]


def target(folder: Path, number: int) -> tuple[str, ...]:
    return "--warehouse", f"{folder}/run-{number}/warehouse", "--database", "ods", "--until-caught-up"


SOURCES = [
    pytest.param(kafka, marks=pytest.mark.kafka, id="kafka"),
    pytest.param(mysql, marks=pytest.mark.mysql, id="mysql"),
    pytest.param(postgres, marks=pytest.mark.postgres, id="postgres"),
    pytest.param(mongodb, marks=pytest.mark.mongodb, id="mongodb"),
    pytest.param(pulsar, marks=pytest.mark.pulsar, id="pulsar"),
]


@dataclass
class Driver:
    """A process of a pipeline with tables of its own."""

    process: subprocess.Popen[bytes]
    log: Path

    def until(self, true: Callable[[], object], what: str) -> None:
        def is_so() -> object:
            assert self.process.poll() is None, self.log.read_text()
            return true()

        until(is_so, lambda: f"{what}: {self.log.read_text()}")

    @property
    def work(self) -> int:
        """The ticks of the processor's time that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def until_it_waits(self) -> None:
        """Wait until it has nothing to do but to wait."""
        seen = [-9] * 40  # at the pace of `until`, nearly a second

        def waits() -> bool:
            seen.append(self.work)
            return seen[-1] - seen.pop(0) <= 1

        self.until(waits, "the process to wait")

    def stop(self) -> None:
        self.process.terminate()
        try:
            assert self.process.wait(STOPS_S) == 0, self.log.read_text()
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # its threads say where they are
            self.process.wait()
            pytest.fail(f"did not end within {STOPS_S} s: {self.log.read_text()}")
        assert "Traceback" not in self.log.read_text()


@contextmanager
def driver(source: Source, folder: Path, number: int, *, ends: bool = False) -> Iterator[Driver]:
    log = folder / f"driver-{number}.log"
    words = source.words(number)
    if not ends:
        words = [*(word for word in words if word != "--until-caught-up"), "--trigger", "continuous"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-W", "ignore", "-m", "penstock", *words],
            cwd=ROOT,
            stdout=out,
            stderr=out,
        )
    try:
        yield Driver(process, log)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("kind", SOURCES)
def test_a_run_whose_server_falls_silent_ends_soon_after_a_stop(
    kind: Callable[..., AbstractContextManager[Source]], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with kind(tmp_path, request) as source:
        proxy = source.proxy
        proxy.carried = 0
        with driver(source, tmp_path, 0, ends=True) as whole:
            assert whole.process.wait(240) == 0, whole.log.read_text()
        size = proxy.carried
        for number, part in enumerate(PARTS, 1):
            proxy.carried, proxy.swallowed, proxy.most = 0, 0, int(part * size)
            with driver(source, tmp_path, number) as stopped:
                stopped.until(lambda: proxy.swallowed, "the silence")
                stopped.until_it_waits()
                stopped.stop()
        proxy.most = None
        with driver(source, tmp_path, len(PARTS) + 1) as following:
            following.until(lambda: "event=committed" in following.log.read_text(), "a commit")
            proxy.swallowed, proxy.most = 0, 0
            source.change()
            following.until(lambda: proxy.swallowed, "the silence")
            following.until_it_waits()
            following.stop()
