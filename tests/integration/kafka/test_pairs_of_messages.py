"""Updates that are two messages (aliyun-json), when a batch or a task ends between the two."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.here import run
from tests.integration.kafka.conftest import Broker
from tests.integration.kafka.sync import Sync
from tests.integration.kafka.test_formats_alike import aliyun

pytestmark = pytest.mark.kafka

REMOVES = ["--table-conf", "partial-update.remove-record-on-delete=true"]
FLAGS = {
    "deduplicate": ["--table-conf", "bucket=1"],
    "partial-update": ["--table-conf", "bucket=1", "--table-conf", "merge-engine=partial-update", *REMOVES],
    "soft": ["--table-conf", "bucket=1", "--deletes", "soft"],
    "history": ["--table-conf", "bucket=1", "--deletes", "history"],
}
MOVES = [
    aliyun("INSERT", 1, v="a"),
    aliyun("INSERT", 2, v="b"),
    aliyun("UPDATE_BEFORE", 1, v="a"),
    aliyun("UPDATE_AFTER", 5, v="a"),
    aliyun("UPDATE_BEFORE", 2, v="b"),
    aliyun("UPDATE_AFTER", 2, v="c"),
    aliyun("UPDATE_BEFORE", 5, v="a"),
    aliyun("UPDATE_AFTER", 6, v="d"),
]


@pytest.fixture
def make(broker: Broker, tmp_path: Path) -> Callable[[str], Sync]:
    return lambda name: Sync(broker, tmp_path / name, "aliyun-json")


def state(sync: Sync, kind: str) -> list[tuple[int, str, object]]:
    now = {"soft": lambda row: row["_deleted"], "history": lambda row: not row["is_current"]}
    found = [(row["id"], row["v"], now.get(kind, lambda row: False)(row)) for row in sync.rows("t")]
    return sorted(found)


Send = Callable[[Broker, str, str], None]


def send_alone(broker: Broker, topic: str, message: str) -> None:
    broker.send(topic, message)


def send_in_a_transaction(broker: Broker, topic: str, message: str) -> None:
    """Send a message, and one that is aborted: the records that end transactions have offsets, but no messages."""
    send_aborted(broker, topic, message)
    producer = transactional(broker)
    producer.begin_transaction()
    producer.produce(topic, message)
    producer.commit_transaction()
    send_aborted(broker, topic, message)


def send_aborted(broker: Broker, topic: str, message: str, times: int = 1) -> None:
    producer = transactional(broker)
    for _ in range(times):
        producer.begin_transaction()
        producer.produce(topic, message)
        producer.flush()
        producer.abort_transaction()


def transactional(broker: Broker) -> Producer:
    producer = Producer({**broker.properties, "transactional.id": "pairs"})
    producer.init_transactions()
    return producer


@pytest.mark.parametrize("kind", FLAGS)
@pytest.mark.parametrize("send", [send_alone, send_in_a_transaction])
def test_a_key_that_moves_between_two_batches_is_moved(
    make: Callable[[str], Sync], broker: Broker, kind: str, send: Send
) -> None:
    at_once, topic = make("whole"), broker.topic()
    broker.send(topic, *MOVES)
    run(at_once.spec(topic, "--table", "t", *FLAGS[kind]))
    one_by_one, topic = make("parts"), broker.topic()
    for message in MOVES:
        send(broker, topic, message)
        run(one_by_one.spec(topic, "--table", "t", *FLAGS[kind]))
    expected = state(at_once, kind)
    assert [row[:2] for row in expected if not row[2]] == [(2, "c"), (6, "d")]
    assert state(one_by_one, kind) == expected


def test_an_old_row_without_a_new_one_blocks_nothing(make: Callable[[str], Sync], broker: Broker) -> None:
    sync, topic = make("lone"), broker.topic()
    broker.send(topic, aliyun("INSERT", 1, v="a"), aliyun("UPDATE_BEFORE", 1, v="a"))
    run(sync.spec(topic, "--table", "t", *FLAGS["deduplicate"]))
    assert state(sync, "") == [(1, "a", False)]
    broker.send(topic, aliyun("INSERT", 2, v="b"))
    run(sync.spec(topic, "--table", "t", *FLAGS["deduplicate"]))
    assert (2, "b", False) in state(sync, "")


@pytest.mark.parametrize(("left", "row"), [(1, (2, "a", False)), (2, (2, "a", False)), (3, (3, "b", False))])
def test_the_first_message_left_needs_none_before_it(
    make: Callable[[str], Sync],
    broker: Broker,
    caplog: pytest.LogCaptureFixture,
    left: int,
    row: tuple[int, str, bool],
) -> None:
    """Only an update whose old row is gone is worth a warning."""
    sync, topic = make("gone"), broker.topic()
    broker.send(topic, aliyun("INSERT", 1, v="a"), aliyun("UPDATE_BEFORE", 1, v="a"), aliyun("UPDATE_AFTER", 2, v="a"))
    broker.send(topic, aliyun("INSERT", 3, v="b"))
    broker.drop_before(topic, left)
    run(sync.spec(topic, "--table", "t", *FLAGS["deduplicate"]))
    assert row in state(sync, "")
    assert ("event=old_row_unknown" in caplog.text) == (left == 2)


def test_a_message_far_before_the_end_of_a_batch_is_read_once(make: Callable[[str], Sync], broker: Broker) -> None:
    """It is not found before the next batch, so it is not left to it."""
    sync, topic = make("far"), broker.topic()
    sums = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    sync.create("t", [("id", "BIGINT"), ("v", "BIGINT")], ["id"], **sums)
    broker.send(topic, summed("INSERT", 5), summed("UPDATE_BEFORE", 5))
    send_aborted(broker, topic, summed("DELETE", 5), times=9)
    run(sync.spec(topic, "--table", "t"))
    assert sync.rows("t") == [{"id": 1, "v": 0}]
    broker.send(topic, summed("UPDATE_AFTER", 7))
    run(sync.spec(topic, "--table", "t"))
    assert sync.rows("t") == [{"id": 1, "v": 7}]


def summed(operation: str, number: int) -> str:
    return aliyun(operation, 1, v=number).replace('"STRING"', '"LONG"')
