"""Metadata of a Kafka cluster: topics, their ids, the ends of their partitions, the offsets of a group."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ClusterMetadata,
    ListOffsetsResultInfo,
    OffsetSpec,
    TopicDescription,
)

from penstock.errors import SourceError, without_logins
from penstock.ingest.kafka.broker_errors import (
    broker_error,
    illegible,
    is_passing,
    is_refusal,
    is_unknown_topic,
    lacks_right,
    patiently,
    refused,
    stopped,
)
from penstock.ingest.kafka.client import REQUEST_SECONDS, admin, check_reachable
from penstock.ingest.kafka.repeated_answers import bounds_agree, confirmed, has_tls
from penstock.ingest.patience import is_patient
from penstock.ingest.source import Range
from penstock.ingest.source_waits import ended_by_a_stop

Place: TypeAlias = tuple[str, int]  # topic, partition
_T = TypeVar("_T")
NO_ID = "A" * 22  # the zeros of an unknown topic id, as its text
_LOOK_SECONDS = 0.2
# A new client sends four requests in a row, and each answer may take six seconds. After a shorter limit, the next
# client would send all of them again.
FIRST_SECONDS = 1.5 * REQUEST_SECONDS
_MOST_SECONDS = 3 * REQUEST_SECONDS


def place_of(range_: Range) -> Place:
    """Return the topic and the partition of a range."""
    topic, _, partition = range_.place.rpartition("/")
    return topic, int(partition)


class MissingTopic(SourceError):
    """A topic does not exist."""


class KafkaCluster:
    """One admin client for metadata; every request is retried while a broker restarts."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._refusal: KafkaError | None = None
        self._properties = properties
        self._reached = False
        self._seconds = FIRST_SECONDS
        self._admin: AdminClient = admin(properties, self._hear)
        uncommitted = properties.get("isolation.level") == "read_uncommitted"
        self._isolation = IsolationLevel.READ_UNCOMMITTED if uncommitted else IsolationLevel.READ_COMMITTED

    def _hear(self, error: KafkaError) -> None:
        if is_refusal(error):
            self._refusal = error

    def _answer(self, answer: Future[_T]) -> _T:
        """Return the answer of a request; SourceError as soon as the broker refused the client's credentials.

        Without this check the client would retry until the request times out. A stop ends the wait.
        """
        waits = is_patient()
        while True:
            self._admin.poll(0)  # delivers the client's log lines and errors
            # The client reports errors of connections to single brokers too. An answer that has arrived is used
            # anyway.
            if self._refusal is not None and not answer.done():
                raise refused(self._refusal)
            try:
                return answer.result(timeout=_LOOK_SECONDS)
            except TimeoutError as error:
                if waits and not is_patient():
                    raise stopped() from error

    def topics_matching(self, pattern: str) -> list[str]:
        """Return the names that the pattern matches as a whole; Kafka's internal topics are excluded."""
        matches = re.compile(pattern).fullmatch
        metadata = self._patiently(self._metadata)
        return sorted(name for name in metadata.topics if matches(name) and not name.startswith("__"))

    def _metadata(self) -> ClusterMetadata:
        try:
            return ended_by_a_stop(lambda: self._admin.list_topics(timeout=self._seconds), stopped)
        except KafkaException:
            self._admin.poll(0)
            if self._refusal is not None:
                raise refused(self._refusal) from None
            raise

    def partitions(self, topics: Iterable[str]) -> tuple[list[Place], dict[str, str]]:
        """Return the partitions of the topics in order, and the broker's id of each topic.

        Brokers before 2.8, and some that are not Apache's, know no ids.
        """
        names = list(topics)
        if not names:
            return [], {}
        found = self._describe(names)
        places = [
            (topic.name, part.id) for topic in found for part in sorted(topic.partitions, key=lambda part: part.id)
        ]
        ids = {topic.name: str(topic.topic_id) for topic in found}
        return places, {topic: id_ for topic, id_ in ids.items() if id_ != NO_ID}

    def topic_ids(self, topics: Collection[str]) -> dict[str, str | None]:
        """Return the broker's id of each topic that has one, None for topics that do not exist."""
        try:
            return {**self.partitions(sorted(topics))[1]}
        except MissingTopic:
            if len(topics) == 1:
                return dict.fromkeys(topics)
        found: dict[str, str | None] = {}
        for topic in sorted(topics):
            found |= self.topic_ids([topic])
        return found

    def _describe(self, topics: list[str]) -> list[TopicDescription]:
        def ask() -> list[TopicDescription]:
            answers = self._admin.describe_topics(TopicCollection(topics), request_timeout=self._seconds)
            return [self._description(topic, answers[topic]) for topic in topics]

        try:
            return self._patiently(ask)
        except SourceError as error:
            cause = error.__cause__
            if isinstance(cause, KafkaException) and is_unknown_topic(cause.args[0]):
                raise MissingTopic(
                    "a Kafka topic does not exist",
                    topics=", ".join(self._missing(topics)),
                    hint="create the topic, or correct its name",
                ) from cause
            raise

    def _description(self, topic: str, answer: Future[TopicDescription]) -> TopicDescription:
        """Return the answer. The client does not name the topic that the user may not see."""
        try:
            return self._answer(answer)
        except KafkaException as error:
            if lacks_right(error):
                raise broker_error(error.args[0], topic=topic) from error
            raise

    def _missing(self, topics: Collection[str]) -> Collection[str]:
        """Return which of the topics are missing, or all if that is not known, as when one was created just now."""
        if len(topics) == 1:
            return topics
        existing = self._patiently(self._metadata).topics
        return [topic for topic in topics if topic not in existing] or topics

    def earliest(self, places: Iterable[Place]) -> dict[Place, int]:
        return self._offsets(places, OffsetSpec.earliest())

    def latest(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return the end of each partition; with read_committed, the end before the first open transaction."""
        return self._offsets(places, OffsetSpec.latest())

    def bounds(self, places: Iterable[Place]) -> tuple[dict[Place, int], dict[Place, int], dict[Place, int]]:
        """Return the earliest offsets, the latest ones, and the leader epochs of partitions whose brokers know them.

        All are requested at once: with a slow network, each answer takes seconds. Without TLS they are requested twice.
        """
        wanted, specs = list(places), [OffsetSpec.earliest(), OffsetSpec.latest()]
        specs *= 1 if has_tls(self._properties) else 2
        firsts, lasts = confirmed(lambda: self._all_listed(wanted, specs), bounds_agree)[:2]
        epochs = {place: end.leader_epoch for place, end in lasts.items() if end.leader_epoch is not None}
        return _offsets_of(firsts), _offsets_of(lasts), epochs

    def written(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return the end of each partition with the records of open transactions."""
        return self._offsets(places, OffsetSpec.latest(), isolation=IsolationLevel.READ_UNCOMMITTED)

    def at_time(self, places: Iterable[Place], millis: int) -> dict[Place, int]:
        """Return the first offset with this time or later; -1 if no such record exists yet."""
        return self._offsets(places, OffsetSpec.for_timestamp(millis), lowest=-1)

    def _offsets(
        self, places: Iterable[Place], spec: OffsetSpec, lowest: int = 0, isolation: IsolationLevel | None = None
    ) -> dict[Place, int]:
        return _offsets_of(self._all_listed(places, [spec], lowest, isolation)[0])

    def _all_listed(
        self,
        places: Iterable[Place],
        specs: Sequence[OffsetSpec],
        lowest: int = 0,
        isolation: IsolationLevel | None = None,
    ) -> list[dict[Place, ListOffsetsResultInfo]]:
        """Return the answers to each of the specs."""
        wanted = [TopicPartition(topic, partition) for topic, partition in places]
        if not wanted:
            return [{} for _ in specs]

        def ask() -> list[dict[TopicPartition, Any]]:
            asked = [
                self._admin.list_offsets(
                    dict.fromkeys(wanted, spec),
                    isolation_level=isolation or self._isolation,
                    request_timeout=self._seconds,
                )
                for spec in specs
            ]
            found = [{place: self._answer(future) for place, future in futures.items()} for futures in asked]
            if any(end.offset < lowest for answers in found for end in answers.values()):
                # A silent broker yields no error but an invalid offset.
                raise KafkaException(
                    KafkaError(KafkaError._TIMED_OUT, "a Kafka broker did not return the offsets of a partition")
                )
            return found

        return [
            {(place.topic, place.partition): answer for place, answer in answers.items()}
            for answers in self._patiently(ask)
        ]

    def group_offsets(self, group: str, places: Iterable[Place]) -> dict[Place, int]:
        """Return the committed offsets of the group; partitions without an entry are omitted."""
        request = [ConsumerGroupTopicPartitions(group, [TopicPartition(*place) for place in places])]
        answer = self._all(lambda: self._admin.list_consumer_group_offsets(request, request_timeout=self._seconds))
        found = answer[group].topic_partitions
        # A negative offset is the client's way to say that the group has committed nothing for the partition.
        return {(end.topic, end.partition): end.offset for end in found if end.offset >= 0}

    def set_group_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        """Set the committed offsets of a group.

        Raises KafkaException without a retry, because nothing depends on them.
        """
        places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, places)]
        for answer in self._admin.alter_consumer_group_offsets(request, request_timeout=REQUEST_SECONDS).values():
            self._answer(answer)

    def _patiently(self, ask: Callable[[], _T]) -> _T:
        if not is_patient() and not self._reached:
            # Without this check the client would try for 20 seconds.
            check_reachable(self._properties)
            self._reached = True
        try:
            return patiently(lambda: self._asked(ask))
        except SourceError as error:
            error.facts.setdefault("brokers", without_logins(self._properties.get("bootstrap.servers", "")))
            raise

    def _asked(self, ask: Callable[[], _T]) -> _T:
        """Return the answer. After an error that passes, the next attempt has a new client.

        A client keeps for minutes what it learned: it waits for a controller whose broker is gone although the others
        answer, or believes a broker that had just started that a partition has no leader.
        """
        try:
            return ask()
        except UnicodeDecodeError as error:
            raise KafkaException(illegible()) from error
        except KafkaException as error:
            if is_passing(error.args[0]):
                self._seconds = min(2 * self._seconds, _MOST_SECONDS)
                self._admin = admin(self._properties, self._hear)
            raise

    def _all(self, ask: Callable[[], Mapping[Any, Future[Any]]]) -> dict[Any, Any]:
        def answers() -> dict[Any, Any]:
            return {key: self._answer(future) for key, future in ask().items()}

        return self._patiently(answers)


def _offsets_of(answers: Mapping[Place, ListOffsetsResultInfo]) -> dict[Place, int]:
    return {place: answer.offset for place, answer in answers.items()}
