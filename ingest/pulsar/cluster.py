"""Requests of the planner to a Pulsar cluster: partitions, their last messages, the subscription that keeps them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

import pulsar
from _pulsar import MessageId

from penstock.errors import SourceError
from penstock.ingest.patience import is_patient
from penstock.ingest.pulsar.admin import PulsarAdmin, SubscriptionState
from penstock.ingest.pulsar.answers import has_message, last_message_id
from penstock.ingest.pulsar.client import check_reachable, client, damaged_entries, reader
from penstock.ingest.pulsar.errors import broker_error, needs_admin, patiently
from penstock.ingest.pulsar.position import START, Position, position_and_size
from penstock.ingest.pulsar.settings import PulsarSettings
from penstock.ingest.pulsar.topics import NO_PARTITION, Place, full_name, partition_name, place_of

if TYPE_CHECKING:
    from _pulsar import Reader

_T = TypeVar("_T")
log = logging.getLogger(__name__)
_WAIT_MS = 300  # for a message that a connected broker has
_BEHIND_ALL = Position.end_of_entry(1 << 63, 0)
_LONG_WAIT_MS = 5000  # for the same, when nothing else shows that the broker delivers messages
_LOOKED_AT = 1000  # messages that the planner receives at most in search of an end
_BACK = (0, 1, 30, 900)  # entries


class PulsarCluster:
    """Answers of the cluster. Requests are repeated while a broker restarts."""

    def __init__(self, settings: PulsarSettings) -> None:
        self._settings = settings
        self._consumers: dict[Place, pulsar.Consumer] = {}
        self._reached = False
        self._knows_subscriptions = True

    @property
    def admin(self) -> PulsarAdmin | None:
        return PulsarAdmin(self._settings.properties) if self._settings.admin_url else None

    def partitions(self) -> list[Place]:
        """Return the partitions of all topics of the pipeline, in order."""
        settings = self._settings
        if settings.pattern:
            if self.admin is None:
                raise needs_admin("topic-pattern")
            topics = self.admin.topics_matching(settings.pattern)
        else:
            topics = [full_name(topic) for topic in settings.topics]
        return sorted(place for topic in dict.fromkeys(topics) for place in self._partitions_of(topic))

    def _partitions_of(self, topic: str) -> list[Place]:
        try:
            names = self._ask(lambda: client(self._settings.properties).get_topic_partitions(topic), topic)
        except SourceError as error:
            if error.retryable and self.admin is not None:
                # A broker does not answer a wrong login, but its admin interface does.
                self.admin.exists((topic, NO_PARTITION))
            raise
        return [place_of(name) for name in names]

    def _ask(self, ask: Callable[[], _T], topic: str) -> _T:
        if not is_patient() and not self._reached:
            # The client itself would try for half a minute.
            check_reachable(self._settings.properties)
            self._reached = True
        return patiently(ask, self._settings.service_url, topic=topic)

    def last(self, place: Place) -> Position:
        """Return the id of the newest message, or of a marker after it; START for an empty partition.

        Subscribes before the first answer: from then on the broker keeps all messages that are not acknowledged.
        """

        def ask() -> Position:
            position, _ = position_and_size(last_message_id(self._consumer(place)))
            return position if position.entry >= 0 else START

        return self._ask(ask, partition_name(place))

    def end(self, place: Place) -> Position:
        """Return the same without subscribing, if the admin interface is known and there is no subscription yet.

        The plan subscribes, after it has looked whether a subscription is missing.
        """
        state = self.subscription(place) if place not in self._consumers else None
        if state is None or state.exists:
            return self.last(place)
        ledger, entry = state.last
        return Position.end_of_entry(ledger, entry) if entry >= 0 else START

    @property
    def subscription_name(self) -> str:
        return self._settings.subscription

    def subscription(self, place: Place) -> SubscriptionState | None:
        """Return the state of the subscription, None if it is not known. Does not subscribe."""
        if self.admin is None or not self._knows_subscriptions:
            return None
        try:
            return self.admin.subscription(place, self._settings.subscription)
        except SourceError as error:
            # It would fail, or take as long, for each of many partitions.
            self._knows_subscriptions = False
            log.warning("event=subscription_not_known topic=%s reason=%s", partition_name(place), error.message)
            return None

    def ledgers(self, place: Place) -> dict[int, int]:
        """Return the entries of each ledger of a partition; empty if they are not known."""
        if self.admin is None:
            return {}
        try:
            return dict(self.admin.ledgers(place))
        except SourceError as error:
            log.warning("event=ledgers_not_known topic=%s reason=%s", partition_name(place), error.message)
            return {}

    def _consumer(self, place: Place) -> pulsar.Consumer:
        if place not in self._consumers:
            self._consumers[place] = client(self._settings.properties).subscribe(
                partition_name(place),
                self._settings.subscription,
                # Two processes of a pipeline may be connected at once: the planner, and a status.
                consumer_type=pulsar.ConsumerType.Failover,
                initial_position=pulsar.InitialPosition.Earliest,
                consumer_name=self._settings.reader,
                receiver_queue_size=1,  # the consumer receives nothing: messages are read by readers
            )
        return self._consumers[place]

    def acknowledge(self, place: Place, older: Position, kept: Position) -> None:
        """Let the broker delete the entries before the message `kept`; `older` is a position in one of them.

        Raises PulsarException without a retry: the next call acknowledges these messages too. A partition that this run
        has not subscribed to may be deleted, and to subscribe would create it again.
        """
        consumer = self._consumers.get(place)
        if consumer is None:
            return
        ledger, entry = kept.first_chunk or (kept.ledger, kept.entry)
        if entry > 0:
            before = (ledger, entry - 1)
        elif older.is_message and (older.ledger, older.entry) < (ledger, entry):
            # The entry before the first one of a ledger is in another ledger, whose length is not known.
            before = (older.ledger, older.entry)
        else:
            return
        consumer.acknowledge_cumulative(MessageId(place[1], *before, -1))

    def newest(self, place: Place, start: Position, target: Position) -> Position | None:
        """Return the newest message after `start` up to `target` that the broker delivers, or None.

        The id of an entry says little: it may be a part of a message in chunks or a marker of a transaction, which a
        reader would wait for in vain. Therefore a batch ends at a message that was received. If messages are slow to
        arrive, it is an older one, and the next batch begins there.
        """
        for back in _BACK:
            entry = target.entry - back
            if entry < 0 or (target.ledger, entry) <= (start.ledger, start.entry):
                break
            first = Position(target.ledger, entry, target.index if back == 0 else -1)
            found = self._last_received(place, first, start, target, _WAIT_MS)
            if found is not None:
                return found
        return self._last_received(place, start, start, target, _LONG_WAIT_MS)

    def _last_received(
        self, place: Place, first: Position, start: Position, target: Position, wait: int
    ) -> Position | None:
        last = None
        for position, _, _ in self.received(place, first, wait):
            if position > target:
                break
            last = position if position > start else last
            if position.place == target.place:
                break
        return last

    def received(
        self, place: Place, first: Position, wait: int = _WAIT_MS, count: int = _LOOKED_AT
    ) -> Iterator[tuple[Position, int, int]]:
        """Yield position, batch size and length of the first messages from here on, until none comes for `wait` ms."""
        damaged_entries.forget(partition_name(place), first, _BEHIND_ALL)
        with self._reader(place, first, min(count, 100)) as opened:
            for _ in range(count):
                try:
                    message = opened.read_next(wait)
                except pulsar.Timeout:
                    damaged_entries.require_none(partition_name(place), first, _BEHIND_ALL)
                    return
                except pulsar.PulsarException as error:
                    raise broker_error(error, self._settings.service_url, topic=partition_name(place)) from error
                yield *position_and_size(message.message_id()), message.length()
                wait = min(wait, _WAIT_MS)

    def has_messages(self, place: Place) -> bool:
        """Return whether the partition has a message. Does not subscribe."""
        with self._reader(place, START, 1) as opened:
            return self._ask(lambda: has_message(opened), partition_name(place))

    def at_time(self, place: Place, millis: int) -> Position:
        """Return the place ahead of the first message that was published at this time or later."""
        with self._reader(place, START, 1) as opened:
            self._ask(lambda: opened.seek(millis), partition_name(place))
            if self._ask(lambda: has_message(opened), partition_name(place)):
                try:
                    position, _ = position_and_size(opened.read_next(_LONG_WAIT_MS).message_id())
                except pulsar.Timeout as error:
                    raise SourceError(
                        "Pulsar returned no message after a seek by time",
                        topic=partition_name(place),
                        publish_time=millis,
                        retryable=True,
                        hint="start again, or set  pipeline: {on-error: {retries: N}} ",
                    ) from error
                return Position.before(position.ledger, position.entry)
        last = self.last(place)
        return last.after if last != START else START

    @contextmanager
    def _reader(self, place: Place, first: Position, queue: int) -> Iterator[Reader]:
        properties, name = self._settings.properties, partition_name(place)
        opened = self._ask(lambda: reader(properties, place, first, queue), name)
        try:
            yield opened
        finally:
            with suppress(pulsar.PulsarException):
                opened.close()

    def close(self, places: Iterable[Place] = ()) -> None:
        """Disconnect. The subscription stays, and keeps messages."""
        for place in list(places or self._consumers):
            consumer = self._consumers.pop(place, None)
            if consumer is not None:
                with suppress(pulsar.PulsarException):
                    consumer.close()
