"""Reading of one range of a Pulsar partition: exactly its messages, in order, in chunks of bounded size."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
import pulsar
from _pulsar import Message

from penstock.errors import SourceError
from penstock.formats.change import Messages
from penstock.ingest.decoded_source import Extra, FetchedMessages
from penstock.ingest.pulsar.client import reader
from penstock.ingest.pulsar.errors import PATIENCE_SECONDS, broker_error, messages_gone, patiently
from penstock.ingest.pulsar.ids import EntryIds
from penstock.ingest.pulsar.position import Position, position_and_size
from penstock.ingest.pulsar.settings import PulsarSettings
from penstock.ingest.pulsar.topics import place_of
from penstock.ingest.source import Range, patience_seconds

if TYPE_CHECKING:
    from _pulsar import Reader

CHUNK_ROWS = 20_000
CHUNK_BYTES = 32 << 20
_WAIT_MS = 1000


def read_range(
    settings: PulsarSettings,
    range_: Range,
    *,
    rows: int = CHUNK_ROWS,
    size: int = CHUNK_BYTES,
    patience: float | None = None,
) -> Iterator[FetchedMessages]:
    """Yield the messages after the start of the range, up to and including its end, in chunks.

    If the message at the start is gone, PositionLost is raised. While brokers are unreachable it waits at most
    `patience` seconds without a message, then raises a retryable SourceError. Holds one chunk in memory.
    """
    place, start, end = place_of(range_.place), Position.of(range_.start), Position.of(range_.end)
    opened = patiently(lambda: reader(settings.properties, place, start), settings.service_url, topic=range_.place)
    waiting = patience_seconds(PATIENCE_SECONDS) if patience is None else patience
    reading = _PartitionReader(opened, settings, range_.place, start, end, waiting)
    try:
        count = 0
        while not reading.done:
            found = reading.chunk(rows, size)
            if found.messages:
                yield _fetched(place, found, count, settings.extras)
                count += len(found.messages)
    except pulsar.PulsarException as error:
        raise broker_error(error, settings.service_url, topic=range_.place) from error
    finally:
        # A connection that is already closed does not matter after the last message.
        with suppress(pulsar.PulsarException):
            opened.close()


class _Chunk:
    """Messages that are yielded together, and where their entries begin: ledger, entry, first index, first row."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.entries: list[tuple[int, int, int]] = []
        self.firsts: list[int] = []


class _PartitionReader:
    """The state of reading one range, entry by entry.

    The id of a message costs more than the message. So it is taken once for each entry: the messages of a producer
    batch arrive together, and their ids differ only in the index.
    """

    def __init__(
        self, opened: Reader, settings: PulsarSettings, name: str, start: Position, end: Position, patience: float
    ) -> None:
        self._read, self._settings, self._name = opened.read_next, settings, name
        self._start, self._end, self._patience = start, end, patience
        self._expects_start = start.is_message
        self.done = False

    def chunk(self, rows: int, size: int) -> _Chunk:
        found, length = _Chunk(), 0
        while not self.done and len(found.messages) < rows and length < size:
            message = self._next()
            position, batch = position_and_size(message.message_id())
            if self._expects_start or position <= self._start:
                self._check_start(position)
                continue
            if position > self._end:
                raise messages_gone(*place_of(self._name), self._end, position)
            found.entries.append(position.place)
            found.firsts.append(len(found.messages))
            found.messages.append(message)
            more = self._rest(position, batch)
            found.messages += map(self._read, repeat(_WAIT_MS, more))
            if more:
                self._check_entry(found.messages[-1], position, more)
            length += (more + 1) * message.length()
            self.done = (position.ledger, position.entry, position.index + more) == self._end.place
        return found

    def _next(self) -> Message:
        give_up = time.monotonic() + self._patience
        while True:
            try:
                return self._read(_WAIT_MS)
            except pulsar.Timeout as error:
                if time.monotonic() > give_up:
                    raise SourceError(
                        f"no messages from Pulsar for {self._patience:g} s",
                        broker=self._settings.service_url,
                        topic=self._name,
                        end=str(self._end),
                        retryable=True,
                    ) from error

    def _check_start(self, position: Position) -> None:
        """Accept the message at the start, which belongs to the batch before; it is the proof that none is lost."""
        if self._expects_start and position.place != self._start.place:
            raise messages_gone(*place_of(self._name), self._start, position)
        self._expects_start = False

    def _rest(self, position: Position, batch: int) -> int:
        """Return how many messages of the same entry follow this one within the range."""
        last = batch - 1
        if (position.ledger, position.entry) == (self._end.ledger, self._end.entry):
            last = min(last, self._end.index)
        return max(0, last - position.index)

    def _check_entry(self, message: Message, position: Position, more: int) -> None:
        """Raise unless the message is the last of the entry that was counted."""
        last, _ = position_and_size(message.message_id())
        if last.place != (position.ledger, position.entry, position.index + more):
            raise SourceError(
                "Pulsar returned the messages of a batch in another order than they have",
                topic=self._name,
                expected=f"{position.ledger}:{position.entry}:{position.index + more}",
                found=str(last),
                retryable=True,
            )


def _fetched(place: tuple[str, int], found: _Chunk, before: int, extras: Collection[Extra]) -> FetchedMessages:
    messages, count = found.messages, len(found.messages)
    # A message without a value is empty. No format has empty messages, so both are tombstones.
    values = [value or None for value in map(Message.data, messages)]
    times = None
    if "timestamp" in extras:
        times = np.fromiter(map(Message.publish_timestamp, messages), np.int64, count)
    return FetchedMessages(
        place[0],
        place[1],
        Messages(
            values=values,
            offsets=np.arange(before, before + count, dtype=np.int64),
            keys=[_key(message) for message in messages] if "key" in extras else None,
            timestamps=times,
        ),
        sum(map(len, filter(None, values))),
        headers=[_headers(message) for message in messages] if "headers" in extras else None,
        timestamp_types=None if times is None else [1] * count,  # the producer's time, as Kafka's CreateTime
        ids=EntryIds(tuple(found.entries), tuple(found.firsts), count),
    )


def _key(message: Message) -> bytes | None:
    key = message.partition_key()
    return key.encode() if key else None


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    return [(name, value.encode()) for name, value in message.properties().items()]
