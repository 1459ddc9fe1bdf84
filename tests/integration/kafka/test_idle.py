"""Runs over Kafka without Spark: whether there is nothing to do, and batches from a real broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PositionLost, SourceError
from penstock.ingest.kafka import broker_errors
from penstock.pipelines.config.model import PipelineSpec
from tests.integration.kafka.conftest import Broker
from tests.integration.kafka.test_restarts import spec as spec_of
from tests.shop import Shop, insert
from tests.without_spark import is_idle, run_without_spark

pytestmark = pytest.mark.kafka


class Orders:
    """A pipeline over one topic."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker, self.shop, self.topic = broker, Shop(folder), broker.topic()
        self.send(1)
        self.run()

    @property
    def spec(self) -> PipelineSpec:
        return spec_of(self.shop, self.broker, self.topic)

    def send(self, number: int, **more: Any) -> None:
        self.broker.send(self.topic, insert("orders", {"id": number}), **more)

    def run(self) -> None:
        run_without_spark(self.spec)

    @property
    def is_idle(self) -> bool:
        return is_idle(self.spec)


@pytest.fixture
def orders(broker: Broker, tmp_path: Path) -> Orders:
    return Orders(broker, tmp_path)


def test_a_run_is_idle_until_records_arrive(orders: Orders) -> None:
    assert orders.is_idle
    assert orders.is_idle  # the question changes nothing
    orders.send(2)
    assert not orders.is_idle
    orders.run()
    assert orders.shop.ids("orders") == [1, 2]
    assert orders.is_idle


def test_a_new_partition_is_found(orders: Orders) -> None:
    orders.broker.add_partition(orders.topic, 2)
    assert not orders.is_idle  # the partition is noted, also without records
    orders.run()
    assert orders.is_idle
    orders.send(2, partition=1)
    assert not orders.is_idle
    orders.run()
    assert orders.shop.ids("orders") == [1, 2]


def test_records_that_the_broker_deleted_are_missed_by_the_run(orders: Orders) -> None:
    orders.send(2)
    orders.send(3)
    orders.broker.drop_before(orders.topic, 2)
    assert not orders.is_idle
    with pytest.raises(PositionLost):
        orders.run()


def test_a_topic_that_was_created_again_is_noticed(orders: Orders) -> None:
    orders.broker.renew(orders.topic)
    orders.send(7)
    assert not orders.is_idle


def test_a_broker_that_is_away_ends_the_run(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_errors, "PATIENCE_SECONDS", 1.0)
    away = orders.spec.model_dump(by_alias=True)
    away["source"]["properties"] = {"bootstrap.servers": "127.0.0.1:1"}
    with pytest.raises(SourceError, match="Kafka: ") as caught:
        run_without_spark(PipelineSpec.model_validate(away))
    assert caught.value.retryable
    assert caught.value.facts["brokers"] == "127.0.0.1:1"
