"""A pipeline over Kafka without its checkpoint, or after the broker deleted the records that come next."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError, PenstockError, PositionLost
from penstock.pipelines.api.check import checked_spec
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.errors import CheckpointMismatch
from penstock.table.commit.committer import Committer
from tests.here import note_as_spark_does, run
from tests.integration.kafka.conftest import Broker
from tests.shop import Shop, insert

pytestmark = pytest.mark.kafka


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def spec(shop: Shop, broker: Broker, topic: str, **pipeline: Any) -> PipelineSpec:
    source = {
        "type": "kafka",
        "topic": [topic],
        "properties": broker.properties,
        "value.format": "canal-json",
        "startup": {"mode": "earliest-offset"},
    }
    # Rows that come twice are seen: there are no keys.
    sink = {"table-options": {}, "sync-primary-keys-from-source-schema": "false"}
    made = shop.spec(pipeline=pipeline, sink=sink)
    return made.model_validate({**made.model_dump(by_alias=True), "source": source})


class Died(PenstockError):
    """The driver's death, as far as the tables can tell."""


def die_before_users(patch: pytest.MonkeyPatch) -> None:
    commit = Committer.commit

    def dying(self: Committer, *given: object, **named: object) -> object:
        if self.store.name == "ods.users":
            raise Died("died between two tables")
        return commit(self, *given, **named)  # type: ignore[arg-type]

    patch.setattr(Committer, "commit", dying)


def test_a_lost_checkpoint_is_rebuilt_from_the_tables_exactly_once(
    shop: Shop, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.topic(partitions=2)
    broker.send(topic, insert("orders", {"id": 1}), insert("users", {"id": 1}))
    run(spec(shop, broker, topic))
    broker.send(topic, insert("orders", {"id": 2}), insert("users", {"id": 2}), partition=1)
    with monkeypatch.context() as patch:
        die_before_users(patch)
        with pytest.raises(Died):
            run(spec(shop, broker, topic))
    assert (shop.ids("orders"), shop.ids("users")) == ([1, 2], [1])
    shutil.rmtree(shop.folder / "checkpoint")  # refused at the start, also where the batch has a new table
    broker.send(topic, insert("orders", {"id": 3}), insert("others", {"id": 3}))
    with pytest.raises(CheckpointMismatch, match="another checkpoint"):
        run(spec(shop, broker, topic))
    shutil.rmtree(shop.folder / "checkpoint")
    run(spec(shop, broker, topic, resume_from_tables=True))
    assert (shop.ids("orders"), shop.ids("users"), shop.ids("others")) == ([1, 2, 3], [1, 2], [3])


def test_a_resumed_checkpoint_continues_without_the_flag(shop: Shop, broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, insert("orders", {"id": 1}))
    run(spec(shop, broker, topic))
    broker.send(topic, insert("users", {"id": 1}))
    run(spec(shop, broker, topic))
    shutil.rmtree(shop.folder / "checkpoint")
    run(spec(shop, broker, topic, resume_from_tables=True))
    broker.send(topic, insert("orders", {"id": 2}))
    run(spec(shop, broker, topic))
    assert (shop.ids("orders"), shop.ids("users")) == ([1, 2], [1])


def test_resuming_from_tables_needs_tables(shop: Shop, broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, insert("orders", {"id": 1}))
    with pytest.raises(ConfigError, match="nothing to resume from"):
        run(spec(shop, broker, topic, resume_from_tables=True))


def test_a_gap_is_skipped_only_if_accepted(shop: Shop, broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, *(insert("orders", {"id": number}) for number in range(3)))
    run(spec(shop, broker, topic, **{"max-batch": {"rows": 1}}))
    broker.send(topic, *(insert("orders", {"id": number}) for number in (3, 4)))
    broker.drop_before(topic, 4)
    with pytest.raises(PositionLost) as lost:
        run(spec(shop, broker, topic))
    assert "--accept-gap" in str(lost.value)
    note_as_spark_does(shop.folder / "checkpoint")
    found = [finding for finding in checked_spec(spec(shop, broker, topic)) if finding.level == "error"]
    assert [(finding.message.partition(";")[0], finding.code) for finding in found] == [(lost.value.message, 4)]
    assert all(finding.level != "error" for finding in checked_spec(spec(shop, broker, topic, accept_gap=True)))
    run(spec(shop, broker, topic, accept_gap=True))
    assert shop.ids("orders") == [0, 1, 2, 4]


def test_a_recreated_topic_is_read_from_its_beginning_if_accepted(shop: Shop, broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, *(insert("orders", {"id": number}) for number in range(3)))
    run(spec(shop, broker, topic))
    broker.renew(topic)
    broker.send(topic, insert("orders", {"id": 7}))
    with pytest.raises(PositionLost, match="created again"):
        run(spec(shop, broker, topic))
    run(spec(shop, broker, topic, accept_gap=True))
    assert shop.ids("orders") == [0, 1, 2, 7]


def test_a_planned_batch_that_lost_its_first_records_reads_the_rest(
    shop: Shop, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.topic()
    broker.send(topic, *(insert("users", {"id": number}) for number in range(4)))
    with monkeypatch.context() as patch:
        die_before_users(patch)
        with pytest.raises(Died):
            run(spec(shop, broker, topic))
    broker.drop_before(topic, 2)
    with pytest.raises(PositionLost):
        run(spec(shop, broker, topic))
    run(spec(shop, broker, topic, accept_gap=True))
    assert shop.ids("users") == [2, 3]
