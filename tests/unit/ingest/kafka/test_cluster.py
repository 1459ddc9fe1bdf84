"""The requests of an admin client, and how long each may take."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo

from penstock.ingest.kafka import cluster
from penstock.ingest.kafka.cluster import KafkaCluster

ANSWER_SECONDS = 6.0  # of a slow broker


class SlowAdmin:
    """A new client, which asks its broker for versions and metadata first: four answers until the first result."""

    def __init__(self, clients: list[SlowAdmin]) -> None:
        clients.append(self)

    def poll(self, _: float) -> None:
        pass

    def list_offsets(self, places: dict[TopicPartition, Any], *, request_timeout: float, **_: object) -> dict[Any, Any]:
        answers = {place: Future[ListOffsetsResultInfo]() for place in places}
        for answer in answers.values():
            if request_timeout > 4 * ANSWER_SECONDS:
                answer.set_result(ListOffsetsResultInfo(7, -1, 0))
            else:
                answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return answers


def test_the_first_client_waits_for_a_broker_that_needs_six_seconds_for_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients: list[SlowAdmin] = []
    monkeypatch.setattr(cluster, "admin", lambda *_: SlowAdmin(clients))
    monkeypatch.setattr(cluster, "is_patient", lambda: True)
    assert KafkaCluster({}).latest([("orders", 0)]) == {("orders", 0): 7}
    assert len(clients) == 1
