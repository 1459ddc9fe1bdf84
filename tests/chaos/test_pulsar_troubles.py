"""Pulsar pipelines whose connections are cut, slow, in pieces, or silent, into tables without keys."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.ingest.pulsar.cluster import PulsarCluster
from penstock.ingest.pulsar.settings import PulsarSettings
from tests.chaos.proxy import Proxy, proxied
from tests.here import run
from tests.integration.pulsar.conftest import Broker, broker
from tests.integration.pulsar.sync import Sync
from tests.waiting import ended, repeated, until

__all__ = ["broker"]

pytestmark = [pytest.mark.pulsar, pytest.mark.slow]
TABLE = ("--table", "t", "--max-batch-rows", "300")


@dataclass
class Through(Broker):
    """The broker by a proxy, also when it names its address."""

    through: int = 0

    @property
    def url(self) -> str:
        return f"pulsar://127.0.0.1:{self.through}"


@dataclass
class Stream:
    """Messages of both kinds, alone and in batches of the producer, sent while `busy` runs: at most `most` in all.

    Without a limit the slow reader of a busy machine gets more to read the longer it needs.
    """

    broker: Broker
    topic: str = ""
    sent: int = 0
    most: int = 3000
    dice: random.Random = field(default_factory=lambda: random.Random(2))

    def __post_init__(self) -> None:
        self.topic = self.broker.topic(partitions=2)

    def send(self, count: int) -> None:
        # A batch of the producer is one message of the broker, which has a limit.
        for first in range(self.sent, self.sent + count, 50):
            numbers = range(first, min(first + 50, self.sent + count))
            values = [json.dumps({"id": number, "filling": "x" * self.dice.choice([5, 200])}) for number in numbers]
            self.broker.send(self.topic, *values, batched=self.dice.random() < 0.7)
        self.sent += count

    @contextmanager
    def busy(self) -> Iterator[None]:
        over, begun = threading.Event(), threading.Event()

        def write() -> None:
            while self.sent < self.most and not over.wait(0.1):
                self.send(self.dice.randint(1, 200))
                begun.set()

        thread = threading.Thread(target=write)
        thread.start()
        try:
            until(begun.is_set, "the first messages")
            yield
        finally:
            over.set()
            ended(thread)

    def check_whole(self, folder: Path) -> None:
        sync = Sync(self.broker, folder, "json")
        run(sync.spec(self.topic, *TABLE))
        assert sync.ids("t") == list(range(self.sent))


@contextmanager
def through(broker: Broker, folder: Path) -> Iterator[tuple[Proxy, Sync]]:
    with proxied(broker.port) as proxy:
        proxy.replaced = {b"127.0.0.1:%d" % broker.port: b"127.0.0.1:%d" % proxy.port}
        yield proxy, Sync(Through(broker.port, broker.folder, proxy.port), folder, "json")


def attempt(sync: Sync, topic: str) -> None:
    """Run once. An error that a retry cannot mend fails the test."""
    try:
        run(sync.spec(topic, *TABLE, pulsar__client__operationTimeoutMs="5000"))
    except PenstockError as error:
        if not error.retryable:
            raise


def test_connections_that_are_cut_anywhere_lose_and_repeat_nothing(broker: Broker, tmp_path: Path) -> None:
    stream = Stream(broker)
    stream.send(500)
    with through(broker, tmp_path) as (proxy, sync), stream.busy():
        for _ in repeated(8, lambda: proxy.cut > 5, "connections that were cut"):
            proxy.cuts = [
                stream.dice.choice([0, 50, 900, 3000, 9000, 30_000]) for _ in range(stream.dice.randint(2, 6))
            ]
            proxy.cut_open()
            attempt(sync, stream.topic)
    stream.check_whole(tmp_path)


@pytest.mark.parametrize(("piece", "delay"), [(1, 0.0), (0, 0.004)], ids=["one byte", "late"])
def test_pieces_and_delays_change_nothing(broker: Broker, tmp_path: Path, piece: int, delay: float) -> None:
    stream = Stream(broker, most=1200)
    stream.send(300)
    with through(broker, tmp_path) as (proxy, sync):
        proxy.piece, proxy.delay = piece, delay
        with stream.busy():
            attempt(sync, stream.topic)
            attempt(sync, stream.topic)
    stream.check_whole(tmp_path)


def test_a_lost_answer_is_not_that_of_an_empty_partition(broker: Broker, tmp_path: Path) -> None:
    """It came as the id of no message: the partition had lost its messages then, or was read from its beginning."""
    stream = Stream(broker)
    stream.send(500)
    with through(broker, tmp_path) as (proxy, _):
        properties = {"pulsar.client.serviceUrl": f"pulsar://127.0.0.1:{proxy.port}"}
        settings = PulsarSettings({**properties, "pulsar.consumer.subscriptionName": "asked"}, (stream.topic,))
        cluster = PulsarCluster(settings)
        first, second = cluster.partitions()
        expected = {first: cluster.last(first), second: cluster.last(second)}
        assert all(position.is_message for position in expected.values())
        for _ in range(30):
            cutting = threading.Timer(stream.dice.uniform(0, 0.004), proxy.cut_open)
            cutting.start()
            assert {place: cluster.last(place) for place in expected} == expected
            assert cluster.has_messages(first)
            cutting.join()
        cluster.close()


def test_a_connection_that_falls_silent_loses_and_repeats_nothing(broker: Broker, tmp_path: Path) -> None:
    stream = Stream(broker)
    stream.send(500)
    with through(broker, tmp_path) as (proxy, sync):
        attempt(sync, stream.topic)
        stream.send(500)
        proxy.hush()
        attempt(sync, stream.topic)
    stream.check_whole(tmp_path)
