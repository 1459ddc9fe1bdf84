from __future__ import annotations

import pulsar
import pytest

from penstock.errors import SourceError
from penstock.ingest.patience import patience_unless
from penstock.ingest.pulsar.errors import broker_error, messages_gone, patiently
from penstock.ingest.pulsar.position import Position


def test_a_broker_that_restarts_answers_later() -> None:
    answers: list[object] = [pulsar.ConnectError("x"), pulsar.ServiceUnitNotReady("x"), 7]
    pauses: list[float] = []

    def ask() -> object:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert patiently(ask, "pulsar://h", clock=lambda: sum(pauses), sleep=pauses.append) == 7
    assert pauses == [0.2, 0.4]


def test_patience_ends() -> None:
    pauses: list[float] = []

    def ask() -> None:
        raise pulsar.ConnectError("away")

    with pytest.raises(SourceError, match="away") as caught:
        patiently(ask, "pulsar://h", topic="t", clock=lambda: sum(pauses), sleep=pauses.append)
    assert caught.value.retryable
    assert caught.value.facts["topic"] == "t"
    assert 100 < sum(pauses) <= 120


def test_a_stop_ends_the_wait_for_a_broker() -> None:
    pauses: list[float] = []

    def ask() -> None:
        raise pulsar.ConnectError("away")

    with patience_unless(lambda: len(pauses) == 2), pytest.raises(SourceError, match="away"):
        patiently(ask, "pulsar://h", clock=lambda: sum(pauses), sleep=pauses.append)
    assert len(pauses) == 2


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (pulsar.AuthorizationError("no"), "rejected the login"),
        (pulsar.TopicNotFound("no"), "does not exist"),
        (pulsar.InvalidTopicName("no"), "rejects a setting"),
    ],
)
def test_what_waiting_cannot_repair_is_final(error: pulsar.PulsarException, message: str) -> None:
    def ask() -> None:
        raise error

    with pytest.raises(SourceError, match=message):
        patiently(ask, "pulsar://h", sleep=lambda _: pytest.fail("it waits"))
    assert not broker_error(error, "pulsar://h").retryable


def test_deleted_messages_are_named_by_their_ids() -> None:
    error = messages_gone("t", -1, Position(12, 5, 9), Position(13, 0))
    assert (error.facts["asked_for"], error.facts["found"]) == ("12:5:9", "13:0:-1")
    assert "partition" not in error.facts or error.facts["partition"] is None
