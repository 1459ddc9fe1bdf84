"""The positions of a Pulsar source: batches, messages in chunks, deleted messages, new partitions, restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import PositionLost
from penstock.ingest.pulsar.position import Position
from penstock.ingest.pulsar.settings import PulsarSettings, PulsarStart
from penstock.ingest.pulsar.source import PulsarSource
from penstock.ingest.source import NO_LIMIT, Limit, Offsets
from tests.integration.pulsar.conftest import Broker
from tests.waiting import until

pytestmark = pytest.mark.pulsar


def source(broker: Broker, *topics: str, **more: object) -> PulsarSource:
    properties = {
        "pulsar.client.serviceUrl": broker.url,
        "pulsar.admin.adminUrl": broker.admin_url,
        "pulsar.consumer.subscriptionName": "lake",
    }
    return PulsarSource(PulsarSettings(properties, topics, **more))  # type: ignore[arg-type]  # as the test names them


def values(found: PulsarSource, start: Offsets, end: Offsets) -> list[str]:
    return [
        (value or b"").decode()
        for range_ in found.plan(start, end, 2)
        for fetched in found.read(range_)
        for value in fetched.messages.values
    ]


def batches(found: PulsarSource, start: Offsets, limit: Limit = NO_LIMIT) -> Iterator[tuple[list[str], Offsets]]:
    """Yield batches until nothing is left."""
    while (end := found.latest_offsets(start, limit)) != start:
        yield values(found, start, end), end
        start = end


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.topic()


def test_each_message_is_in_one_batch(broker: Broker, topic: str) -> None:
    topics = source(broker, topic)
    broker.send(topic, *map(str, range(30)), batched=True)
    broker.send(topic, "alone")
    (first, end), *rest = batches(topics, {})
    assert first == [*map(str, range(30)), "alone"]
    assert rest == []
    broker.send(topic, *map(str, range(3)), batched=True)
    (second, last), *rest = batches(topics, end)
    assert second == ["0", "1", "2"]
    assert rest == []
    # Read again by another process, which knows the offsets only.
    assert values(source(broker, topic), {}, end) == first
    assert values(source(broker, topic), end, last) == second


def test_a_batch_may_end_within_a_producer_batch(broker: Broker, topic: str) -> None:
    topics = source(broker, topic)
    broker.send(topic, *map(str, range(10)), batched=True)
    ((_, end),) = batches(topics, {})
    name = f"persistent://public/default/{topic}"
    middle = Position.of(end["offsets"][name]["-1"])
    assert middle.index == 9
    half = {**end, "offsets": {name: {"-1": str(Position(middle.ledger, middle.entry, 4))}}}
    assert values(topics, {}, half) == list("01234")
    assert values(topics, half, end) == list("56789")


def test_a_limit_ends_a_batch_earlier(broker: Broker, topic: str) -> None:
    topics = source(broker, topic)
    broker.send(topic, *map(str, range(25)))
    found = [batch for batch, _ in batches(topics, {}, Limit(rows=10))]
    assert [len(batch) for batch in found] == [10, 10, 5]
    assert [value for batch in found for value in batch] == [str(number) for number in range(25)]
    by_size = [batch for batch, _ in batches(source(broker, topic), {}, Limit(bytes=20))]
    assert len(by_size) > 2
    assert [value for batch in by_size for value in batch] == [str(number) for number in range(25)]


def test_messages_in_chunks_are_read_whole(broker: Broker, topic: str) -> None:
    topics, large = source(broker, topic), "x" * 50_000
    with broker.client() as client:
        producer = client.create_producer(topic, batching_enabled=False, chunking_enabled=True)
        for value in ("first", large):
            producer.send(value.encode())
        ((first, end),) = batches(topics, {})
        assert first == ["first", large]
        # The next batch begins with the message in chunks, to see that it is still there.
        for value in ("next", large, "last"):
            producer.send(value.encode())
    ((second, _),) = batches(topics, end)
    assert second == ["next", large, "last"]


def test_a_message_in_chunks_that_began_before_the_batch_is_read(broker: Broker, topic: str) -> None:
    """Its first chunk is before the last message of the batch before, as if two producers had sent in turns."""
    topics, large = source(broker, topic), "x" * 50_000
    with broker.client() as client:
        producer = client.create_producer(topic, batching_enabled=False, chunking_enabled=True)
        for value in ("first", large, "last"):
            producer.send(value.encode())
    ((found, end),) = batches(topics, {})
    assert found == ["first", large, "last"]
    name = f"persistent://public/default/{topic}"
    last = Position.of(end["offsets"][name]["-1"])
    between = {**end, "offsets": {name: {"-1": str(Position.before(last.ledger, last.entry - 1))}}}
    assert values(topics, between, end) == [large, "last"]


def test_a_deleted_message_stops_the_pipeline_unless_the_gap_is_accepted(broker: Broker, topic: str) -> None:
    topics = source(broker, topic)
    broker.send(topic, *map(str, range(10)))
    ((_, end),) = batches(topics, {})
    broker.send(topic, "lost")
    # As a message TTL does, or another user of the subscription.
    broker.admin("POST", f"persistent/public/default/{topic}/subscription/lake/skip_all")
    topics.close()
    broker.drop_read(topic)
    broker.send(topic, "kept")
    again = source(broker, topic)
    next_end = again.latest_offsets(end, NO_LIMIT)
    with pytest.raises(PositionLost, match="no longer has the message") as caught:
        values(again, end, next_end)
    assert caught.value.facts["asked_for"] == end["offsets"][f"persistent://public/default/{topic}"]["-1"]
    assert "--accept-gap" in (caught.value.hint or "")
    accepting = source(broker, topic, accept_gap=True)
    ((found, _),) = batches(accepting, end)
    assert found == ["kept"]


def test_a_topic_created_again_stops_the_pipeline(broker: Broker, topic: str) -> None:
    topics = source(broker, topic)
    broker.send(topic, "old")
    ((_, end),) = batches(topics, {})
    topics.close()
    renew(broker, topic)
    broker.send(topic, "new")
    again = source(broker, topic)
    with pytest.raises(PositionLost, match="created again"):
        values(again, end, again.latest_offsets(end, NO_LIMIT))


def renew(broker: Broker, topic: str) -> None:
    broker.admin("DELETE", f"persistent/public/default/{topic}?force=true")
    broker.topic(name=topic)


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("read_before", [True, False])
def test_a_planned_batch_whose_topic_was_created_again_is_lost_or_skipped(
    broker: Broker, topic: str, *, new: bool, read_before: bool
) -> None:
    topics, start = source(broker, topic), Offsets()
    if read_before:
        broker.send(topic, "read")
        ((_, start),) = batches(topics, {})
    broker.send(topic, "planned")
    end = topics.latest_offsets(start, NO_LIMIT)
    topics.close()
    renew(broker, topic)
    if new:
        broker.send(topic, "new")
    with pytest.raises(PositionLost, match="created again"):
        values(source(broker, topic), start, end)
    accepting = source(broker, topic, accept_gap=True)
    assert values(accepting, start, end) == []
    assert [value for found, _ in batches(accepting, end) for value in found] == (["new"] if new else [])


def test_a_planned_batch_that_lost_its_first_messages_is_read_from_the_first_that_is_left(
    broker: Broker, topic: str
) -> None:
    topics = source(broker, topic)
    broker.send(topic, "read")
    ((_, start),) = batches(topics, {})
    broker.send(topic, "lost")
    broker.admin("POST", f"persistent/public/default/{topic}/subscription/lake/skip_all")
    broker.drop_read(topic)
    broker.send(topic, "kept")
    end = topics.latest_offsets(start, NO_LIMIT)
    topics.close()
    with pytest.raises(PositionLost, match="no longer has the message"):
        values(source(broker, topic), start, end)
    assert values(source(broker, topic, accept_gap=True), start, end) == ["kept"]


def test_acknowledged_batches_leave_the_message_that_the_next_one_needs(broker: Broker, topic: str) -> None:
    topics = source(broker, topic)
    start: Offsets = {}
    for number in range(4):
        broker.send(topic, str(number))
        broker.drop_read(topic)  # every message in a ledger of its own, deleted once acknowledged
        ((found, end),) = batches(topics, start)
        assert found == [str(number)]
        topics.mirror(end)
        start = end

    # The broker counts acknowledgements a moment after they are sent.
    def backlog() -> int:
        stats = broker.admin("GET", f"persistent/public/default/{topic}/stats")
        return int(stats["subscriptions"]["lake"]["msgBacklog"])

    until(lambda: backlog() <= 2, lambda: f"a backlog of two messages, not of {backlog()}")


def test_new_partitions_are_read_from_their_first_message(broker: Broker) -> None:
    topic = broker.topic(partitions=2)
    topics = source(broker, topic)
    broker.send(topic, *map(str, range(6)))
    ((first, end),) = batches(topics, {})
    assert sorted(first) == [str(number) for number in range(6)]
    broker.admin("POST", f"persistent/public/default/{topic}/partitions", 4)
    broker.send(f"{topic}-partition-3", "new")
    ((second, last),) = batches(topics, end)
    assert second == ["new"]
    assert set(last["offsets"][f"persistent://public/default/{topic}"]) == {"0", "1", "2", "3"}


def test_topics_are_found_by_a_pattern(broker: Broker) -> None:
    # Other tests use this broker, too.
    wanted = [broker.topic(name=f"by_pattern_{number}") for number in range(2)]
    broker.topic(name="unrelated_0")
    topics = source(broker, pattern="by_pattern_.*")
    for topic in wanted:
        broker.send(topic, topic)
    ((found, _),) = batches(topics, {})
    assert sorted(found) == wanted


@pytest.mark.parametrize("mode", ["latest", "publish-time", "message-id"])
def test_a_new_checkpoint_begins_where_the_startup_mode_says(broker: Broker, topic: str, mode: str) -> None:
    broker.send(topic, "before")
    with broker.client() as client:
        producer = client.create_producer(topic, batching_enabled=False)
        found = producer.send(b"after")
        reader = client.create_reader(topic, found, start_message_id_inclusive=True)
        time = reader.read_next(5000).publish_timestamp()
    starts = {
        "latest": PulsarStart("latest"),
        "publish-time": PulsarStart("publish-time", millis=time),
        "message-id": PulsarStart("message-id", (found.ledger_id(), found.entry_id(), -1)),
    }
    topics = source(broker, topic, startup=starts[mode])
    start = topics.latest_offsets({}, NO_LIMIT)
    broker.send(topic, "later")
    end = topics.latest_offsets(start, NO_LIMIT)
    expected = ["later"] if mode == "latest" else ["after", "later"]
    assert values(topics, {}, start) + values(topics, start, end) == expected


def sent_id(broker: Broker, topic: str, value: bytes) -> tuple[int, int]:
    with broker.client() as client:
        found = client.create_producer(topic, batching_enabled=False).send(value)
    return found.ledger_id(), found.entry_id()


@pytest.mark.parametrize("left", [True, False], ids=["others are left", "empty"])
@pytest.mark.parametrize("inclusive", [True, False])
def test_a_first_start_at_a_message_that_was_deleted_is_refused_unless_the_gap_is_accepted(
    broker: Broker, topic: str, *, left: bool, inclusive: bool
) -> None:
    ledger, entry = sent_id(broker, topic, b"named")
    broker.send(topic, "lost")
    broker.drop_read(topic)
    broker.admin("POST", f"persistent/public/default/{topic}/trim")  # at once; nobody has subscribed
    if left:
        broker.send(topic, "kept")
    named = PulsarStart("message-id", (ledger, entry, -1), inclusive=inclusive)
    with pytest.raises(PositionLost, match="does not have the ledger") as caught:
        source(broker, topic, startup=named).latest_offsets({}, NO_LIMIT)
    assert caught.value.facts["asked_for"] == f"{ledger}:{entry}"
    accepting = source(broker, topic, startup=named, accept_gap=True)
    start = accepting.latest_offsets({}, NO_LIMIT)
    broker.send(topic, "later")
    end = accepting.latest_offsets(start, NO_LIMIT)
    found = values(accepting, {}, start) + values(accepting, start, end)
    assert found == (["kept", "later"] if left else ["later"])


def test_a_first_start_behind_the_last_message_waits_for_the_next_one(broker: Broker, topic: str) -> None:
    ledger, entry = sent_id(broker, topic, b"named")
    topics = source(broker, topic, startup=PulsarStart("message-id", (ledger, entry, -1), inclusive=False))
    start = topics.latest_offsets({}, NO_LIMIT)
    broker.send(topic, "later")
    assert values(topics, start, topics.latest_offsets(start, NO_LIMIT)) == ["later"]


def test_an_empty_topic_has_an_empty_batch(broker: Broker, topic: str) -> None:
    topics = source(broker, topic)
    end = topics.latest_offsets({}, NO_LIMIT)
    assert topics.plan({}, end, 1) == []
    assert topics.latest_offsets(end, NO_LIMIT) == end
    assert topics.lag(end) == {f"persistent://public/default/{topic}": 0}
    broker.send(topic, "a", "b")
    assert topics.lag(end) == {f"persistent://public/default/{topic}": 2}


def test_a_restarted_broker_has_all_messages(broker: Broker, topic: str, tmp_path: Path) -> None:
    topics = source(broker, topic)
    broker.send(topic, *map(str, range(10)))
    ((first, end),) = batches(topics, {})
    broker.stop()
    broker.start()
    broker.send(topic, json.dumps({"id": 1}))
    ((second, _),) = batches(topics, end)
    assert (len(first), second) == (10, ['{"id": 1}'])


@pytest.mark.parametrize("renewed", [True, False])
def test_a_topic_that_lost_all_messages_is_noticed_before_the_next_one(
    broker: Broker, topic: str, *, renewed: bool
) -> None:
    topics = source(broker, topic)
    broker.send(topic, "read")
    ((_, start),) = batches(topics, {})
    broker.send(topic, "lost")
    topics.close()
    if renewed:
        renew(broker, topic)
    else:
        broker.admin("POST", f"persistent/public/default/{topic}/subscription/lake/skip_all")
        broker.drop_read(topic)
    with pytest.raises(PositionLost, match="no longer has the message"):
        source(broker, topic).latest_offsets(start, NO_LIMIT)
    accepting = source(broker, topic, accept_gap=True)
    ((found, end),) = batches(accepting, start)
    assert found == []
    broker.send(topic, "new")
    ((found, _),) = batches(source(broker, topic), end)
    assert found == ["new"]


@pytest.mark.parametrize("renewed", [True, False])
def test_messages_that_were_deleted_before_any_was_read_are_noticed(
    broker: Broker, topic: str, *, renewed: bool
) -> None:
    topics = source(broker, topic)
    start = topics.latest_offsets({}, NO_LIMIT)
    topics.close()
    broker.send(topic, "lost")
    if renewed:
        renew(broker, topic)
    else:
        broker.admin("POST", f"persistent/public/default/{topic}/subscription/lake/skip_all")
        broker.drop_read(topic)
    two = source(broker, topic)
    until = two.available()
    with pytest.raises(PositionLost, match="is gone" if renewed else "before any was read"):
        two.latest_offsets(start, NO_LIMIT, until)
    accepting = source(broker, topic, accept_gap=True)
    end = accepting.latest_offsets(start, NO_LIMIT)
    broker.send(topic, "new")
    # A gap that was accepted is none any more.
    ((found, _),) = batches(source(broker, topic), end)
    assert found == ["new"]


def test_a_deleted_topic_is_not_created_by_a_run_that_does_not_read_it(broker: Broker) -> None:
    gone, stays = (broker.topic(name=f"by_mirror_{number}") for number in range(2))
    broker.send(gone, "a", "b")
    first = source(broker, pattern="by_mirror_.*")
    ((_, end),) = batches(first, {})
    first.close()
    broker.admin("DELETE", f"persistent/public/default/{gone}")
    second = source(broker, pattern="by_mirror_.*")
    broker.send(stays, "c")
    ((_, end),) = batches(second, end)
    second.mirror(end)
    second.mirror(end)
    topics = broker.admin("GET", "persistent/public/default")
    assert f"persistent://public/default/{gone}" not in topics


@pytest.mark.parametrize("accept_gap", [False, True])
def test_messages_between_the_parts_of_the_last_message_are_not_a_gap(
    broker: Broker, topic: str, *, accept_gap: bool
) -> None:
    """The next batch begins at the first of these parts; two producers had sent in turns."""
    topics, large = source(broker, topic, accept_gap=accept_gap), "x" * 50_000
    broker.send(topic, "first", "between")
    broker.send(topic, large, chunking=True)
    ((found, end),) = batches(topics, {})
    assert found == ["first", "between", large]
    name = f"persistent://public/default/{topic}"
    last = Position.of(end["offsets"][name]["-1"])
    assert last.first_chunk is not None
    ledger, entry = last.first_chunk
    early = replace(last, first_chunk=(ledger, entry - 1))
    broker.send(topic, "next")
    ((following, _),) = batches(topics, {**end, "offsets": {name: {"-1": str(early)}}})
    assert following == ["next"]
