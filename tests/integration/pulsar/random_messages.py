"""Topics of a random play: which messages were sent, and which of them may be gone."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.error import HTTPError

from penstock.ingest.pulsar.errors import patiently
from tests.integration.pulsar.conftest import Broker
from tests.shop import insert

TABLES = ("orders", "users")
LETTERS = "__penstock_dead_letters"
Place = tuple[str, int]
_AUTO_CREATION = "namespaces/public/default/autoTopicCreation"


@dataclass(slots=True)
class Sent:
    """A message: `table` is the one that must have it. `may_be_lost`: it was deleted, perhaps before it was read."""

    number: int
    place: Place
    table: str
    is_settled: bool = False
    may_be_lost: bool = False


@dataclass
class RandomMessages:
    """Random messages in topics of a broker.

    `known`: partitions from which a run has read all. `cut`: those of them whose last message that was read is gone,
    perhaps. `renewed`: partitions that were created again, and whose subscription is gone.
    """

    broker: Broker
    draw: random.Random
    prefix: str
    subscription: str
    history: list[str]
    partitions: dict[str, int] = field(default_factory=dict)  # 0: a topic without partitions
    messages: dict[int, Sent] = field(default_factory=dict)
    known: set[Place] = field(default_factory=set)
    cut: set[Place] = field(default_factory=set)
    renewed: set[Place] = field(default_factory=set)

    @property
    def places(self) -> list[Place]:
        return [(topic, part) for topic, count in self.partitions.items() for part in (range(count) if count else [-1])]

    def add_topic(self) -> None:
        count = self.draw.choice((0, 1, 2, 3))
        name = f"{self.prefix}-{len(self.partitions)}"
        self.partitions[name] = count
        self.history.append(f"topic {name} with {count} partitions")
        self.broker.topic(count, name)

    def add_partition(self) -> None:
        topic = self.draw.choice(list(self.partitions))
        if 0 < self.partitions[topic] < 5:
            self.partitions[topic] += 1
            self.history.append(f"topic {topic} gets a partition")
            self.broker.admin("POST", f"persistent/public/default/{topic}/partitions", self.partitions[topic])

    def send(self, times: int) -> None:
        for _ in range(times):
            topic, part = place = self.draw.choice(self.places)
            made, size = list[str](), self.draw.choice((1, 1, 2, 5))
            for _ in range(size):
                number = len(self.messages) + 1
                is_bad = self.draw.random() < 0.1
                table = LETTERS if is_bad else self.draw.choice(TABLES)
                self.messages[number] = Sent(number, place, table)
                # Longer than an entry may be: such messages are sent in chunks.
                filler = " " * self.draw.choice((0, 0, 0, 0, 0, 0, 45_000))
                made.append(f"broken {number}" if is_bad else insert(table, {"id": number}) + filler)
            batched = self.draw.random() < 0.5 and sum(map(len, made)) < 15_000
            self.history.append(f"  {place} {len(self.messages) - size + 1} to {len(self.messages)} batched={batched}")
            name = topic if part < 0 else f"{topic}-partition-{part}"
            more = {} if batched else {"chunking": True}
            self.broker.send(name, *made, batched=batched, **more)

    def _paths(self, topic: str) -> Iterator[tuple[Place, str]]:
        for place in self.places:
            if place[0] == topic:
                yield place, f"persistent/public/default/{topic}" + (f"-partition-{place[1]}" if place[1] >= 0 else "")

    def drop_read(self) -> None:
        """Let the broker delete what is acknowledged, which begins new ledgers."""
        topic = self.draw.choice(list(self.partitions))
        self.history.append(f"topic {topic} loses what is acknowledged")
        for _, path in self._paths(topic):
            for _ in range(2):
                self.broker.admin("PUT", f"{path}/unload")

    def skip(self) -> None:
        """Acknowledge all messages of a topic, as a TTL does, and let the broker delete them."""
        topic = self.draw.choice(list(self.partitions))
        self.history.append(f"topic {topic} loses all")
        for place, path in self._paths(topic):
            try:
                self.broker.admin("POST", f"{path}/subscription/{self.subscription}/skip_all")
            except HTTPError as error:
                if error.code != 404:
                    raise
                continue  # the pipeline has not seen the partition yet
            self._lose(place)
            for _ in range(2):
                self.broker.admin("PUT", f"{path}/unload")

    def renew(self) -> None:
        topic = self.draw.choice(list(self.partitions))
        count = self.partitions[topic]
        self.history.append(f"topic {topic} deleted and created")
        for place, _ in self._paths(topic):
            self._lose(place)
            self.renewed.add(place)
        path = f"persistent/public/default/{topic}" + ("/partitions" if count else "")
        # Consumers of runs that were killed connect again at once, as no real run does, which would create the topic.
        self.broker.admin("POST", _AUTO_CREATION, {"allowAutoTopicCreation": False})
        self.broker.admin("DELETE", f"{path}?force=true")
        for _ in range(50):
            try:
                self.broker.topic(count, topic)
                break
            except HTTPError as error:
                if error.code != 409:
                    raise
                time.sleep(0.1)  # the topic is not gone yet
        else:
            raise AssertionError("the topic could not be created again")
        self.broker.admin("DELETE", _AUTO_CREATION)
        self._wait_for(topic)

    def _wait_for(self, topic: str) -> None:
        """Wait until brokers accept messages for a topic: one that was just deleted is unavailable for a while."""
        with self.broker.client() as client:
            for _, path in self._paths(topic):
                name = path.rpartition("/")[2]
                patiently(lambda name=name: client.create_producer(name), self.broker.url).close()  # type: ignore[misc]

    def _lose(self, place: Place) -> None:
        for message in self.messages.values():
            if message.place == place and not message.is_settled:
                message.may_be_lost = True
        if place in self.known:
            self.cut.add(place)
