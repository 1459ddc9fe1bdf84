from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.servers import launch
from tests.servers.produce import producing
from tests.waiting import until

_numbers = itertools.count()
_OPTIONS = ("log.cleaner.backoff.ms=100",)  # topics that are compacted are compacted soon


@dataclass
class Broker:
    port: int
    folder: Path

    @property
    def properties(self) -> dict[str, str]:
        return {"bootstrap.servers": f"127.0.0.1:{self.port}"}

    @cached_property
    def admin(self) -> AdminClient:
        # Kept: a client that is collected takes its open answers with it.
        return AdminClient({"log_level": 0, **self.properties})

    def drop_before(self, topic: str, offset: int) -> None:
        place = TopicPartition(topic, 0, offset)
        self.admin.delete_records([place])[place].result()

    def add_partition(self, topic: str, total: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, total)])[topic].result()

    def topic(self, partitions: int = 1, name: str | None = None, **config: str) -> str:
        name = name or f"t{next(_numbers)}"
        self.admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result()
        return name

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result()

    def renew(self, topic: str, partitions: int = 1, **config: str) -> None:
        """Delete the topic and make it again."""
        self.delete(topic)
        until(lambda: topic not in self.admin.list_topics(timeout=60).topics, f"the end of topic {topic}")
        self.topic(partitions, topic, **config)

    def send(self, topic: str, *values: bytes | str | None, partition: int = 0, **more: Any) -> None:
        with producing(self.properties) as producer:
            for value in values:
                producer.produce(topic, value, partition=partition, **more)

    def stop(self) -> None:
        launch.stop("kafka", self.folder)

    def start(self) -> None:
        launch.start("kafka", self.folder, self.port, *_OPTIONS)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("kafka")
    with launch.running("kafka", folder, *_OPTIONS) as port:
        yield Broker(port, folder)
