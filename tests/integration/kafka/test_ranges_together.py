"""Small ranges of several partitions are fetched at once, and have the same records as ranges that are read alone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from penstock.errors import PositionLost, SourceError
from penstock.ingest.kafka import range_progress, read_together
from penstock.ingest.kafka import source as kafka_source
from penstock.ingest.kafka.cluster import KafkaCluster
from penstock.ingest.kafka.range_progress import RangeProgress
from penstock.ingest.kafka.read import read_range
from penstock.ingest.kafka.read_together import fetch_together
from penstock.ingest.kafka.settings import KafkaSettings
from penstock.ingest.kafka.source import KafkaSource
from penstock.ingest.source import Range
from tests.chaos.proxy import proxied
from tests.integration.kafka.conftest import Broker
from tests.servers import launch
from tests.servers.produce import SECONDS, producing, taken
from tests.waiting import until

pytestmark = pytest.mark.kafka


def alone(broker: Broker, range_: Range, patience: float = 60) -> list[tuple[int, bytes | None]]:
    fetches = read_range(broker.properties, range_, patience=patience)
    return [
        row for fetch in fetches for row in zip(fetch.messages.offsets.tolist(), fetch.messages.values, strict=True)
    ]


def in_turn(kafka: KafkaSource, ranges: Sequence[Range]) -> Iterator[list[tuple[int, bytes | None]]]:
    kafka.read_next(ranges)
    for range_ in ranges:
        fetches = list(kafka.read(range_))
        assert all(f"{fetch.topic}/{fetch.partition}" == range_.place for fetch in fetches)
        yield [
            row for fetch in fetches for row in zip(fetch.messages.offsets.tolist(), fetch.messages.values, strict=True)
        ]


def ranges_of(spans: Sequence[tuple[str, int, int]]) -> list[Range]:
    return [Range(number, place, start, end, end - start) for number, (place, start, end) in enumerate(spans)]


def refused(*_: object, **__: object) -> None:
    raise AssertionError("a range was read alone")


def opened(broker: Broker, *topics: str) -> KafkaSource:
    return KafkaSource(KafkaSettings(broker.properties, topics))


def test_few_records_of_many_partitions_are_fetched_at_once(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = broker.topic(partitions=40)
    with producing(broker.properties) as producer:
        for number in range(80):
            producer.produce(topic, str(number), partition=number % 40)
    monkeypatch.setattr(kafka_source, "read_range", refused)
    ranges = ranges_of([(f"{topic}/{partition}", 0, 2) for partition in range(40)])
    found = list(in_turn(opened(broker, topic), ranges))
    assert found == [[(0, b"%d" % part), (1, b"%d" % (part + 40))] for part in range(40)]


@pytest.mark.parametrize("seed", range(6))
def test_ranges_have_the_records_that_they_have_alone(
    seed: int, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With large and small records, aborted transactions, several ranges of a partition, and records beyond the end."""
    draw = random.Random(seed)
    topics = [broker.topic(partitions=draw.randint(1, 8)) for _ in range(3)]
    places = [(topic, part) for topic in topics for part in broker.admin.list_topics(topic).topics[topic].partitions]
    producer = Producer(broker.properties | {"transactional.id": topics[0], "log_level": 0})
    producer.init_transactions(SECONDS)
    for number in range(30):
        producer.begin_transaction()
        for _ in range(draw.randint(1, 20)):
            topic, partition = draw.choice(places)
            producer.produce(topic, b"%d " % number + b"x" * draw.choice([0, 10, 20_000]), partition=partition)
        taken(producer)
        producer.abort_transaction(SECONDS) if draw.random() < 0.3 else producer.commit_transaction(SECONDS)
    ends = settled_ends(broker, places)
    spans = []
    for (topic, partition), end in ends.items():
        cuts = sorted({0, end, *(draw.randint(0, end) for _ in range(draw.randint(0, 2)))})
        used = cuts[: draw.randint(2, len(cuts))] if len(cuts) > 1 else cuts
        spans += [(f"{topic}/{partition}", before, after) for before, after in pairwise(used)]
    draw.shuffle(spans)
    if draw.random() < 0.5:
        monkeypatch.setattr(read_together, "MOST_RECORDS", draw.randint(1, 50))
    ranges = ranges_of(spans)
    assert ranges
    assert list(in_turn(opened(broker, *topics), ranges)) == [alone(broker, range_) for range_ in ranges]


def settled_ends(broker: Broker, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Wait until all transactions have ended, and return the ends: the broker writes them after its reply.

    Until then, readers of committed records do not come as far as others.
    """
    levels = ("read_committed", "read_uncommitted")
    stable, all_ = (KafkaCluster({**broker.properties, "isolation.level": level}) for level in levels)
    until(lambda: stable.latest(places) == all_.latest(places), "the ends of all transactions")
    return all_.latest(places)


def test_a_range_whose_records_were_deleted_raises_its_own_error(broker: Broker) -> None:
    topics = [broker.topic() for _ in range(3)]
    for topic in topics:
        broker.send(topic, "1", "2")
    broker.drop_before(topics[1], 1)
    ranges = ranges_of([(f"{topic}/0", 0, 2) for topic in topics])
    kafka = opened(broker, *topics)
    kafka.read_next(ranges)
    assert [len(range.messages) for range in kafka.read(ranges[0])] == [2]
    with pytest.raises(PositionLost, match=topics[1]):
        list(kafka.read(ranges[1]))
    assert [len(range.messages) for range in kafka.read(ranges[2])] == [2]


def test_the_wait_for_a_range_without_its_records_is_limited(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = [broker.topic() for _ in range(2)]
    for topic in topics:
        broker.send(topic, "1")
    ranges = ranges_of([(f"{topics[0]}/0", 0, 1), (f"{topics[1]}/0", 0, 5)])
    records, known, looks = RangeProgress.records, set[str](), count(1)

    def noted(progress: RangeProgress, *given: Any) -> Sequence[Message]:
        found = records(progress, *given)
        if progress.done(len(found)) or progress._reached >= 0:
            known.add(progress.topic)
        return found

    # Each look at the clock is too late, once the broker has answered for both.
    clock = SimpleNamespace(monotonic=lambda: 3.0 * next(looks) if known == set(topics) else 0.0)
    monkeypatch.setattr(RangeProgress, "records", noted)
    monkeypatch.setattr(range_progress, "time", clock)
    with pytest.raises(PositionLost, match=topics[1]):
        fetch_together(broker.properties, ranges, patience=2)


def test_a_broker_that_is_away_is_an_error_to_retry(tmp_path_factory: pytest.TempPathFactory) -> None:
    properties = {"bootstrap.servers": f"127.0.0.1:{launch.free_port()}"}
    with pytest.raises(SourceError) as error:
        fetch_together(properties, ranges_of([("a/0", 0, 1), ("b/0", 0, 1)]), patience=1)
    assert error.value.retryable


@pytest.mark.slow
def test_a_silent_connection_is_replaced(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, port = tmp_path_factory.mktemp("hushed"), launch.free_port()
    with proxied(port) as proxy:
        launch.start("kafka", folder, port, f"advertised.listeners=PLAINTEXT://127.0.0.1:{proxy.port}")
        try:
            broker = Broker(proxy.port, folder)
            topic = broker.topic(partitions=3)
            for partition in range(3):
                broker.send(topic, "1", "2", partition=partition)
            ranges = ranges_of([(f"{topic}/{partition}", 0, 2) for partition in range(3)])
            assert len(fetch_together(broker.properties, ranges)) == 3
            proxy.hush()
            monkeypatch.setattr(range_progress, "_FIRST_PART", 40)  # a new connection after three seconds
            found = fetch_together(broker.properties, ranges, patience=120)
            assert [[message.value() for message in records] for records in found.values()] == [[b"1", b"2"]] * 3
        finally:
            launch.stop("kafka", folder)
