"""Answers of a client that is assigned positions with their leader epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from penstock.errors import SourceError
from penstock.ingest.kafka import leader_epochs
from penstock.ingest.kafka.client import consumer
from penstock.ingest.kafka.leader_epochs import LeaderEpochs
from penstock.ingest.patience import patience

Place = tuple[str, int]
GONE, END, AWAY, DENIED = (
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError._PARTITION_EOF,
    KafkaError._TRANSPORT,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
)


class Answer:
    def __init__(self, place: Place, code: int | None) -> None:
        self.place, self.code = place, code

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)


class Client:
    """Answers with these codes, None for a record, and keeps what it was assigned."""

    def __init__(self, *answers: tuple[Place, int | None]) -> None:
        self.answers = [Answer(place, code) for place, code in answers]
        self.assigned: list[tuple[str, int, int, int]] = []
        self.closed = 0

    def __call__(self, properties: Mapping[str, str], changed: Mapping[str, str] | None = None) -> Any:
        return self

    def assign(self, places: Sequence[TopicPartition]) -> None:
        self.assigned += [(place.topic, place.partition, place.offset, place.leader_epoch) for place in places]

    def consume(self, count: int, seconds: float) -> list[Answer]:
        return [self.answers.pop(0)] if self.answers else []

    def close(self) -> None:
        self.closed += 1


def places(*values: int) -> dict[Place, int]:
    return {("t", number): value for number, value in enumerate(values)}


def test_only_partitions_with_another_epoch_are_examined_and_each_state_once() -> None:
    client = Client((("t", 1), AWAY), (("t", 2), END), (("t", 1), None))
    epochs = LeaderEpochs({}, connect=client)
    for _ in range(2):
        assert epochs.cut(places(5, 6, 7), places(3, 3, 3), places(3, 4, 4)) == set()
    assert client.assigned == [("t", 1, 6, 3), ("t", 2, 7, 3)]
    assert client.closed == 1


def test_a_partition_that_was_cut_is_found_again_by_the_next_question() -> None:
    epochs = LeaderEpochs({}, connect=(client := Client(*[(("t", 0), GONE)] * 2)))
    for _ in range(2):
        assert epochs.cut(places(5), places(3), places(4)) == {("t", 0)}
    assert client.closed == 2


def test_offsets_without_an_epoch_and_brokers_without_epochs_are_not_examined() -> None:
    epochs = LeaderEpochs({}, connect=(client := Client()))
    assert epochs.cut(places(5, 6), {}, places(4, 4)) == set()
    assert epochs.cut(places(5, 6), places(4, 4), {}) == set()
    assert client.assigned == []


@pytest.mark.parametrize(("code", "retryable"), [(AWAY, True), (DENIED, False)])
def test_a_broker_that_does_not_answer_or_refuses_is_an_error(
    code: int, retryable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A refusal is an answer, for which a machine that is busy may need longer.
    monkeypatch.setattr(leader_epochs, "ANSWER_SECONDS", 0.05 if retryable else 240.0)
    epochs = LeaderEpochs({}, connect=Client((("t", 0), code)))
    with patience(0.0), pytest.raises(SourceError) as caught:
        epochs.cut(places(5), places(3), places(4))
    assert caught.value.retryable is retryable


def test_a_command_without_patience_waits_for_the_connection() -> None:
    """A sample or the order of a first start failed after an election, because it waited only 0.2 seconds."""
    epochs = LeaderEpochs({}, connect=Client((("t", 0), AWAY), (("t", 0), AWAY), (("t", 0), END)))
    with patience(0.0):
        assert epochs.cut(places(5), places(3), places(4)) == set()


def test_without_an_answer_a_run_that_accepts_gaps_continues(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that never answers this request stopped the pipeline for ever."""
    monkeypatch.setattr(leader_epochs, "ANSWER_SECONDS", 0.05)
    epochs = LeaderEpochs({}, accept_gap=True, connect=(client := Client((("t", 0), GONE))))
    with patience(0.0):
        for _ in range(2):
            assert epochs.cut(places(5, 6), places(3, 3), places(4, 4)) <= {("t", 0)}
    assert "event=leader_epoch_not_compared topic=t partition=1 offset=6" in caplog.text
    assert client.assigned.count(("t", 1, 6, 3)) == 1


def test_the_client_reads_records_of_aborted_transactions_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a partition with many of them has no answer until the client has read past them."""
    settings: dict[str, object] = {}
    monkeypatch.setattr("penstock.ingest.kafka.client._made", lambda kind, given: settings.update(given))
    consumer({"isolation.level": "read_committed"}, leader_epochs.ANY_RECORDS)
    assert settings["isolation.level"] == "read_uncommitted"
    assert settings["fetch.message.max.bytes"] == "65536"
