"""Planned batches whose records the topic no longer has: they are refused, and accepted gaps lead past them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PositionLost, SourceError
from penstock.ingest.kafka.source import KafkaSource
from penstock.ingest.source import NO_LIMIT, Range
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.driver.batch_driver import BatchDriver
from penstock.pipelines.spark_cdc.change_stream import TableChangeStream
from penstock.pipelines.spark_cdc.declared_columns import declared_schema
from penstock.pipelines.spark_cdc.query_columns import QueryColumns
from penstock.pipelines.spark_cdc.read_options import CdcRead
from tests.integration.failing_calls import Killed, die
from tests.integration.kafka.conftest import Broker
from tests.integration.kafka.sync import Sync
from tests.integration.kafka.test_behaviours import canal
from tests.without_spark import run_here

pytestmark = pytest.mark.kafka


def spec(sync: Sync, topic: str, *, gap: bool = False) -> PipelineSpec:
    made = sync.spec(topic, "--table", "t", "--accept-gap") if gap else sync.spec(topic, "--table", "t")
    # Without keys, rows that come twice are seen.
    return made.model_copy(
        update={"sink": made.sink.model_copy(update={"sync_primary_keys_from_source_schema": False})}
    )


def send(broker: Broker, topic: str, *ids: int) -> None:
    broker.send(topic, *(canal("INSERT", "t", {"id": "INT"}, {"id": str(number)}, pkNames=None) for number in ids))


def planned(sync: Sync, topic: str, *ids: int) -> None:
    """Read one record, and plan a batch of these that is not read."""
    send(sync.broker, topic, 0)
    run_here(spec(sync, topic))
    send(sync.broker, topic, *ids)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BatchDriver, "take", lambda *_: die())
        with pytest.raises(Killed):
            run_here(spec(sync, topic))


@pytest.mark.parametrize("new", [(), (7,), (7, 8, 9, 10, 11)], ids=["empty", "shorter", "longer"])
def test_a_planned_batch_of_a_topic_that_was_created_again_is_refused(
    broker: Broker, tmp_path: Path, new: tuple[int, ...]
) -> None:
    sync, topic = Sync(broker, tmp_path), broker.topic()
    planned(sync, topic, 1, 2)
    broker.renew(topic)
    send(broker, topic, *new)
    with pytest.raises(PositionLost, match="created again"):
        run_here(spec(sync, topic))
    run_here(spec(sync, topic, gap=True))
    assert sync.ids("t") == [0, *new]
    send(broker, topic, 12)
    run_here(spec(sync, topic))
    assert sync.ids("t") == [0, *new, 12]


@pytest.mark.parametrize("new", [[7], [7, 8, 9, 10, 11]], ids=["shorter", "longer"])
@pytest.mark.parametrize("gap", [False, True])
def test_records_of_a_topic_that_was_created_again_after_the_plan_are_not_committed(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: list[int], *, gap: bool
) -> None:
    """If the new topic ends before the batch, the reader asks for its identity: it does not wait for more records."""
    sync, topic = Sync(broker, tmp_path), broker.topic()
    send(broker, topic, 0)
    run_here(spec(sync, topic))
    send(broker, topic, 1, 2)
    plan = KafkaSource.plan

    def planned_before_it_was_created_again(source: KafkaSource, *given: Any) -> list[Range]:
        found = plan(source, *given)
        monkeypatch.setattr(KafkaSource, "plan", plan)
        broker.renew(topic)
        send(broker, topic, *new)
        return found

    monkeypatch.setattr(KafkaSource, "plan", planned_before_it_was_created_again)
    with pytest.raises(SourceError, match="created again") as refused:
        run_here(spec(sync, topic, gap=gap))
    assert isinstance(refused.value, PositionLost) is not gap
    assert sync.ids("t") == [0]
    run_here(spec(sync, topic, gap=True))
    assert sync.ids("t") == [0, *new]


def test_a_planned_batch_of_a_topic_that_was_deleted_is_refused(broker: Broker, tmp_path: Path) -> None:
    sync, topic = Sync(broker, tmp_path), broker.topic(name="gone-a")
    other = broker.topic(name="gone-b")
    send(broker, topic, 0)
    run_here(spec(sync, "gone-.*"))
    send(broker, topic, 1, 2)
    send(broker, other, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BatchDriver, "take", lambda *_: die())
        with pytest.raises(Killed):
            run_here(spec(sync, "gone-.*"))
    broker.delete(topic)
    with pytest.raises(PositionLost, match="does not exist any more"):
        run_here(spec(sync, "gone-.*"))
    run_here(spec(sync, "gone-.*", gap=True))
    assert sync.ids("t") == [0, 3]


@pytest.mark.parametrize("new", [[7], [7, 8, 9]], ids=["shorter", "longer"])
def test_a_task_of_a_spark_source_refuses_a_topic_that_was_created_again_after_its_plan(
    broker: Broker, new: list[int]
) -> None:
    topic = broker.topic()
    send(broker, topic, 0, 1)
    options = {
        "properties.bootstrap.servers": broker.properties["bootstrap.servers"],
        "topic": topic,
        "value.format": "canal-json",
        "startup.mode": "earliest-offset",
    }
    read = CdcRead.of("kafka", options)
    stream = TableChangeStream(QueryColumns.of(read, declared_schema(read)))
    start = stream.initial_offsets()
    [task] = stream.inputs(start, stream.latest_offsets(start, NO_LIMIT, None))
    assert sum(map(len, stream.read(task))) == 2
    broker.renew(topic)
    send(broker, topic, *new)
    with pytest.raises(PositionLost, match="created again"):
        list(stream.read(pickle.loads(pickle.dumps(task))))
    stream.close()
