"""Updates that are two messages (aliyun-json), when a batch or a task ends between the two."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

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


@pytest.fixture
def make(broker: Broker, tmp_path: Path) -> Callable[[str], Sync]:
    return lambda name: Sync(broker, tmp_path / name, "aliyun-json")


def state(sync: Sync, kind: str) -> list[tuple[int, str, object]]:
    now = {"soft": lambda row: row["_deleted"], "history": lambda row: not row["is_current"]}
    found = [(row["id"], row["v"], now.get(kind, lambda row: False)(row)) for row in sync.rows("t")]
    return sorted(found)


@pytest.mark.parametrize("kind", FLAGS)
def test_a_key_that_moves_between_two_batches_is_moved(make: Callable[[str], Sync], broker: Broker, kind: str) -> None:
    messages = [
        aliyun("INSERT", 1, v="a"),
        aliyun("INSERT", 2, v="b"),
        aliyun("UPDATE_BEFORE", 1, v="a"),
        aliyun("UPDATE_AFTER", 5, v="a"),
        aliyun("UPDATE_BEFORE", 2, v="b"),
        aliyun("UPDATE_AFTER", 2, v="c"),
        aliyun("UPDATE_BEFORE", 5, v="a"),
        aliyun("UPDATE_AFTER", 6, v="d"),
    ]
    at_once, topic = make("whole"), broker.topic()
    broker.send(topic, *messages)
    run(at_once.spec(topic, "--table", "t", *FLAGS[kind]))
    one_by_one, topic = make("parts"), broker.topic()
    for message in messages:
        broker.send(topic, message)
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


def test_the_first_message_left_needs_none_before_it(make: Callable[[str], Sync], broker: Broker) -> None:
    sync, topic = make("gone"), broker.topic()
    broker.send(topic, aliyun("INSERT", 1, v="a"), aliyun("UPDATE_BEFORE", 1, v="a"), aliyun("UPDATE_AFTER", 2, v="a"))
    broker.drop_before(topic, 2)
    run(sync.spec(topic, "--table", "t", *FLAGS["deduplicate"]))
    assert state(sync, "") == [(2, "a", False)]
