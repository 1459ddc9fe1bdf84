"""The Kafka source against a real broker."""

from __future__ import annotations

import contextlib
import threading
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.errors import PositionLost, SourceError
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.ingest.kafka import open_transactions, range_progress
from penstock.ingest.kafka.broker_errors import PATIENCE_SECONDS
from penstock.ingest.kafka.range_progress import RangeProgress
from penstock.ingest.kafka.read import fetched_messages, read_range
from penstock.ingest.kafka.settings import KafkaSettings, StartOffsets
from penstock.ingest.kafka.source import KafkaSource
from penstock.ingest.source import NO_LIMIT, Limit, Offsets, Range
from tests.chaos.proxy import proxied
from tests.integration.kafka.conftest import Broker
from tests.servers import launch
from tests.servers.produce import SECONDS, taken
from tests.waiting import until

pytestmark = pytest.mark.kafka

EARLIEST = StartOffsets("earliest-offset")


def source(broker: Broker, *topics: str, startup: StartOffsets = EARLIEST, **more: Any) -> KafkaSource:
    properties = broker.properties | more.pop("properties", {})
    return KafkaSource(KafkaSettings(properties, topics, startup=startup, **more))


def read(kafka: KafkaSource, start: Offsets, end: Offsets, tasks: int = 2) -> list[bytes | None]:
    return [
        value
        for item in kafka.plan(start, end, tasks)
        for fetched in kafka.read(item)
        for value in fetched.messages.values
    ]


def test_records_are_read_in_order_with_key_time_and_headers(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, b"a", None, key=b"k", timestamp=1234, headers=[("h", b"1")])
    kafka = source(broker, topic, extras=frozenset({"key", "timestamp", "headers"}))
    (planned,) = kafka.plan({}, kafka.latest_offsets({}, NO_LIMIT), 2)
    (fetched,) = kafka.read(planned)
    messages = fetched.messages
    assert list(messages.values) == [b"a", None]
    assert messages.offsets.tolist() == [0, 1]
    assert (messages.keys, messages.timestamps is not None and messages.timestamps.tolist()) == (
        [b"k", b"k"],
        [1234, 1234],
    )
    assert fetched.headers == [[("h", b"1")]] * 2
    assert fetched.timestamp_types == [1, 1]


def test_startup_by_time_starts_at_the_first_record_of_that_time(broker: Broker) -> None:
    topic = broker.topic()
    for millis in (1000, 2000, 3000):
        broker.send(topic, str(millis), timestamp=millis)
    kafka = source(broker, topic, startup=StartOffsets("timestamp", millis=1500))
    assert read(kafka, {}, kafka.latest_offsets({}, NO_LIMIT)) == [b"2000", b"3000"]


def test_group_offsets_are_committed_and_start_the_next_pipeline(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, "1", "2")
    properties = {"group.id": f"group-{topic}"}
    first = source(broker, topic, properties=properties)
    end = first.latest_offsets({}, NO_LIMIT)
    first.mirror(end)
    broker.send(topic, "3")
    assert first.lag(end) == {f"{topic}/0": 1}
    second = source(broker, topic, startup=StartOffsets("group-offsets"), properties=properties)
    assert read(second, {}, second.latest_offsets({}, NO_LIMIT)) == [b"3"]


def settled_end(kafka: KafkaSource, offsets: dict[str, dict[str, int]]) -> dict[str, Any]:
    """Wait until the topics end there: the broker writes the end of a transaction after its reply."""
    end: dict[str, Any] = {}

    def is_there() -> bool:
        nonlocal end
        end = kafka.latest_offsets({}, NO_LIMIT)
        return bool(end["offsets"] == offsets)

    until(is_there, lambda: f"{offsets}, not {end}")
    return end


def test_offset_gaps_of_transactions_and_aborted_records_are_skipped(broker: Broker) -> None:
    topic = broker.topic()
    producer = Producer(broker.properties | {"transactional.id": topic})
    producer.init_transactions(SECONDS)
    for number in range(4):
        producer.begin_transaction()
        producer.produce(topic, str(number), partition=0)
        taken(producer)
        producer.abort_transaction(SECONDS) if number % 2 else producer.commit_transaction(SECONDS)
    kafka = source(broker, topic)
    end = settled_end(kafka, {topic: {"0": 8}})
    assert read(kafka, {}, end) == [b"0", b"2"]


def test_an_open_transaction_limits_the_end_position(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, "before")
    producer = Producer(broker.properties | {"transactional.id": topic})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, "open", partition=0)
    taken(producer)
    kafka = source(broker, topic)
    assert kafka.latest_offsets({}, NO_LIMIT)["offsets"] == {topic: {"0": 1}}
    producer.commit_transaction(SECONDS)
    assert read(kafka, {}, settled_end(kafka, {topic: {"0": 3}})) == [b"before", b"open"]


def test_a_transaction_that_stays_open_is_reported(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(open_transactions, "PAUSE_S", 0.0)
    topic = broker.topic(partitions=2)
    broker.send(topic, "before")
    producer = Producer(broker.properties | {"transactional.id": topic})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, "open", partition=0)
    taken(producer)
    broker.send(topic, "after")
    kafka = source(broker, topic)
    end = kafka.latest_offsets({}, NO_LIMIT)
    assert kafka.latest_offsets(end, NO_LIMIT) == end
    assert "waits_for_transaction" not in caplog.text, "it may have ended by the next look"
    assert kafka.latest_offsets(end, NO_LIMIT) == end
    assert f"event=waits_for_transaction topic={topic} partition=0 offset=1 end=3 " in caplog.text
    assert sum(kafka.lag(end).values()) == 0, "no other sign shows it"
    producer.commit_transaction(SECONDS)
    caplog.clear()
    end = settled_end(kafka, {topic: {"0": 4, "1": 0}})
    for _ in range(2):
        assert kafka.latest_offsets(end, NO_LIMIT) == end
    assert "waits_for_transaction" not in caplog.text


def test_new_partitions_and_topics_of_a_pattern_are_found_while_running(broker: Broker) -> None:
    first = broker.topic(name="found-a")
    broker.send(first, "1")
    kafka = source(broker, pattern="found-.*")
    end = kafka.latest_offsets({}, NO_LIMIT)
    broker.add_partition(first, 2)
    second = broker.topic(name="found-b")
    broker.send(second, "2")
    broker.send(first, "3", partition=1)
    assert sorted(filter(None, read(kafka, end, kafka.latest_offsets(end, NO_LIMIT)))) == [b"2", b"3"]


def test_a_partition_that_was_added_is_read_when_gaps_are_accepted(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, "1")
    kafka = source(broker, topic, accept_gap=True)
    end = kafka.latest_offsets({}, NO_LIMIT)
    assert read(kafka, {}, end) == [b"1"]
    broker.add_partition(topic, 2)
    broker.send(topic, "2", partition=1)
    assert read(kafka, end, kafka.latest_offsets(end, NO_LIMIT)) == [b"2"]


def test_a_byte_limit_is_kept_by_sampling_records(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, *[b"x" * 100] * 1000)
    end = source(broker, topic).latest_offsets({}, Limit(bytes=10_000))
    assert end["offsets"] == {topic: {"0": 100}}


def test_a_byte_limit_counts_the_keys(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, *[b"x"] * 100, key="k" * 999)
    end = source(broker, topic).latest_offsets({}, Limit(bytes=10_000))
    assert end["offsets"] == {topic: {"0": 10}}


def test_few_large_records_are_read_to_keep_a_byte_limit(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = broker.topic()
    broker.send(topic, *[b"x" * 100_000] * 100)
    read: list[int] = []

    def counted(*given: Any) -> FetchedMessages:
        fetched = fetched_messages(*given)
        read.append(len(fetched.messages.values))
        return fetched

    monkeypatch.setattr("penstock.ingest.kafka.read.fetched_messages", counted)
    end = source(broker, topic).latest_offsets({}, Limit(bytes=1_000_000))
    assert end["offsets"] == {topic: {"0": 10}}
    assert sum(read) <= 20


def test_a_missing_topic_is_an_error_that_names_it(broker: Broker) -> None:
    with pytest.raises(SourceError, match="no-such-topic"):
        source(broker, "no-such-topic").latest_offsets({}, NO_LIMIT)


def test_records_dropped_before_the_plan_are_a_lost_position(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, "1", "2", "3")
    kafka = source(broker, topic)
    end = kafka.latest_offsets({}, Limit(rows=1))
    broker.drop_before(topic, 2)
    with pytest.raises(PositionLost) as caught:
        kafka.latest_offsets(end, NO_LIMIT)
    assert caught.value.facts["lost"] == 1


def test_records_dropped_between_plan_and_read_are_a_lost_position(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, "1", "2", "3")
    kafka = source(broker, topic)
    end = kafka.latest_offsets({}, NO_LIMIT)
    broker.drop_before(topic, 2)
    with pytest.raises(PositionLost):
        read(kafka, {}, end)


@pytest.mark.parametrize("accept_gap", [False, True])
def test_records_dropped_during_a_read_are_a_gap(broker: Broker, accept_gap: bool) -> None:
    """Retention passes a reader that is slower than the topic. The records are more than a client fetches ahead."""
    topic, total = broker.topic(), 60
    broker.send(topic, *(f"{number}".ljust(900_000) for number in range(total)))
    kafka, found = source(broker, topic, accept_gap=accept_gap), list[int]()
    end = kafka.latest_offsets({}, NO_LIMIT)
    (range_,) = kafka.plan({}, end, 1)
    with contextlib.nullcontext() if accept_gap else pytest.raises(PositionLost):
        for fetched in read_range(kafka.settings.properties, range_, rows=1, accept_gap=accept_gap):
            found += fetched.messages.offsets.tolist()
            if found[-1] < total - 2:
                broker.drop_before(topic, total - 2)
    lost = sorted({*range(total)} - {*found})
    assert found == sorted(set(found))
    assert lost
    assert not accept_gap or lost == list(range(lost[0], total - 2))


def test_a_record_that_is_damaged_in_the_file_of_the_broker_can_be_deleted_and_passed(broker: Broker) -> None:
    topic = broker.topic()
    for number in range(4):
        broker.send(topic, f"value {number}")
    kafka = source(broker, topic, accept_gap=True)
    end = kafka.latest_offsets({}, NO_LIMIT)
    (file,) = broker.folder.rglob(f"{topic}-0/*.log")
    content = file.read_bytes()
    with file.open("r+b") as damaged:
        damaged.seek(content.index(b"value 1"))
        damaged.write(b"VALUE")
    with pytest.raises(SourceError, match="CRC32C") as refused:
        read(kafka, {}, end)
    hint = str(refused.value.hint)
    assert "kafka-delete-records.sh" in hint
    assert hint.endswith("--accept-gap")
    broker.drop_before(topic, 2)
    assert read(kafka, {}, end) == [b"value 2", b"value 3"]


def test_a_recreated_topic_is_a_lost_position(broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, "1")
    kafka = source(broker, topic)
    end = kafka.latest_offsets({}, NO_LIMIT)
    broker.renew(topic)
    broker.send(topic, "new", "newer")
    with pytest.raises(PositionLost, match="created again"):
        kafka.latest_offsets(end, NO_LIMIT)


def test_the_wait_for_a_partition_that_ends_early_is_limited(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = broker.topic()
    broker.send(topic, "1")
    planned, judge, is_at_end, looks = Range(0, f"{topic}/0", 0, 5), RangeProgress._judge, False, count()

    def judge_end(*given: Any) -> None:
        nonlocal is_at_end
        judge(*given)
        is_at_end = True

    # Each look at the clock is too late, once the end of the partition is known.
    clock = SimpleNamespace(monotonic=lambda: (PATIENCE_SECONDS + 1) * next(looks) if is_at_end else 0.0)
    monkeypatch.setattr(RangeProgress, "_judge", judge_end)
    monkeypatch.setattr(range_progress, "time", clock)
    with pytest.raises(PositionLost, match="--accept-gap"):
        list(read_range(broker.properties, planned))
    (fetched,) = read_range(broker.properties, planned, accept_gap=True)
    assert fetched.messages.values == [b"1"]


def test_a_run_to_the_current_end_names_records_behind_an_open_transaction(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = broker.topic(partitions=2)
    producer = Producer(broker.properties | {"transactional.id": topic})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, "open", partition=0)
    taken(producer)
    broker.send(topic, "after", partition=0)
    broker.send(topic, "other", partition=1)
    kafka = source(broker, topic)
    assert kafka.available()["offsets"] == {topic: {"0": 0, "1": 1}}
    assert f"event=ends_before_transaction topic={topic} partition=0 offset=0 end=2 " in caplog.text
    assert caplog.text.count("ends_before_transaction") == 1
    caplog.clear()
    producer.commit_transaction(SECONDS)
    settled_end(kafka, {topic: {"0": 3, "1": 1}})
    kafka.available()
    assert "ends_before_transaction" not in caplog.text


def lose_last_writes(broker: Broker, topic: str) -> None:
    """Stop the broker, and start it again without the latter half of the log, as after a failure of its machine."""
    broker.stop()
    (segment,) = broker.folder.rglob(f"{topic}-0/00000000000000000000.log")
    segment.write_bytes(segment.read_bytes()[: segment.stat().st_size // 2])
    for name in ("recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
        for path in broker.folder.rglob(name):
            path.unlink()
    for index in segment.parent.glob("*index"):
        index.unlink()
    broker.start()


@pytest.mark.slow
def test_a_partition_that_lost_its_last_records_and_has_grown_again_is_a_lost_position(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("kafka-cut")
    with launch.running("kafka", folder) as port:
        broker = Broker(port, folder)
        topic, other = broker.topic(partitions=2), broker.topic()
        for number in range(10):
            broker.send(topic, f"old {number}")
        broker.send(other, "kept")
        end = source(broker, topic, other).latest_offsets({}, NO_LIMIT)
        broker.stop()
        broker.start()
        kafka = source(broker, topic, other)
        assert kafka.latest_offsets(end, NO_LIMIT) == end, "another epoch alone is no loss"
        lose_last_writes(broker, topic)
        kafka = source(broker, topic, other)
        with pytest.raises(PositionLost, match="ends before the pipeline's last position"):
            kafka.latest_offsets(end, NO_LIMIT)
        broker.send(topic, *[f"new {number}" for number in range(20)])
        with pytest.raises(PositionLost, match="has other records at their offsets now") as caught:
            kafka.latest_offsets(end, NO_LIMIT)
        assert caught.value.facts["topic"] == topic
        assert caught.value.facts["partition"] == 0
        # A checkpoint of an earlier version, which has no epochs, is read as before.
        older = {name: value for name, value in end.items() if name != "epochs"}
        assert read(kafka, older, kafka.latest_offsets(older, NO_LIMIT))
        accepting = source(broker, topic, other, accept_gap=True)
        again = accepting.latest_offsets(end, NO_LIMIT)
        values = read(accepting, end, again)
        assert set(values) >= {b"old 0", *(b"new %d" % number for number in range(20))}
        assert b"kept" not in values
        assert accepting.latest_offsets(again, NO_LIMIT) == again


@pytest.mark.slow
def test_a_silent_connection_is_replaced(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, port = tmp_path_factory.mktemp("hushed"), launch.free_port()
    with proxied(port) as proxy:
        launch.start("kafka", folder, port, f"advertised.listeners=PLAINTEXT://127.0.0.1:{proxy.port}")
        try:
            broker = Broker(proxy.port, folder)
            topic = broker.topic()
            broker.send(topic, *[b"%07d" % number + b"x" * 1000 for number in range(100_000)])
            fetches = read_range(broker.properties, Range(0, f"{topic}/0", 0, 100_000), patience=120)
            values = list(next(fetches).messages.values)
            proxy.hush()
            values += [value for fetched in fetches for value in fetched.messages.values]
            assert [int((value or b"")[:7]) for value in values] == list(range(100_000))
        finally:
            launch.stop("kafka", folder)


@pytest.mark.slow
def test_planning_and_reading_survive_a_broker_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("restarted")
    with launch.running("kafka", folder) as port:
        broker = Broker(port, folder)
        topic = broker.topic()
        broker.send(topic, *[b"%07d" % number + b"x" * 1000 for number in range(50_000)])
        kafka = source(broker, topic)
        end = kafka.latest_offsets({}, NO_LIMIT)
        fetches = kafka.read(kafka.plan({}, end, 1)[0])
        values = list(next(fetches).messages.values)
        broker.stop()
        back = threading.Timer(2, broker.start)
        back.start()
        values += [value for fetched in fetches for value in fetched.messages.values]
        assert [int((value or b"")[:7]) for value in values] == list(range(50_000))
        back.join()
        broker.stop()
        back = threading.Timer(2, broker.start)
        back.start()
        assert kafka.latest_offsets(end, NO_LIMIT) == end
        back.join()
