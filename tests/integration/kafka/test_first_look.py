"""Tables made before the first batch, by a look at the first records of a topic."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError, DecodeError, SourceError
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.driver.first_sample import FirstLook
from penstock.pipelines.driver.local_runner import run_tasks
from penstock.pipelines.job import build
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.table.catalog.settings import CatalogSettings
from tests.here import run
from tests.integration.kafka.conftest import Broker
from tests.shop import Shop, insert
from tests.waiting import ended, until

pytestmark = pytest.mark.kafka

DDL = json.dumps({"isDdl": True, "type": "CREATE", "database": "shop", "table": "orders", "data": None, "sql": "..."})


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def spec(shop: Shop, broker: Broker, topic: str, startup: str = "earliest-offset", **sink: Any) -> PipelineSpec:
    source = {
        "type": "kafka",
        "topic": [topic],
        "properties": broker.properties,
        "value.format": "canal-json",
        "startup": {"mode": startup},
    }
    made = shop.spec(sink=sink)
    return made.model_validate({**made.model_dump(by_alias=True), "source": source})


def test_the_first_batch_does_not_drift(shop: Shop, broker: Broker) -> None:
    topic = broker.topic(partitions=2)
    broker.send(topic, insert("orders", {"id": 1}), insert("users", {"id": 1}))
    broker.send(topic, insert("orders", {"id": 2, "q1": 5}), partition=1)
    made: list[str] = []
    reports: list[BatchReport] = []
    look = build.job(spec(shop, broker, topic))
    look.driver(shop.folder, 1, 1, run_tasks)
    made += shop.warehouse.tables("ods")
    run(spec(shop, broker, topic), on_batch=lambda _, report: reports.append(report))
    assert made == ["ods.orders", "ods.users"]
    assert shop.table("orders").schema_id == 0
    assert shop.rows("orders") == [{"id": 1, "q1": None}, {"id": 2, "q1": 5}]


def test_no_more_records_are_sampled_than_configured(shop: Shop, broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, *(insert(f"t{number}", {"id": 1}) for number in range(5)))
    look = build.job(spec(shop, broker, topic, **{"schema-init-max-read": 3}))
    look.driver(shop.folder, 1, 1, run_tasks)
    assert CatalogSettings.of(f"{shop.folder}/warehouse", {}).tables("ods") == ["ods.t0", "ods.t1", "ods.t2"]


def test_the_sample_of_one_table_continues_beyond_tombstones_and_ddl(shop: Shop, broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, *[None] * 40, *[DDL] * 60, insert("orders", {"id": 1}))
    run(spec(shop, broker, topic, table="t", **{"schema-init-max-read": 3}))
    assert shop.ids("t") == [1]


def test_a_pipeline_from_latest_samples_earlier_records_for_its_table(shop: Shop, broker: Broker) -> None:
    topic = broker.topic()
    broker.send(topic, insert("orders", {"id": 1}))
    run(spec(shop, broker, topic, "latest-offset", table="t"))
    assert shop.rows("t") == []


@pytest.mark.parametrize("messages", [(), (DDL,)], ids=["empty", "DDL only"])
def test_a_topic_without_a_schema_for_its_table_is_an_error(
    shop: Shop, broker: Broker, messages: tuple[str, ...]
) -> None:
    topic = broker.topic()
    broker.send(topic, *messages)
    with pytest.raises(SourceError, match=f"topic: {topic}"):
        run(spec(shop, broker, topic, table="t"))


@pytest.mark.parametrize("waits", [False, True])
def test_a_topic_with_only_bad_records_reports_their_errors(shop: Shop, broker: Broker, waits: bool) -> None:
    topic = broker.topic()
    broker.send(topic, '{"before": null, "after": {"id": 1}, "op": "c"}')
    with pytest.raises(DecodeError, match="missing 'type' field") as refused:
        run(spec(shop, broker, topic, table="t", **{"wait-for-data": waits}))
    assert refused.value.facts["place"] == f"{topic}/0"
    skipping = spec(shop, broker, topic, table="t")
    skipping = skipping.model_copy(update={"errors": skipping.errors.model_copy(update={"bad_record": "skip"})})
    with pytest.raises(SourceError, match="missing 'type' field"):
        run(skipping)


def test_wait_for_data_waits_for_the_first_record(shop: Shop, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, looked, look_on = broker.topic(), threading.Event(), FirstLook._look_on

    def noted(*given: Any) -> BatchReport:
        seen = look_on(*given)
        looked.set()
        return seen

    monkeypatch.setattr(FirstLook, "_look_on", noted)
    waiting = threading.Thread(target=run, args=[spec(shop, broker, topic, table="t", **{"wait-for-data": True})])
    waiting.start()
    until(looked.is_set, "a look at the empty topic")
    broker.send(topic, insert("orders", {"id": 1}))
    ended(waiting)
    assert shop.ids("t") == [1]


def test_an_avro_topic_needs_a_configured_registry(shop: Shop, broker: Broker) -> None:
    avro = spec(shop, broker, "t").model_dump(by_alias=True)
    avro["source"]["value.format"] = "debezium-avro"
    made = PipelineSpec.model_validate(avro)
    with pytest.raises(ConfigError, match="needs a schema registry"):
        build.job(made)
    avro["source"]["schema-registry"] = {"url": "http://localhost:1", "basic.auth.user.inf": "x"}
    with pytest.raises(ConfigError, match="is unknown"):
        build.job(PipelineSpec.model_validate(avro))
