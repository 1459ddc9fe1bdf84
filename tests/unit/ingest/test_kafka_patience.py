"""Brokers that are away: a run waits for them, a look does not; and they are not told of thousands of times."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.errors import SourceError
from penstock.ingest.kafka.client import Seldom, patience, patiently
from penstock.ingest.kafka.cluster import KafkaCluster


def away() -> None:
    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def asked(seconds: float) -> int:
    """How often, by a clock that only pauses move."""
    now, count = [0.0], [0]

    def ask() -> None:
        count[0] += 1
        away()

    def sleep(pause: float) -> None:
        now[0] += pause

    with patience(seconds), pytest.raises(SourceError, match="Kafka") as caught:
        patiently(ask, clock=lambda: now[0], sleep=sleep)
    assert "bootstrap.servers" in (caught.value.hint or "")
    return count[0]


def test_who_only_looks_asks_once() -> None:
    assert asked(0.0) == 1
    assert asked(10.0) > 3


def test_an_error_names_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = KafkaCluster({"bootstrap.servers": "127.0.0.1:1"})
    monkeypatch.setattr(cluster, "_metadata", away)
    with patience(0.0), pytest.raises(SourceError) as caught:
        cluster.topics_matching(".*")
    assert caught.value.facts["brokers"] == "127.0.0.1:1"


def test_the_same_words_of_a_client_pass_twice_a_minute() -> None:
    now = [0.0]
    seldom = Seldom(30.0, lambda: now[0])

    def passes(text: str) -> bool:
        return seldom.filter(logging.makeLogRecord({"msg": text}))

    assert passes("[rdkafka#producer-1] refused (after 0ms in state)")
    now[0] = 29
    assert not passes("[rdkafka#producer-2] refused (after 13ms in state)")
    assert passes("[rdkafka#producer-2] another host refused (after 13ms in state)")
    now[0] = 31
    assert passes("[rdkafka#producer-1] refused (after 1ms in state)")
