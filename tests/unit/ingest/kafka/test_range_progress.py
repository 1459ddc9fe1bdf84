"""What a consumer returns while a range is read."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaError, Message

from penstock.errors import PositionLost, SourceError
from penstock.ingest.kafka.range_progress import RangeProgress
from penstock.ingest.patience import patience, patience_unless

ERROR = KafkaError(KafkaError._AUTO_OFFSET_RESET)


@pytest.mark.parametrize(
    ("failed", "is_lost"),
    [
        (Message(topic="t", partition=1, offset=10, error=ERROR), True),
        (Message(topic="t", partition=1, offset=12, error=ERROR), True),  # fetched ahead of what was handed out
        (Message(topic="t", partition=1, offset=-1001, error=ERROR), True),
        (Message(error=ERROR), True),
        (Message(topic="t", partition=0, offset=10, error=ERROR), False),
        (Message(topic="u", partition=1, offset=10, error=ERROR), False),
        (Message(topic="t", partition=1, offset=9, error=ERROR), False),
        (Message(topic="t", partition=1, offset=13, error=ERROR), False),
    ],
    ids=["here", "ahead", "without-offset", "without-place", "partition", "topic", "before", "after"],
)
def test_an_error_about_what_was_assigned_before_is_passed_over(failed: Message, *, is_lost: bool) -> None:
    progress = RangeProgress("t", 1, 13, 60)
    if is_lost:
        with pytest.raises(PositionLost):
            progress.records([failed], 10)
    else:
        assert progress.records([failed], 10) == []
        assert not progress.done(10)


BAD = KafkaError(KafkaError._BAD_MSG)


@pytest.mark.parametrize(
    ("failed", "is_error"),
    [
        (Message(topic="t", partition=1, offset=10, error=BAD), True),
        (Message(topic="t", partition=1, offset=2, error=BAD), True),
        (Message(topic="t", partition=1, offset=-1001, error=BAD), True),
        (Message(error=BAD), True),
        (Message(topic="t", partition=0, offset=10, error=BAD), False),
        (Message(topic="u", partition=1, offset=10, error=BAD), False),
        (Message(topic="u", partition=-1, error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), True),
    ],
    ids=["here", "begins-before", "without-offset", "without-place", "partition", "topic", "another-error"],
)
def test_damaged_records_of_what_was_assigned_before_are_no_error(failed: Message, *, is_error: bool) -> None:
    progress = RangeProgress("t", 1, 13, 60)
    if is_error:
        with pytest.raises(SourceError):
            progress.records([failed], 10)
    else:
        assert progress.records([failed], 10) == []
        assert not progress.done(10)


def test_damaged_records_behind_the_end_of_a_range_do_not_fail_it() -> None:
    """The client fetches ahead, and keeps errors of earlier assignments: the records before the end are still read."""
    progress = RangeProgress("t", 1, 13, 60)
    assert progress.records([Message(topic="t", partition=1, offset=20, error=BAD)], 10) == []
    assert not progress.done(10)


def test_each_further_connection_gets_more_time_until_records_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0
    monkeypatch.setattr(time, "monotonic", lambda: float(now))
    progress, renewals = RangeProgress("t", 1, 13, 100), []
    for now in range(1, 100):
        if progress.is_stuck():
            renewals.append(now)
    assert renewals == [25, 75]
    progress.records([Message(topic="t", partition=1, offset=11)], 11)
    now += 25
    assert progress.is_stuck()


def test_a_stop_ends_the_wait_for_records() -> None:
    asked: list[None] = []
    with patience_unless(lambda: bool(asked)):
        progress = RangeProgress("t", 1, 13, 60)
        assert progress.records([], 10) == []
        asked.append(None)
        with pytest.raises(SourceError, match="a stop ended") as ended:
            progress.records([], 10)
        assert ended.value.retryable
    with patience(0.0):  # a question, which no stop has ended
        assert RangeProgress("t", 1, 13, 60).records([], 10) == []


def test_a_silent_broker_may_have_a_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 20,000 bytes a second, it answered each fetch of a batch of 950,000 bytes without records."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    progress = RangeProgress("t", 1, 13, 100)
    now = 101.0
    with pytest.raises(SourceError, match="no records from Kafka for 100 s") as silent:
        progress.records([], 10)
    assert "consumer_byte_rate" in str(silent.value.hint)
    assert silent.value.retryable
