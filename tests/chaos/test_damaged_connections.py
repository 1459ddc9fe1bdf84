"""Pipelines whose connections arrive with changed bits: what has a checksum or TLS is right, or an error by name."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import PenstockError, SourceError
from tests.chaos.proxy import Proxy, proxied
from tests.chaos.test_pulsar_troubles import through
from tests.here import run
from tests.integration.kafka.conftest import Broker as KafkaBroker
from tests.integration.kafka.sync import Sync as KafkaSync
from tests.integration.kafka.test_silence import behind_a_proxy
from tests.integration.mongodb.test_security import Guarded, guarded
from tests.integration.mysql.conftest import mariadb, mariadb_11_8, mysql, server
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync as MySqlSync
from tests.integration.postgres.conftest import server as postgres
from tests.integration.postgres.conftest import server_port
from tests.integration.postgres.sync import PgPlayground, PgSync
from tests.integration.postgres.test_connection import encrypting
from tests.integration.pulsar.conftest import Broker as PulsarBroker
from tests.integration.pulsar.conftest import broker as pulsar
from tests.integration.pulsar.sync import Sync as PulsarSync
from tests.waiting import repeated

__all__ = ["guarded", "mariadb", "mariadb_11_8", "mysql", "postgres", "pulsar", "server", "server_port"]

pytestmark = [pytest.mark.slow]
ROWS = 2000
# One changed bit in so many bytes from the server: some connections have none. Data without a checksum, such as the
# list of topics, is small, and comes first.
DAMAGE, SPARED = (0, 60_000), 3000
STUCK_S = 5.0


def text_of(number: int) -> str:
    return f"{number * 7919 % 100_003:06d} of {number} and more text"


def values(first: int = 0, count: int = ROWS) -> list[str]:
    return [json.dumps({"id": number, "v": text_of(number)}) for number in range(first, first + count)]


def check_rows(sync: KafkaSync | PulsarSync, count: int = ROWS) -> None:
    found = {int(row["id"]): row["v"] for row in sync.rows("t")}
    assert found == {number: text_of(number) for number in range(count)}
    assert len(sync.rows("t")) == count


def attempt(proxy: Proxy, sync: KafkaSync | PulsarSync, topic: str, **conf: str) -> None:
    """Run once on a damaged connection. An error that a retry cannot mend fails the test."""
    proxy.damage = DAMAGE
    try:
        run(sync.spec(topic, "--table", "t", "--max-batch-rows", "300", **conf))
    except PenstockError as error:
        if not error.retryable:
            raise
    finally:
        proxy.damage = (0, 0)


@contextmanager
def ended_if_stuck(proxy: Proxy) -> Iterator[None]:
    """End connections that wait for missing bytes after a changed length; by themselves they end after minutes."""
    cutting = threading.Timer(STUCK_S, proxy.cut_open)
    cutting.start()
    try:
        yield
    finally:
        cutting.cancel()
        cutting.join()


@pytest.mark.kafka
def test_a_record_of_kafka_that_was_changed_on_its_way_is_an_error(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    with behind_a_proxy(tmp_path_factory) as (broker, proxy):
        topic, sync = broker.topic(), KafkaSync(broker, tmp_path, "json")
        broker.send(topic, *values())
        proxy.replaced = {text_of(777).encode(): text_of(778).encode()}
        with pytest.raises(SourceError, match="failed CRC32C check") as caught:
            run(sync.spec(topic, "--table", "t"))
        assert caught.value.retryable
        proxy.replaced = {}
        run(sync.spec(topic, "--table", "t"))
        check_rows(sync)


@pytest.mark.kafka
def test_records_of_kafka_on_a_damaged_network_are_right(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    with behind_a_proxy(tmp_path_factory) as (broker, proxy):
        topic, sync = broker.topic(), KafkaSync(broker, tmp_path, "json")
        for first in range(0, ROWS, 100):  # batches, each with its checksum
            KafkaBroker(broker.port, broker.folder).send(topic, *values(first, 100))
        proxy.spared = SPARED
        for _ in repeated(5, lambda: proxy.damaged > 5, "changed bits"):
            attempt(proxy, sync, topic)
        run(sync.spec(topic, "--table", "t"))
        check_rows(sync)


@pytest.mark.pulsar
def test_a_message_of_pulsar_that_was_changed_on_its_way_is_not_left_out(pulsar: PulsarBroker, tmp_path: Path) -> None:
    topic = pulsar.topic()
    with through(pulsar, tmp_path) as (proxy, sync):
        pulsar.send(topic, *values(0, 150), batched=True)
        pulsar.send(topic, *values(150, 50))
        for number in (77, 160, 199):  # in a batch of the producer, alone, and the last one
            proxy.replaced |= {text_of(number).encode(): text_of(number + 1).encode()}
            with pytest.raises(SourceError, match="arrived damaged") as caught:
                run(sync.spec(topic, "--table", "t"))
            assert caught.value.retryable
            del proxy.replaced[text_of(number).encode()]
        run(sync.spec(topic, "--table", "t"))
        check_rows(sync, 200)


@pytest.mark.pulsar
def test_messages_of_pulsar_on_a_damaged_network_are_right(pulsar: PulsarBroker, tmp_path: Path) -> None:
    topic = pulsar.topic()
    for first in range(0, ROWS, 100):
        pulsar.send(topic, *values(first, 100), batched=first % 200 == 0)
    with through(pulsar, tmp_path) as (proxy, sync):
        proxy.spared = SPARED
        for _ in repeated(5, lambda: proxy.damaged > 5, "changed bits"):
            attempt(proxy, sync, topic, pulsar__client__operationTimeoutMs="5000")
            proxy.cut_open()  # a client notices a changed length only after a minute
    sync = PulsarSync(pulsar, tmp_path, "json")
    run(sync.spec(topic, "--table", "t"))
    check_rows(sync)


def test_rows_of_a_binlog_on_a_damaged_network_are_right(server: Playground, tmp_path: Path) -> None:
    """Events have checksums. Answers to queries have none, and a damaged one is an error by name."""
    server.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100))")
    direct = MySqlSync(server, tmp_path, "t", conf=["table-name=t"], flags=["--max-batch-rows", "500"])
    direct.run()
    for first in range(0, ROWS, 50):
        rows = ", ".join(f"({number}, '{text_of(number)}')" for number in range(first, first + 50))
        server.run(f"INSERT INTO t VALUES {rows}")
    with proxied(server.port) as proxy:
        sync = MySqlSync(server, tmp_path, "t", conf=[*direct.conf, f"port={proxy.port}"], flags=direct.flags)
        proxy.damage = DAMAGE
        for _ in repeated(6, lambda: proxy.damaged > 8, "changed bits"):
            with suppress(PenstockError), ended_if_stuck(proxy):
                sync.run()
    direct.run()
    assert {row["id"]: row["v"] for row in direct.rows()} == {number: text_of(number) for number in range(ROWS)}


@pytest.mark.postgres
def test_rows_of_postgres_on_a_damaged_network_are_right_with_tls(postgres: PgPlayground, tmp_path: Path) -> None:
    postgres.create("t", "id int PRIMARY KEY, v text")
    with encrypting(postgres), proxied(postgres.port) as proxy:
        conf = ["table-name=t", "debezium.database.sslmode=require"]
        sync = PgSync(postgres, tmp_path, "t", [*conf, f"port={proxy.port}"], ["--max-batch-rows", "500"])
        proxy.damage = (200_000, 60_000)
        for turn in repeated(6, lambda: proxy.damaged > 8, "changed bits"):
            rows = ", ".join(f"({number}, '{text_of(number)}')" for number in range(turn * 500, turn * 500 + 500))
            postgres.run(f"INSERT INTO t VALUES {rows}")
            with suppress(PenstockError), ended_if_stuck(proxy):
                sync.run()
        proxy.damage = (0, 0)
        sync.run()
    found = {row["id"]: row["v"] for row in sync.rows("t").values()}
    assert found == {number: text_of(number) for number in range(500 * (turn + 1))}


@pytest.mark.mongodb
def test_documents_on_a_damaged_network_are_right_with_tls(guarded: Guarded, tmp_path: Path) -> None:
    with proxied(guarded.port) as proxy:
        through = replace(guarded, port=proxy.port)
        sync = through.sync(tmp_path)
        proxy.damage = (100_000, 4000)
        for _ in repeated(6, lambda: proxy.damaged > 8, "changed bits"):
            with suppress(PenstockError), ended_if_stuck(proxy):
                sync.run()
        proxy.damage = (0, 0)
        sync.run()
    assert {int(key): row["v"] for key, row in sync.rows().items()} == {number: f"v{number}" for number in range(3)}
