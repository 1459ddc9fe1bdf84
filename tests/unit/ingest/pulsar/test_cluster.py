"""Requests to a cluster: what is acknowledged, where a batch can end, and where the admin interface is needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, cast

import pulsar
import pytest

from penstock.errors import ConfigError, SourceError
from penstock.ingest.pulsar import cluster as requests
from penstock.ingest.pulsar.admin import PulsarAdmin, SubscriptionState
from penstock.ingest.pulsar.cluster import PulsarCluster
from penstock.ingest.pulsar.position import START, Position
from penstock.ingest.pulsar.settings import PulsarSettings
from penstock.ingest.pulsar.topics import Place

TOPIC = "persistent://public/default/t"
PLACE = (TOPIC, 2)
PROPERTIES = {"pulsar.client.serviceUrl": "pulsar://h", "pulsar.consumer.subscriptionName": "s"}
ADMIN = {"pulsar.admin.adminUrl": "http://h:8080"}


class Consumer:
    """Remembers what is acknowledged: partition, ledger, entry and index."""

    def __init__(self) -> None:
        self.acknowledged, self.closed = list[tuple[int, ...]](), False

    def acknowledge_cumulative(self, given: Any) -> None:
        self.acknowledged.append((given.partition(), given.ledger_id(), given.entry_id(), given.batch_index()))

    def close(self) -> None:
        self.closed = True


class Delivering(PulsarCluster):
    """A cluster whose broker delivers messages at these entries of ledger 3, and is asked with these waits."""

    def __init__(self, entries: tuple[int, ...], slow: frozenset[int] = frozenset()) -> None:
        super().__init__(PulsarSettings(PROPERTIES, ("t",)))
        self.entries, self.slow, self.asked = entries, slow, list[int]()

    def received(
        self, place: Place, first: Position, wait: int = 300, count: int = 1000
    ) -> Iterator[tuple[Position, int, int]]:
        self.asked.append(first.entry)
        for entry in self.entries:
            if entry >= first.entry:
                if entry in self.slow and wait < 5000:
                    return
                yield Position(3, entry), 0, 10


def cluster(**properties: str) -> PulsarCluster:
    return PulsarCluster(PulsarSettings({**PROPERTIES, **properties}, ("t",)))


def with_consumer() -> tuple[PulsarCluster, Consumer]:
    made, consumer = cluster(), Consumer()
    made._consumers[PLACE] = cast("pulsar.Consumer", consumer)
    return made, consumer


@pytest.mark.parametrize(
    ("older", "kept", "acknowledged"),
    [
        (START, Position(3, 7), (2, 3, 6, -1)),
        (Position(3, 2), Position(3, 7, 4), (2, 3, 6, -1)),
        # A message in chunks is kept from its first chunk on.
        (START, Position(3, 7, -1, (3, 4)), (2, 3, 3, -1)),
        # Nothing is known of the ledger before but the older position.
        (Position(2, 9), Position(3, 0), (2, 2, 9, -1)),
    ],
)
def test_entries_before_the_kept_message_are_acknowledged(
    older: Position, kept: Position, acknowledged: tuple[int, ...]
) -> None:
    made, consumer = with_consumer()
    made.acknowledge(PLACE, older, kept)
    assert consumer.acknowledged == [acknowledged]


@pytest.mark.parametrize(
    ("older", "kept"),
    [(START, Position(3, 0)), (Position.before(2, 9), Position(3, 0)), (Position(3, 0), Position(3, 0))],
)
def test_nothing_is_acknowledged_without_an_entry_before(older: Position, kept: Position) -> None:
    made, consumer = with_consumer()
    made.acknowledge(PLACE, older, kept)
    assert consumer.acknowledged == []


def test_batch_ends_at_the_target_if_the_broker_delivers_it() -> None:
    cluster = Delivering(tuple(range(100)))
    assert cluster.newest(PLACE, START, Position(3, 99)) == Position(3, 99)
    assert cluster.asked == [99]


def test_batch_ends_before_entries_that_are_no_messages() -> None:
    cluster = Delivering(tuple(range(90)))
    assert cluster.newest(PLACE, Position(3, 10), Position(3, 99)) == Position(3, 89)
    assert cluster.asked == [99, 98, 69]


def test_batch_never_ends_after_the_target_or_at_its_start() -> None:
    assert Delivering(tuple(range(100))).newest(PLACE, START, Position(3, 50)) == Position(3, 50)
    assert Delivering(tuple(range(41))).newest(PLACE, Position(3, 40), Position(3, 50)) is None


def test_slow_broker_is_waited_for_at_the_start_of_the_batch() -> None:
    cluster = Delivering((5,), slow=frozenset({5}))
    assert cluster.newest(PLACE, Position(3, 4), Position(3, 5)) == Position(3, 5)
    assert cluster.asked == [5, 4]


def test_pattern_needs_the_admin_interface() -> None:
    with pytest.raises(ConfigError, match="topic-pattern"):
        PulsarCluster(PulsarSettings(PROPERTIES, pattern="t.*")).partitions()


def test_ledgers_are_known_to_the_admin_interface(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert cluster().ledgers(PLACE) == {}
    monkeypatch.setattr(PulsarAdmin, "ledgers", lambda _self, _place: [(3, 10), (5, 2)])
    assert cluster(**ADMIN).ledgers(PLACE) == {3: 10, 5: 2}

    def refused(_self: PulsarAdmin, _place: Place) -> list[tuple[int, int]]:
        raise SourceError("Pulsar's admin interface answers 403 Forbidden")

    monkeypatch.setattr(PulsarAdmin, "ledgers", refused)
    assert cluster(**ADMIN).ledgers(PLACE) == {}
    assert (
        f"event=ledgers_not_known topic={TOPIC}-partition-2 reason=Pulsar's admin interface answers 403" in caplog.text
    )


def test_partitions_of_topics_are_sorted_and_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        def get_topic_partitions(self, topic: str) -> list[str]:
            return [topic] if topic.endswith("b") else [f"{topic}-partition-10", f"{topic}-partition-9"]

    monkeypatch.setattr(requests, "client", lambda _properties: Client())
    cluster = PulsarCluster(PulsarSettings(PROPERTIES, ("b", "a", "persistent://public/default/a")))
    a, b = "persistent://public/default/a", "persistent://public/default/b"
    assert cluster.partitions() == [(a, 9), (a, 10), (b, -1)]


def test_consumers_are_closed_once() -> None:
    made, consumer = with_consumer()
    made.close()
    made.close()
    assert consumer.closed
    assert made._consumers == {}


def test_a_partition_without_a_consumer_is_not_subscribed_to_by_an_acknowledgement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def subscribed(_: object) -> pulsar.Client:
        raise AssertionError("the broker would create the topic again")

    monkeypatch.setattr(requests, "client", subscribed)
    made, consumer = with_consumer()
    made.acknowledge((TOPIC, 1), START, Position(3, 7))
    assert consumer.acknowledged == []


def test_the_end_is_known_without_a_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    states = {
        1: SubscriptionState(False, (-1, -1), {3: 9}, (3, 8)),
        2: SubscriptionState(False, (-1, -1), {3: 0}, (3, -1)),
        3: SubscriptionState(True, (3, -1), {3: 9}, (3, 8)),
    }
    monkeypatch.setattr(PulsarAdmin, "subscription", lambda _, place, name: states[place[1]])
    monkeypatch.setattr(PulsarCluster, "last", lambda _, place: Position(3, 8))
    made = cluster(**ADMIN)
    ends = [made.end((TOPIC, number)) for number in (1, 2, 3)]
    assert ends == [Position(3, 8, (1 << 31) - 1), START, Position(3, 8)]
    assert cluster().end((TOPIC, 1)) == Position(3, 8)


def test_an_admin_interface_that_refuses_has_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[Place]()

    def refuse(_: PulsarAdmin, place: Place, name: str) -> SubscriptionState:
        asked.append(place)
        raise SourceError(f"{name} is refused")

    monkeypatch.setattr(PulsarAdmin, "subscription", refuse)
    made = cluster(**ADMIN)
    assert [made.subscription((TOPIC, number)) for number in range(3)] == [None] * 3
    assert asked == [(TOPIC, 0)]


@pytest.mark.parametrize(("error", "passes"), [(pulsar.Interrupted, True), (pulsar.CryptoError, False)])
def test_an_error_in_the_look_for_the_end_of_a_batch_is_one_of_the_source(
    error: type[Exception], passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing:
        def read_next(self, wait: int) -> NoReturn:
            raise error("lost")

        def close(self) -> None: ...

    monkeypatch.setattr(requests, "reader", lambda *_: Failing())
    with pytest.raises(SourceError) as found:
        list(PulsarCluster(PulsarSettings(PROPERTIES, ("t",))).received(PLACE, START))
    assert found.value.retryable is passes
    assert found.value.facts["topic"] == f"{TOPIC}-partition-2"
