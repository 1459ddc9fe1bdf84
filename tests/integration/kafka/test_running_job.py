"""A Kafka pipeline that goes on running: in small batches, over a broker that restarts, partitions and topics that come
later, told to a consumer group and by `penstock status`, and with its tables looked after while nothing comes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from penstock.table.meta.store import TableMissing
from tests.integration.kafka.conftest import Broker
from tests.integration.spark.test_running import json_output, running, until
from tests.servers import launch
from tests.shop import Shop, insert

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

GROUP = "watched"
FIRST = 40


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("own")
    with launch.running("kafka", folder) as port:
        yield Broker(port, folder)


def described(shop: Shop, broker: Broker) -> None:
    (shop.folder / "shop.yaml").write_text(
        f"pipeline: {{name: shop, trigger: 200ms, checkpoint: {shop.folder}/checkpoint, max-batch: {{bytes: 3kb}}}}\n"
        f"source:\n"
        f"  type: kafka\n"
        f"  topic-pattern: shop-.*\n"
        f"  properties: {{bootstrap.servers: '127.0.0.1:{broker.port}', group.id: {GROUP}}}\n"
        f"  value.format: canal-json\n"
        f"  startup: {{mode: earliest-offset}}\n"
        f"sink:\n"
        f"  catalog: {{warehouse: {shop.folder}/warehouse}}\n"
        f"  database: ods\n"
        f"  compaction: {{maintenance-interval: 1s}}\n"
        f"  table-options:\n"
        f"    {{bucket: '1', snapshot.num-retained.min: '1', snapshot.num-retained.max: '2', "
        f"snapshot.time-retained: 1 ms}}\n"
    )


def ids(shop: Shop) -> list[int]:
    try:
        return shop.ids("orders")
    except TableMissing:
        return []


def committed(broker: Broker, topic: str) -> int:
    request = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(topic, 0)])
    (place,) = broker.admin.list_consumer_group_offsets([request])[GROUP].result().topic_partitions
    return int(place.offset)


def test_a_running_job_survives_a_broker_restart_and_finds_new_topics(own_broker: Broker, tmp_path: Path) -> None:
    shop, broker = Shop(tmp_path), own_broker
    first = broker.topic(name="shop-a")
    broker.send(first, *(insert("orders", {"id": number}) for number in range(FIRST)))
    described(shop, broker)
    with running(shop.folder, "run", "shop.yaml") as process:
        until(lambda: ids(shop) == list(range(FIRST)), process, shop.folder)
        latest = shop.table("orders").latest_snapshot
        assert latest is not None
        assert latest.commit_identifier >= 2  # some batches of three kilobytes
        broker.add_partition(first, 2)
        broker.send(first, insert("orders", {"id": FIRST}), partition=1)
        broker.send(broker.topic(name="shop-b"), insert("orders", {"id": FIRST + 1}))
        until(lambda: ids(shop) == list(range(FIRST + 2)), process, shop.folder)
        until(lambda: committed(broker, first) == FIRST, process, shop.folder)
        broker.stop()
        broker.start()
        broker.send(first, insert("orders", {"id": FIRST + 2}))
        until(lambda: ids(shop) == list(range(FIRST + 3)), process, shop.folder)
        until(lambda: shop.snapshots("orders") <= 2, process, shop.folder)
        output = json_output(shop.folder, "status", "shop.yaml")
        assert output["state"] == "running"
        assert set(output["lag"]) == {f"{first}/0", f"{first}/1", "shop-b/0"}
        process.send_signal(signal.SIGTERM)
        assert process.wait(240) == 0, (shop.folder / "log").read_text()[-3000:]
