"""Answers about offsets that were changed on their way: another answer decides, before anything is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from penstock.errors import SourceError
from penstock.ingest.kafka.cluster import KafkaCluster
from penstock.ingest.kafka.settings import KafkaSettings, StartOffsets
from penstock.ingest.kafka.source import KafkaSource
from penstock.ingest.source import NO_LIMIT, Offsets

FIRST, END = 3, 9
EARLIEST = StartOffsets("earliest-offset")


class Brokers:
    """Answers of an admin client; `changed` has, for each answer about offsets, what is added to it."""

    def __init__(self, changed: Iterator[int], new_ids: Sequence[str] = ()) -> None:
        self.changed, self.new_ids, self.asked = changed, iter(new_ids), 0

    def poll(self, _: float) -> None:
        pass

    def describe_topics(self, _: object, **__: object) -> dict[str, Future[Any]]:
        part = SimpleNamespace(id=0)
        return {"t": _done(SimpleNamespace(name="t", partitions=[part], topic_id=next(self.new_ids, "1")))}

    def list_offsets(self, specs: dict[TopicPartition, OffsetSpec], **_: object) -> dict[TopicPartition, Future[Any]]:
        self.asked += 1
        right = {"EarliestSpec": FIRST, "LatestSpec": END}
        return {
            place: _done(SimpleNamespace(offset=right[type(spec).__name__] + next(self.changed, 0), leader_epoch=4))
            for place, spec in specs.items()
        }


def _done(answer: object) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(answer)
    return future


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Offsets]:
    def plan(brokers: Brokers, start: Offsets, startup: StartOffsets = EARLIEST, **properties: str) -> Offsets:
        monkeypatch.setattr("penstock.ingest.kafka.cluster.admin", lambda *_: brokers)
        source = KafkaSource(KafkaSettings({"group.id": "g", **properties}, topics=("t",), startup=startup))
        return source.latest_offsets(start, NO_LIMIT)

    return plan


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("added", [1, 1 << 40, -2])
def test_one_changed_answer_moves_no_end_of_a_batch(which: int, added: int, planned: Callable[..., Offsets]) -> None:
    start = planned(Brokers(iter(())), {}) | {"offsets": {"t": {"0": 5}}}
    end = planned(Brokers(iter([0] * which + [added])), start)
    assert END - 2 <= end["offsets"]["t"]["0"] <= END
    first = planned(Brokers(iter([0] * which + [added])), {})
    assert first["began"] == {"t": {"0": FIRST}}


@pytest.mark.parametrize("startup", [StartOffsets("latest-offset"), StartOffsets("timestamp", millis=1)])
def test_a_changed_answer_leaves_out_no_record_of_a_new_pipeline(
    startup: StartOffsets, planned: Callable[..., Offsets], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([7 + (1 << 20), 7])
    monkeypatch.setattr(KafkaCluster, "at_time", lambda self, places, _: dict.fromkeys(places, next(times)))
    found = planned(Brokers(iter([1 << 20])), {}, startup)
    assert found["began"] == {"t": {"0": 7 if startup.mode == "timestamp" else END}}


def test_a_changed_id_of_a_topic_is_not_stored(planned: Callable[..., Offsets]) -> None:
    """With a wrong id every later batch would find the topic created again."""
    assert planned(Brokers(iter(()), ["2"]), {})["ids"] == {"t": "1"}


def test_answers_that_always_contradict_each_other_are_an_error_that_may_pass(
    planned: Callable[..., Offsets],
) -> None:
    with pytest.raises(SourceError, match="contradict each other") as caught:
        planned(Brokers(iter(range(100, 0, -1))), {})
    assert caught.value.retryable


def test_with_tls_one_answer_is_enough(planned: Callable[..., Offsets]) -> None:
    brokers = Brokers(iter(()))
    planned(brokers, {}, **{"security.protocol": "SASL_SSL"})
    assert brokers.asked == 2
