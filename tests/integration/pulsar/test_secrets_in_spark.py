"""Secrets that are plain values of a pipeline from Pulsar with Spark."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.integration.kafka.test_formats_alike import aliyun
from tests.integration.pulsar.conftest import Broker
from tests.integration.secrets_in_spark import HUSH, listed_with_secrets, places_with_secrets
from tests.waiting import ended, until

pytestmark = [pytest.mark.pulsar, pytest.mark.spark, pytest.mark.slow]
# The broker asks for no login: the client sends its token anyway.
SOURCE = """
source:
  type: pulsar
  topic: TOPIC
  value.format: aliyun-json
  properties:
    pulsar.client.serviceUrl: "pulsar://127.0.0.1:PORT"
    pulsar.admin.adminUrl: "ADMIN"
    pulsar.consumer.subscriptionName: lake
    pulsar.client.authPluginClassName: org.apache.pulsar.client.impl.auth.AuthenticationToken
    pulsar.client.authParams: "token:HUSH"
"""


def test_no_place_shows_plain_secrets_of_a_pipeline(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.send(topic, aliyun("INSERT", 1, v="a"))
    source = SOURCE.replace("PORT", str(broker.port)).replace("ADMIN", broker.admin_url).replace("TOPIC", topic)
    assert places_with_secrets(source, tmp_path) == []


def test_a_secret_among_the_words_of_a_process_is_found() -> None:
    found: set[str] = set()
    words = [sys.executable, "-c", "import sys; sys.stdin.read()", HUSH]
    with subprocess.Popen(words, stdin=subprocess.PIPE, text=True) as run:
        seen = threading.Thread(target=listed_with_secrets, args=(run, found))
        seen.start()
        until(lambda: found, "the process")
        run.communicate("")
        ended(seen)
    assert HUSH in found.pop()
