"""Brokers that are away: a run waits for them, a look does not; and they are not told of thousands of times."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from penstock.errors import SourceError
from penstock.ingest.kafka.broker_errors import broker_error, patiently
from penstock.ingest.kafka.client import EventLine, consumed
from penstock.ingest.kafka.cluster import KafkaCluster, MissingTopic
from penstock.ingest.messages.client_log import Seldom
from penstock.ingest.patience import patience, patience_unless
from tests.waiting import at_most


def away() -> None:
    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def attempts(seconds: float) -> int:
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


def test_a_check_does_not_retry() -> None:
    assert attempts(0.0) == 1
    assert attempts(10.0) > 3


def test_a_stop_ends_the_wait_for_a_broker() -> None:
    pauses: list[float] = []
    with patience_unless(lambda: len(pauses) == 2), pytest.raises(SourceError):
        patiently(away, clock=lambda: sum(pauses), sleep=pauses.append)
    assert len(pauses) == 2


def test_a_stop_ends_the_wait_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow broker gets a minute for each request, in which a run has to end."""
    looks: list[float] = []
    client = SimpleNamespace(describe_topics=lambda *_, **__: {"t": Future[SimpleNamespace]()}, poll=looks.append)
    monkeypatch.setattr("penstock.ingest.kafka.cluster.admin", lambda *_: client)
    monkeypatch.setattr("penstock.ingest.kafka.cluster._LOOK_SECONDS", 0.0)
    with patience_unless(lambda: len(looks) >= 3), pytest.raises(SourceError, match="was ended") as caught:
        KafkaCluster({}).topic_ids({"t"})
    assert caught.value.retryable


def test_an_error_names_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = KafkaCluster({"bootstrap.servers": "127.0.0.1:1"})
    monkeypatch.setattr(cluster, "_metadata", away)
    with patience(0.1), pytest.raises(SourceError) as caught:
        cluster.topics_matching(".*")
    assert caught.value.facts["brokers"] == "127.0.0.1:1"


class Broken:
    """A client that waits for a broker that is gone."""

    def __init__(self) -> None:
        self.timeouts: list[float] = []

    def list_topics(self, timeout: float) -> None:
        self.timeouts.append(timeout)
        away()

    def poll(self, _: float) -> None:
        pass


def test_a_request_that_timed_out_is_repeated_with_a_new_client(monkeypatch: pytest.MonkeyPatch) -> None:
    broken, working = Broken(), SimpleNamespace(list_topics=lambda **_: SimpleNamespace(topics={"t": None}))
    clients = iter([broken, working])
    monkeypatch.setattr("penstock.ingest.kafka.cluster.admin", lambda *_: next(clients))
    assert KafkaCluster({}).topics_matching("t") == ["t"]
    assert len(broken.timeouts) == 1


def test_an_answer_that_is_no_text_is_an_error_that_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def garbled(**_: object) -> None:
        b"topic \xe3".decode()

    monkeypatch.setattr("penstock.ingest.kafka.cluster.admin", lambda *_: SimpleNamespace(list_topics=garbled))
    with pytest.raises(SourceError, match="not UTF-8") as caught:
        KafkaCluster({}).topics_matching("t")
    assert caught.value.retryable
    assert "check the network" in (caught.value.hint or "")


def test_messages_that_are_no_text_are_an_error_that_may_pass() -> None:
    with pytest.raises(SourceError, match="not UTF-8") as caught:
        consumed(cast(Consumer, SimpleNamespace(consume=lambda *_: b"\xe3".decode())), 1, 0.1)
    assert caught.value.retryable


def test_a_slow_broker_gets_more_time_with_each_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt has a new client: the connection that a shorter attempt made is lost with its client."""
    slow, working = Broken(), SimpleNamespace(list_topics=lambda **_: SimpleNamespace(topics={"t": None}))
    clients = iter([slow, slow, slow, slow, working])
    monkeypatch.setattr("penstock.ingest.kafka.cluster.admin", lambda *_: next(clients))
    monkeypatch.setattr("penstock.ingest.kafka.broker_errors.time.sleep", lambda _: None)
    assert KafkaCluster({}).topics_matching("t") == ["t"]
    assert slow.timeouts == [30, 60, 60, 60]


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED])
def test_a_missing_right_is_reported_with_its_topic_and_with_what_to_grant(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"open": Future[SimpleNamespace](), "closed": Future[SimpleNamespace]()}
    answers["open"].set_result(SimpleNamespace())
    answers["closed"].set_exception(KafkaException(KafkaError(code)))
    client = SimpleNamespace(describe_topics=lambda *_, **__: answers, poll=lambda _: None)
    monkeypatch.setattr("penstock.ingest.kafka.cluster.admin", lambda *_: client)
    with pytest.raises(SourceError, match="authorization failed") as caught:
        KafkaCluster({}).topic_ids({"open", "closed"})
    assert caught.value.facts["topic"] == "closed"
    assert "grant the user of the pipeline" in (caught.value.hint or "")
    assert not caught.value.retryable


def test_a_missing_right_for_the_group_is_reported_with_the_way_around() -> None:
    error = broker_error(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    assert "another startup mode" in (error.hint or "")


def test_the_same_client_message_is_logged_twice_per_minute() -> None:
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


def test_a_check_reports_at_once_that_no_broker_listens() -> None:
    with at_most(60), patience(0.0), pytest.raises(SourceError, match="no Kafka broker can be reached") as caught:
        KafkaCluster({"bootstrap.servers": "127.0.0.1:1"}).topics_matching(".*")
    assert "127.0.0.1:1: Connection refused" in str(caught.value)


@pytest.mark.parametrize(
    ("message", "event"),
    [
        (
            "FAIL [rdkafka#producer-1] [thrd:k:9092/boot]: k:9092/boot: Connect to ipv4#10.0.0.1:9092 failed: "
            "Connection refused (after 0ms in state CONNECT, 1 identical error(s) suppressed)",
            "event=kafka_client kind=fail broker=k:9092 "
            "reason=Connect to ipv4#10.0.0.1:9092 failed: Connection refused",
        ),
        (
            "CONFWARN [rdkafka#consumer-2] [thrd:app]: Configuration property x is deprecated",
            "event=kafka_client kind=confwarn reason=Configuration property x is deprecated",
        ),
        ("event=kafka_property_left_out name=x", "event=kafka_property_left_out name=x"),
    ],
)
def test_client_log_lines_have_our_format(message: str, event: str) -> None:
    record = logging.makeLogRecord({"msg": message, "levelno": logging.ERROR})
    assert EventLine().filter(record)
    assert record.getMessage() == event


def test_of_several_topics_only_the_missing_ones_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = KafkaCluster({"bootstrap.servers": "127.0.0.1:1"})
    monkeypatch.setattr(cluster, "_metadata", lambda: SimpleNamespace(topics={"t_a": None, "t_b": None}))

    def unknown(*_: object) -> object:
        error = SourceError("the topic is unknown")
        raise error from KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))

    patiently = cluster._patiently
    monkeypatch.setattr(cluster, "_patiently", lambda ask: patiently(ask) if ask == cluster._metadata else unknown())
    for asked, missing in (("t_a nosuch", "nosuch"), ("nosuch", "nosuch"), ("t_a t_b", "t_a, t_b")):
        with pytest.raises(MissingTopic) as caught:
            cluster.partitions(asked.split())
        assert caught.value.facts["topics"] == missing
