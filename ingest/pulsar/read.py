"""Reading of one range of a Pulsar partition: exactly its messages, in order, in chunks of bounded size."""

from __future__ import annotations

import logging
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
from penstock.ingest.patience import patience_seconds
from penstock.ingest.pulsar.client import late_chunks, reader
from penstock.ingest.pulsar.errors import PATIENCE_SECONDS, broker_error, messages_gone, patiently
from penstock.ingest.pulsar.ids import EntryIds
from penstock.ingest.pulsar.position import START, Position, position_and_size
from penstock.ingest.pulsar.settings import PulsarSettings
from penstock.ingest.pulsar.topics import Place, partition_name, place_of
from penstock.ingest.source import Range

if TYPE_CHECKING:
    from _pulsar import Reader

log = logging.getLogger(__name__)

CHUNK_ROWS = 20_000
CHUNK_BYTES = 32 << 20
_WAIT_MS = 1000
_SILENCES = 3  # waits without a message, after which it is asked whether one can still come
_BACK = (100, 10_000, 1 << 62)  # entries


def read_range(
    settings: PulsarSettings,
    range_: Range,
    *,
    rows: int = CHUNK_ROWS,
    size: int = CHUNK_BYTES,
    patience: float | None = None,
) -> Iterator[FetchedMessages]:
    """Yield the messages after the start of the range, up to and including its end, in chunks.

    If the message at the start or at the end is gone, PositionLost is raised, unless the settings accept a gap: the
    range then has the messages that are left. While brokers are unreachable it waits at most `patience` seconds without
    a message, then raises a retryable SourceError. Holds one chunk in memory.
    """
    place, start, end = place_of(range_.place), Position.of(range_.start), Position.of(range_.end)
    waiting = patience_seconds(PATIENCE_SECONDS) if patience is None else patience
    reading = _PartitionReader(settings, place, start, end, waiting)
    try:
        count = 0
        while not reading.done:
            found = reading.chunk(rows, size)
            if reading.goes_back(found):
                continue
            if found.messages:
                yield _fetched(place, found, count, settings.extras)
                count += len(found.messages)
    except pulsar.PulsarException as error:
        raise broker_error(error, settings.service_url, topic=range_.place) from error
    finally:
        reading.close()


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

    def __init__(self, settings: PulsarSettings, place: Place, start: Position, end: Position, patience: float) -> None:
        self._settings, self._place, self._name = settings, place, partition_name(place)
        self._start, self._end, self._patience = start, end, patience
        self._reached = self._yielded = start  # the newest message that was read, and the newest that was yielded
        self._expects_start = start.is_message
        self._backwards = iter(_BACK)
        self.done = False
        self._open(start)

    def _open(self, first: Position) -> None:
        settings = self._settings
        late_chunks.found.clear()
        self._reader: Reader = patiently(
            lambda: reader(settings.properties, self._place, first), settings.service_url, topic=self._name
        )
        self._read = self._reader.read_next

    def close(self) -> None:
        # A connection that is already closed does not matter after the last message.
        with suppress(pulsar.PulsarException):
            self._reader.close()

    def chunk(self, rows: int, size: int) -> _Chunk:
        found, length = _Chunk(), 0
        while not self.done and len(found.messages) < rows and length < size:
            message = self._next()
            if message is None:
                break
            position, batch = position_and_size(message.message_id())
            if self._is_read(position):
                continue
            if position > self._end:
                self._miss(self._end, position)
                break
            self._check_schema(message)
            found.entries.append(position.place)
            found.firsts.append(len(found.messages))
            found.messages.append(message)
            more = self._rest(position, batch)
            found.messages += map(self._read, repeat(_WAIT_MS, more))
            self._reached = Position(position.ledger, position.entry, position.index + more) if more else position
            if more:
                self._check_entry(found.messages[-1])
            length += (more + 1) * message.length()
            self.done = self._reached == self._end
        return found

    def goes_back(self, found: _Chunk) -> bool:
        """Return whether messages are to be read again, from an earlier entry; otherwise they are to be yielded.

        Other messages may be between the parts of a message in chunks, also the last one of a batch. A reader that
        begins there never receives that message, although it is complete in this range.
        """
        late = sorted(entry for entry in late_chunks.found if self._yielded < Position(*entry) <= self._reached)
        back = next(self._backwards, None) if late else None
        if back is None:
            for ledger, entry in late:
                log.warning("event=chunk_without_beginning topic=%s entry=%d:%d", self._name, ledger, entry)
            late_chunks.found.difference_update(late)
            self._yielded = self._reached
            return False
        ledger, entry = late[0]
        self.close()
        self._reached, self.done = self._yielded, False
        self._open(Position.before(ledger, entry - back) if back < entry else START)
        return True

    def _next(self) -> Message | None:
        """Return the next message, None if the end of the range is gone, as far as the settings accept that."""
        give_up, silences = time.monotonic() + self._patience, 0
        while True:
            try:
                return self._read(_WAIT_MS)
            except pulsar.Timeout as error:
                silences += 1
                if silences >= _SILENCES and self._ends_earlier():
                    self._miss(self._end, None)
                    return None
                if time.monotonic() > give_up:
                    raise SourceError(
                        f"no messages from Pulsar for {self._patience:g} s",
                        broker=self._settings.service_url,
                        topic=self._name,
                        end=str(self._end),
                        retryable=True,
                    ) from error

    def _ends_earlier(self) -> bool:
        """Return whether the partition has no further message, although the end of the range is not reached."""
        try:
            return not self._reader.has_message_available()
        except pulsar.PulsarException:
            return False  # the broker is not back yet

    def _is_read(self, position: Position) -> bool:
        """Return whether the message belongs to the batch before, or was read already.

        The message at the start is one of them. It is the proof that none is lost.
        """
        if self._expects_start and position.place != self._start.place:
            self._miss(self._start, position)
        is_start, self._expects_start = self._expects_start and position.place == self._start.place, False
        return is_start or position <= self._reached

    def _miss(self, asked: Position, found: Position | None) -> None:
        """Raise PositionLost for messages that are gone, or log it if a gap is accepted; at the end nothing follows."""
        error = messages_gone(*self._place, asked, found)
        if not self._settings.accept_gap:
            raise error
        log.warning("event=gap_accepted topic=%s asked_for=%s reason=%s", self._name, asked, error.message)
        self.done = asked is self._end

    def _rest(self, position: Position, batch: int) -> int:
        """Return how many messages of the same entry follow this one within the range."""
        last = max(batch - 1, position.index)
        if (position.ledger, position.entry) == (self._end.ledger, self._end.entry):
            last = min(last, self._end.index)
        return max(0, last - position.index)

    def _check_entry(self, message: Message) -> None:
        """Raise unless the message is the last of the entry that was counted."""
        last, _ = position_and_size(message.message_id())
        if last != self._reached:
            raise SourceError(
                "Pulsar returned the messages of a batch in another order than they have",
                topic=self._name,
                expected=str(self._reached),
                found=str(last),
                retryable=True,
            )

    def _check_schema(self, message: Message) -> None:
        refusing = self._settings.refuses_schema
        if refusing is not None and message.schema_version():
            raise SourceError(
                f"the messages have a schema of Pulsar, but {refusing} needs those of a schema registry",
                topic=self._name,
                hint="let the producer publish bytes with the header of the schema registry, without a Pulsar schema",
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
