"""Questions to a cluster whose connections stay open and carry nothing: as after a device in between forgot them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from penstock.errors import ConfigError
from penstock.ingest.kafka import cluster as kafka_cluster
from penstock.ingest.kafka.settings import KafkaSettings, StartOffsets
from penstock.ingest.kafka.source import KafkaSource
from penstock.ingest.source import NO_LIMIT, Offsets
from tests.chaos.proxy import Proxy, proxied
from tests.integration.kafka.conftest import Broker
from tests.integration.kafka.test_kafka_source import settled_end
from tests.servers import launch
from tests.waiting import at_most, until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@contextlib.contextmanager
def behind_a_proxy(folder_of: pytest.TempPathFactory) -> Iterator[tuple[Broker, Proxy]]:
    folder, port = folder_of.mktemp("hushed"), launch.free_port()
    with proxied(port) as proxy:
        launch.start("kafka", folder, port, f"advertised.listeners=PLAINTEXT://127.0.0.1:{proxy.port}")
        try:
            yield Broker(proxy.port, folder), proxy
        finally:
            launch.stop("kafka", folder)


def until_committed(source: KafkaSource, end: Offsets, is_there: Callable[[], object]) -> None:
    """A broker that makes its first group is slow to answer, and a mirror is asked for once only."""

    def are_committed() -> object:
        source.mirror(end)
        with contextlib.suppress(ConfigError):
            return is_there()
        return False

    until(are_committed, "the committed offsets")


def test_every_request_survives_a_silent_connection(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with behind_a_proxy(tmp_path_factory) as (broker, proxy):
        topic = broker.topic(partitions=2, name="silent-1")
        broker.send(topic, "1", "2")
        properties = broker.properties | {"group.id": "silent", "socket.timeout.ms": "3000"}
        source = KafkaSource(KafkaSettings(properties, pattern="silent-.*", startup=StartOffsets("earliest-offset")))
        reached: Offsets = {"silent-1": {"0": 2, "1": 0}}
        end = settled_end(source, reached)
        by_group = KafkaSource(KafkaSettings(properties, (topic,)))
        by_time = KafkaSource(KafkaSettings(properties, (topic,), startup=StartOffsets("timestamp", millis=1)))
        questions: dict[str, Callable[[], object]] = {
            "metadata and ends": lambda: source.latest_offsets(end, NO_LIMIT)["offsets"] == reached,
            "lag": lambda: source.lag(end) == {"silent-1/0": 0, "silent-1/1": 0},
            "group offsets": lambda: by_group.latest_offsets({}, NO_LIMIT)["began"] == reached,
            "offsets at a time": lambda: by_time.latest_offsets({}, NO_LIMIT)["offsets"] == reached,
        }
        until_committed(source, end, questions["group offsets"])
        for question in questions.values():
            assert question()  # all have their connections
        for name in ("REQUEST_SECONDS", "FIRST_SECONDS"):
            monkeypatch.setattr(kafka_cluster, name, 3.0)
        for name, question in questions.items():
            proxy.hush()
            with at_most(60):
                assert question(), name
