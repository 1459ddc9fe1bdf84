"""Paimon's Kafka actions against a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from tests.here import run
from tests.integration.kafka.conftest import Broker
from tests.samples import Sample, check, samples
from tests.sync_flags import spec_of_action

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).resolve().parents[3]


def words(broker: Broker, topic: str, folder: Path, value_format: str) -> list[str]:
    conf = [f"topic={topic}", f"value.format={value_format}", "scan.startup.mode=earliest-offset"]
    conf.append(f"properties.bootstrap.servers=127.0.0.1:{broker.port}")
    return [
        *("--warehouse", f"{folder}/warehouse", "--database", "ods", "--until-caught-up"),
        *(word for item in conf for word in ("--kafka_conf", item)),
    ]


@pytest.mark.parametrize("sample", samples(), ids=lambda item: item.id)
def test_sample_messages_become_the_expected_tables(sample: Sample, broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    flags = [*sample.arguments, *words(broker, topic, tmp_path, sample.format)]
    warehouse = CatalogSettings.of(f"{tmp_path}/warehouse", {})
    for step in sample.steps:
        for _, messages in step.feed:
            send(broker, topic, sample, messages)
        run(spec_of_action(sample.action, flags))
        assert {name.partition(".")[2] for name in warehouse.tables("ods")} == set(step.tables)
        for name, expected in step.tables.items():
            check(Table(warehouse.store(f"ods.{name}")), expected, topic)


def send(broker: Broker, topic: str, sample: Sample, messages: list[bytes]) -> None:
    if sample.format != "debezium-bson":
        broker.send(topic, *messages)
        return
    for key, value in zip(messages[::2], messages[1::2], strict=True):
        broker.send(topic, value, key=key)


@pytest.mark.spark
def test_the_command_writes_a_topic_to_a_table_and_resumes(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    for number in range(2):
        broker.send(topic, json.dumps({"id": number, "name": "x"}))
        arguments = ["kafka_sync_table", "--table", "t", *words(broker, topic, tmp_path, "json")]
        command = [sys.executable, "-m", "penstock.pipelines.commands.main", *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 0, done.stderr
    table = Table(CatalogSettings.of(f"{tmp_path}/warehouse", {}).store("ods.t"))
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == ["0", "1"]
    assert len(list(table.store.snapshots.newest_first())) == 2
