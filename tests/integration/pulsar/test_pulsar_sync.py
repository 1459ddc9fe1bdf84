"""Paimon's Pulsar actions against a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.here import run
from tests.integration.pulsar.conftest import Broker
from tests.integration.pulsar.sync import Sync
from tests.samples import Sample, check, samples

pytestmark = pytest.mark.pulsar

ROOT = Path(__file__).resolve().parents[3]


def one_of_each_format() -> list[Sample]:
    """Return the first sample of each format; formats are tested by themselves, here only the way to them."""
    found: dict[str, Sample] = {}
    for sample in samples():
        found.setdefault(sample.format, sample)
    return list(found.values())


@pytest.mark.parametrize("sample", one_of_each_format(), ids=lambda item: item.id)
def test_sample_messages_become_the_expected_tables(sample: Sample, broker: Broker, tmp_path: Path) -> None:
    topic, sync = broker.topic(), Sync(broker, tmp_path, sample.format)
    flags = [*sample.arguments, *sync.flags(topic)]
    for step in sample.steps:
        for _, messages in step.feed:
            send(broker, topic, sample, messages)
        run(spec_of(sample, flags))
        assert sync.tables() == set(step.tables)
        for name, expected in step.tables.items():
            check(sync.table(name), expected, topic)


def spec_of(sample: Sample, flags: list[str]):  # type: ignore[no-untyped-def]
    from penstock.pipelines.commands.sync import spec_of_action

    return spec_of_action(sample.action.replace("kafka", "pulsar"), flags)


def send(broker: Broker, topic: str, sample: Sample, messages: list[bytes]) -> None:
    if sample.format != "debezium-bson":
        broker.send(topic, *messages)
        return
    for key, value in zip(messages[::2], messages[1::2], strict=True):
        broker.send(topic, value, partition_key=key.decode())


@pytest.mark.spark
@pytest.mark.slow
def test_the_command_writes_a_topic_to_a_table_and_resumes(broker: Broker, tmp_path: Path) -> None:
    topic, sync = broker.topic(), Sync(broker, tmp_path, "json")
    for number in range(2):
        broker.send(topic, json.dumps({"id": number, "name": "x"}))
        arguments = ["pulsar_sync_table", *sync.flags(topic, "--table", "t")]
        command = [sys.executable, "-m", "penstock.pipelines.commands.main", *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 0, done.stderr
        assert sync.ids("t") == list(range(number + 1))
