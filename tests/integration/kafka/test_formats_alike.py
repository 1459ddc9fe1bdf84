"""Behaviour common to all formats, through a real broker.

Where a pipeline begins, what Kafka knows of a record, what a table that is there already must have.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PenstockError
from tests.here import run
from tests.integration.kafka.conftest import Broker
from tests.integration.kafka.sync import Sync
from tests.integration.kafka.test_behaviours import canal, debezium, dms, maxwell, ogg

pytestmark = pytest.mark.kafka


def aliyun(operation: str, number: int, **row: Any) -> str:
    schema = {
        "dataColumn": [{"name": "id", "type": "LONG"}, *({"name": name, "type": "STRING"} for name in row)],
        "primaryKey": ["id"],
        "source": {"dbType": "MySQL", "dbName": "d", "tableName": "t"},
    }
    image = {"dataColumn": {"id": number, **row}}
    sides = {"before": image} if operation in {"DELETE", "UPDATE_BEFORE"} else {"after": image}
    payload = {"op": operation, "before": None, "after": None, "timestamp": {"systemTime": 1}, **sides}
    return json.dumps({"schema": schema, "payload": payload, "version": "1.0"})


def bson(number: int) -> str:
    text = json.dumps({"_id": number, "id": number})
    return json.dumps({"op": "c", "before": None, "after": text, "source": {"db": "d", "collection": "t"}})


INSERTS: dict[str, Callable[[int], str]] = {
    "canal-json": lambda number: canal("INSERT", "t", {"id": "INT"}, {"id": str(number)}),
    "maxwell-json": lambda number: maxwell(id=number),
    "ogg-json": lambda number: ogg("I", ["id"], after={"id": number}),
    "debezium-json": lambda number: debezium("c", None, {"id": number}),
    "debezium-bson": bson,
    "aws-dms-json": lambda number: dms("insert", id=number),
    "aliyun-json": lambda number: aliyun("INSERT", number),
    "json": lambda number: json.dumps({"id": number}),
}
STARTS = {
    "earliest-offset": ({}, [0, 1, 2, 3]),
    "specific-offsets": ({"scan_startup_specific__offsets": "partition:0,offset:1"}, [1, 2, 3]),
    "timestamp": ({"scan_startup_timestamp__millis": "3000"}, [2, 3]),
    "group-offsets": ({"properties_auto_offset_reset": "earliest"}, [0, 1, 2, 3]),
}


@pytest.fixture
def make(broker: Broker, tmp_path: Path) -> Callable[[str], Sync]:
    return lambda value_format: Sync(broker, tmp_path / value_format, value_format)


@pytest.mark.parametrize("value_format", INSERTS)
def test_each_format_begins_at_the_startup_mode(
    make: Callable[[str], Sync], broker: Broker, tmp_path: Path, value_format: str
) -> None:  # [8-12, 31]
    topic = broker.topic()
    for number in range(4):
        broker.send(topic, INSERTS[value_format](number), timestamp=1000 * (number + 1), key=f'{{"id": "{number}"}}')
    for mode, (conf, expected) in STARTS.items():
        sync = Sync(broker, tmp_path / mode, value_format)
        run(sync.spec(topic, "--table", "t", startup=mode, **conf, properties_group_id=f"{topic}-{mode}"))
        assert sorted(int(row["id"]) for row in sync.rows("t")) == expected, mode


@pytest.mark.parametrize("value_format", INSERTS)
def test_each_format_can_have_metadata_columns_of_kafka(
    make: Callable[[str], Sync], broker: Broker, value_format: str
) -> None:  # [33]
    sync, topic = make(value_format), broker.topic()
    broker.send(topic, INSERTS[value_format](0), timestamp=1_700_000_000_123)
    run(sync.spec(topic, "--table", "t", "--metadata-column", "topic,partition,offset,timestamp,timestamp_type"))
    (row,) = sync.rows("t")
    assert [row[name] for name in ("topic", "partition", "offset", "timestamp_type")] == [topic, 0, 0, "CreateTime"]
    assert row["timestamp"].timestamp() == 1_700_000_000.123


@pytest.mark.parametrize("value_format", ["canal-json", "debezium-json", "aliyun-json"])
def test_a_table_with_a_column_that_is_too_narrow_is_refused(
    make: Callable[[str], Sync], broker: Broker, value_format: str
) -> None:  # [7, 35]
    sync, topic = make(value_format), broker.topic()
    sync.create("t", [("key", "INT NOT NULL"), ("id", "BOOLEAN")], ["key"])
    broker.send(topic, INSERTS[value_format](0))
    with pytest.raises(PenstockError):
        run(sync.spec(topic, "--table", "t"))
    assert sync.columns("t") == ["key INT NOT NULL", "id BOOLEAN"]


def test_images_of_aliyun_are_updates_and_deletes(make: Callable[[str], Sync], broker: Broker) -> None:  # [48]
    sync, topic = make("aliyun-json"), broker.topic()
    flags = ["--table", "t", "--table-conf", "bucket=1", "--table-conf", "changelog-producer=input"]
    broker.send(topic, aliyun("INSERT", 1, v="a"), aliyun("INSERT", 2, v="b"))
    run(sync.spec(topic, *flags, "--computed-column", "at=now()"))
    broker.send(topic, aliyun("UPDATE_BEFORE", 1, v="a"), aliyun("UPDATE_AFTER", 1, v="c"), aliyun("DELETE", 2, v="b"))
    run(sync.spec(topic, *flags, "--computed-column", "at=now()"))
    table = sync.table("t")
    assert table.primary_keys == ["id"]
    assert [(row["id"], row["v"]) for row in sync.rows("t")] == [(1, "c")]
    assert all(row["at"] is not None for row in sync.rows("t"))
    changes = table.changes(1, 2).to_pylist()
    assert [(row["rowkind"], row["id"], row["v"]) for row in changes] == [
        ("-U", 1, "a"),
        ("+U", 1, "c"),
        ("-D", 2, "b"),
    ]


@pytest.mark.parametrize("mode", ["divided", "combined"])
def test_both_modes_accept_new_tables_of_all_bucket_modes(
    make: Callable[[str], Sync], broker: Broker, mode: str
) -> None:
    sync, topic = make("canal-json"), broker.topic()
    flags = ["--mode", mode, "--eager-init", "true"]
    broker.send(topic, canal("INSERT", "one", {"id": "INT"}, {"id": "1"}))
    run(sync.spec(topic, *flags))
    broker.send(topic, canal("INSERT", "two", {"id": "INT"}, {"id": "2"}))
    run(sync.spec(topic, *flags, "--table-conf", "bucket=2"))
    assert (sync.ids("one"), sync.ids("two")) == ([1], [2])
    assert [sync.table(name).options.get("bucket") for name in ("one", "two")] == [None, "2"]
    latest = sync.table("one").latest_snapshot
    assert latest is not None
    assert latest.id == 2  # eager: a snapshot with every batch, rows or none


def test_a_batch_has_about_the_bytes_of_its_limit(make: Callable[[str], Sync], broker: Broker) -> None:
    sync, topic = make("canal-json"), broker.topic(partitions=2)
    for number in range(40):
        broker.send(topic, canal("INSERT", "t", {"id": "INT"}, {"id": str(number)}), partition=number % 2)
    size = len(canal("INSERT", "t", {"id": "INT"}, {"id": "10"}))
    run(sync.spec(topic, "--max-batch-bytes", str(10 * size)))
    assert sync.ids("t") == list(range(40))
    assert len(list(sync.table("t").store.snapshots.newest_first())) in {4, 5}
