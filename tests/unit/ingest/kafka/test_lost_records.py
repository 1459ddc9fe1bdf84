"""A topic with another id was created again. A topic whose id the broker did not know before was not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import Uuid

from penstock.errors import PositionLost
from penstock.ingest.kafka.cluster import KafkaCluster, MissingTopic
from penstock.ingest.kafka.lost_records import confirm_topics, gone_topics, recreated_topics, renewed_topics
from penstock.ingest.kafka.settings import KafkaSettings

KNOWN, OTHER, UNKNOWN = str(Uuid(0, 5)), str(Uuid(0, 6)), str(Uuid(0, 0))
SETTINGS = KafkaSettings({}, topics=("t",))


@pytest.mark.parametrize(("before", "now"), [(UNKNOWN, KNOWN), (KNOWN, None), (UNKNOWN, None), (KNOWN, KNOWN)])
def test_a_topic_whose_id_was_or_is_not_known_was_not_created_again(before: str, now: str | None) -> None:
    """So it is while the brokers of a cluster are updated one after the other."""
    offsets, ids = {"ids": {"t": before}}, {} if now is None else {"t": now}
    assert recreated_topics(SETTINGS, offsets, ids) == set()
    assert gone_topics(SETTINGS, offsets, ids) == set()
    confirm_topics(SETTINGS, offsets, ids)


def test_an_id_that_the_broker_does_not_know_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {"t": 0, "u": 5}

    def described(_: KafkaCluster, topics: list[str]) -> list[SimpleNamespace]:
        if "gone" in topics:
            raise MissingTopic("gone")
        return [SimpleNamespace(name=topic, topic_id=Uuid(0, numbers[topic]), partitions=[]) for topic in topics]

    monkeypatch.setattr(KafkaCluster, "_describe", described)
    cluster = KafkaCluster({"bootstrap.servers": "localhost:9"})
    assert cluster.partitions(["t", "u"]) == ([], {"u": KNOWN})
    assert cluster.topic_ids(["gone", "t", "u"]) == {"gone": None, "u": KNOWN}


def test_a_topic_with_another_id_was_created_again() -> None:
    assert renewed_topics({"ids": {"t": KNOWN, "u": KNOWN}}, {"t": OTHER}) == {"t"}
    with pytest.raises(PositionLost):
        confirm_topics(SETTINGS, {"ids": {"t": KNOWN}}, {"t": OTHER})


def test_a_topic_that_was_deleted_after_it_was_read_is_no_error() -> None:
    confirm_topics(SETTINGS, {"ids": {"t": KNOWN}}, {"t": None})
    with pytest.raises(PositionLost):
        gone_topics(SETTINGS, {"ids": {"t": KNOWN}}, {"t": None})
