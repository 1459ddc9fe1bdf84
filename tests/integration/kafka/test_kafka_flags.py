"""The effects of the flags of the Kafka actions on tables, through a real broker."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from confluent_kafka import Producer

from penstock.errors import PenstockError
from penstock.pipelines.api.check_source import check_source
from tests.here import run
from tests.integration.kafka.conftest import Broker
from tests.integration.kafka.sync import Sync
from tests.servers.produce import SECONDS, taken
from tests.shop import insert

pytestmark = pytest.mark.kafka


@pytest.fixture
def sync(broker: Broker, tmp_path: Path) -> Sync:
    return Sync(broker, tmp_path)


def test_names_filters_and_mappings_decide_the_tables(sync: Sync, broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, *(insert(table, {"id": 1, "name": "x"}) for table in ("orders", "users", "skus", "secret")))
    flags = ["--table-prefix", "p_", "--table_suffix", "_s", "--table-prefix-db", "SHOP=shop_"]
    flags += ["--table-mapping", "USERS=people", "--including-tables", "orders|users|secret"]
    run(sync.spec(topic, *flags, "--excluding-tables", "sec.*"))
    assert sync.tables() == {"shop_orders_s", "people"}


def test_databases_are_left_out_by_name_and_excluding_wins(sync: Sync, broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, insert("orders", {"id": 1}), insert("orders", {"id": 2}).replace('"shop"', '"old_shop"'))
    run(sync.spec(topic, "--including-dbs", ".*shop", "--excluding-dbs", "old_.*"))
    assert sync.ids("orders") == [1]


def test_partitions_can_be_set_for_all_tables_and_for_one(sync: Sync, broker: Broker) -> None:
    topic = broker.topic()
    row = {"id": 1, "name": "x", "q1": 3}
    broker.send(topic, insert("orders", row), insert("users", row), insert("skus", {"id": 1}))
    flags = ["--primary-keys", "id,name,q1", "--partition-keys", "name"]
    run(sync.spec(topic, *flags, "--multiple-table-partition-keys", "users=name,q1"))
    found = {name: tuple(sync.table(name).partition_keys) for name in ("orders", "users", "skus")}
    assert found == {"orders": ("name",), "users": ("name", "q1"), "skus": ()}
    assert sync.table("skus").primary_keys == ["id"]  # lacks the keys that were given: the source's own


def test_later_topics_and_partitions_are_read_from_their_beginning(sync: Sync, broker: Broker) -> None:
    first = broker.topic(name="later-a")
    broker.send(first, insert("orders", {"id": 1}))
    run(sync.spec("later-.*"))
    broker.add_partition(first, 2)
    second = broker.topic(name="later-b")
    broker.send(first, insert("orders", {"id": 2}), partition=1)
    broker.send(second, insert("orders", {"id": 3}))
    run(sync.spec("later-.*", startup="latest-offset"))  # only the first start asks for it
    assert sync.ids("orders") == [1, 2, 3]


def test_several_topics_are_written_to_one_set_of_tables(sync: Sync, broker: Broker) -> None:
    topics = [broker.topic() for _ in range(3)]
    for number, topic in enumerate(topics):
        broker.send(topic, insert("orders", {"id": number}))
    run(sync.spec(";".join(topics)))
    assert sync.ids("orders") == [0, 1, 2]


def test_specific_offsets_and_times_set_the_start(sync: Sync, broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    topic = broker.topic()
    for number in range(4):
        broker.send(topic, insert("orders", {"id": number}), timestamp=1000 * (number + 1))
    conf = {"scan_startup_specific__offsets": "partition:0,offset:2;partition:7,offset:1"}
    with caplog.at_level(logging.WARNING):
        run(sync.spec(topic, startup="specific-offsets", **conf))
    assert sync.ids("orders") == [2, 3]
    assert f"event=startup_offset_without_partition topic={topic} partition=7" in caplog.text
    other = Sync(broker, sync.folder / "other")
    run(other.spec(topic, startup="timestamp", scan_startup_timestamp__millis="4000"))
    assert other.ids("orders") == [3]


def test_a_group_without_offsets_starts_at_its_reset_policy_and_commits_its_progress(
    sync: Sync, broker: Broker
) -> None:
    topic = broker.topic()
    broker.send(topic, insert("orders", {"id": 1}))
    conf = {"properties_group_id": f"g-{topic}", "properties_auto_offset_reset": "earliest"}
    run(sync.spec(topic, startup="group-offsets", **conf))
    assert sync.ids("orders") == [1]
    broker.send(topic, insert("orders", {"id": 2}))
    other = Sync(broker, sync.folder / "other")
    run(other.spec(topic, startup="group-offsets", **conf))
    assert other.ids("orders") == [2]


@pytest.mark.parametrize(
    ("startup", "conf", "message"),
    [
        ("group-offsets", {"properties_group_id": "nobody"}, "has committed no offset to start from"),
        (
            "specific-offsets",
            {"scan_startup_specific__offsets": "partition:0,offset:99"},
            "an offset that the Kafka partition does not have yet",
        ),
    ],
)
def test_a_start_without_a_position_is_refused_before_tables_are_created(
    sync: Sync, broker: Broker, startup: str, conf: dict[str, str], message: str
) -> None:
    topic = broker.topic()
    broker.send(topic, insert("orders", {"id": 1}))
    spec = sync.spec(topic, startup=startup, **conf)
    with pytest.raises(PenstockError, match=message):
        list(check_source(spec))
    with pytest.raises(PenstockError, match=message):
        run(spec)
    assert "ods" not in sync.warehouse.open().databases() or sync.tables() == set()


def test_rows_of_aborted_transactions_and_their_offset_gaps_are_skipped(sync: Sync, broker: Broker) -> None:
    topic = broker.topic()
    producer = Producer(broker.properties | {"transactional.id": topic})
    producer.init_transactions(SECONDS)
    for number in range(4):
        producer.begin_transaction()
        producer.produce(topic, insert("orders", {"id": number}), partition=0)
        taken(producer)
        producer.abort_transaction(SECONDS) if number % 2 else producer.commit_transaction(SECONDS)
    run(sync.spec(topic, "--max-batch-rows", "2"))
    assert sync.ids("orders") == [0, 2]
