"""Secrets that are plain values of a pipeline from Kafka with Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.kafka.conftest import Broker
from tests.integration.kafka.test_formats_alike import aliyun
from tests.integration.secrets_in_spark import places_with_secrets

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
# The client reads the login of SASL also where the connection does not need it.
SOURCE = """
source:
  type: kafka
  topic: TOPIC
  value.format: aliyun-json
  startup: {mode: earliest-offset}
  properties:
    {bootstrap.servers: "127.0.0.1:PORT", sasl.mechanism: PLAIN, sasl.username: u, sasl.password: HUSH,
     ssl.key.password: HUSH}
  schema-registry: {url: "http://user:HUSH@127.0.0.1:1"}
"""


def test_no_place_shows_plain_secrets_of_a_pipeline(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.send(topic, aliyun("INSERT", 1, v="a"))
    source = SOURCE.replace("PORT", str(broker.port)).replace("TOPIC", topic)
    assert places_with_secrets(source, tmp_path) == []
