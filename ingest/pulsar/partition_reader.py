"""A reader of one range of a partition, entry by entry: it notices lost messages, and messages in chunks."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING

import pulsar
from _pulsar import Message

from penstock.errors import SourceError
from penstock.ingest.patience import is_patient
from penstock.ingest.pulsar.answers import has_message
from penstock.ingest.pulsar.client import damaged_entries, late_chunks, reader
from penstock.ingest.pulsar.errors import messages_gone, patiently
from penstock.ingest.pulsar.position import START, Position, position_and_size
from penstock.ingest.pulsar.settings import PulsarSettings
from penstock.ingest.pulsar.topics import Place, partition_name

if TYPE_CHECKING:
    from _pulsar import Reader

log = logging.getLogger(__name__)

_WAIT_MS = 1000
_SILENCES = 3  # waits without a message, after which the broker is asked whether there are further messages
_READINGS = 3  # of an entry that arrives damaged, before it is passed over
_BACK = (100, 10_000, 1 << 62)  # how many entries each further attempt goes back


class EntryChunk:
    """Messages that are yielded together.

    `entries` has the ledger, the entry and the first index of each entry, `firsts` the row where it begins.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.entries: list[tuple[int, int, int]] = []
        self.firsts: list[int] = []


class PartitionReader:
    """The state of reading one range, entry by entry.

    To ask for the id of a message costs more than the message. So it is asked for once per entry: the messages of a
    producer batch arrive together, and their ids differ only in the index.
    """

    def __init__(self, settings: PulsarSettings, place: Place, start: Position, end: Position, patience: float) -> None:
        self._settings, self._place, self._name = settings, place, partition_name(place)
        self._start, self._end, self._patience = start, end, patience
        self._reached = self._yielded = start  # the newest message that was read, and the newest that was yielded
        self._expects_start = start.is_message
        self._backwards = iter(_BACK)
        self._readings = 1
        self._passed_over: set[tuple[int, int]] = set()  # entries that were damaged in each reading
        self.done = False
        self._open(start)

    def _open(self, first: Position) -> None:
        settings = self._settings
        late_chunks.found.clear()
        damaged_entries.forget(self._name, self._start, self._end)
        self._reader: Reader = patiently(
            lambda: reader(settings.properties, self._place, first), settings.service_url, topic=self._name
        )
        self._read = self._reader.read_next

    def close(self) -> None:
        # A connection that is already closed does not matter after the last message.
        with suppress(pulsar.PulsarException):
            self._reader.close()

    def chunk(self, rows: int, size: int) -> EntryChunk:
        read, length = EntryChunk(), 0
        while not self.done and len(read.messages) < rows and length < size:
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
            read.entries.append(position.place)
            read.firsts.append(len(read.messages))
            read.messages.append(message)
            more = self._rest(position, batch)
            read.messages += map(self._read, repeat(_WAIT_MS, more))
            self._reached = Position(position.ledger, position.entry, position.index + more) if more else position
            if more:
                self._check_entry(read.messages[-1])
            length += (more + 1) * message.length()
            self.done = self._reached == self._end
        self._require_whole()
        return read

    def begins_again(self) -> bool:
        """Return whether the messages have to be read again, because some arrived damaged.

        This is so only if the settings accept a gap: an entry that is damaged in each reading is then passed over.
        Otherwise the error is raised, and the next attempt reads the whole range again.
        """
        if not self._settings.accept_gap:
            return False
        if self._readings == _READINGS:
            damaged = damaged_entries.of(self._name, self._start, self._end)
            for ledger, entry in sorted(set(damaged) - self._passed_over):
                log.warning(
                    "event=gap_accepted topic=%s entry=%d:%d reason=%s",
                    *(self._name, ledger, entry, "the messages of this entry are damaged at the broker"),
                )
            self._passed_over.update(damaged)
        self._readings = self._readings % _READINGS + 1
        self.close()
        self._reached, self.done = self._yielded, False
        self._open(self._yielded)
        return True

    def goes_back(self, chunk: EntryChunk) -> bool:
        """Return whether the messages have to be read again, from an earlier entry; otherwise they can be yielded.

        Other messages, such as the last one of the previous batch, may be between the parts of a message that was sent
        in parts. A reader that begins there never receives that message, although it is complete in this range.
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
        """Return the next message; None if the end of the range is gone and the settings accept a gap."""
        give_up, silences, waits = time.monotonic() + self._patience, 0, is_patient()
        while True:
            ends_damaged = self._ends_damaged()  # before the wait: the queue may have had earlier messages
            try:
                return self._read(_WAIT_MS)
            except pulsar.Timeout as error:
                silences += 1
                self._require_whole()
                if ends_damaged:
                    self._miss(self._end, None)
                    return None
                if waits and not is_patient():
                    raise self._silent("a stop ended the wait for messages from Pulsar") from error
                if silences >= _SILENCES and self._ends_earlier():
                    self._miss(self._end, None)
                    return None
                if time.monotonic() > give_up:
                    raise self._silent(f"no messages from Pulsar for {self._patience:g} s") from error

    def _ends_damaged(self) -> bool:
        """Return whether this reader has dropped the last entry of the range, which is to be passed over.

        The client then has received all other entries of the range.
        """
        end = self._end.place[:2]
        return end in self._passed_over and end in damaged_entries.of(self._name, self._start, self._end)

    def _silent(self, message: str) -> SourceError:
        return SourceError(
            message,
            broker=self._settings.service_url,
            topic=self._name,
            end=str(self._end),
            retryable=True,
            hint="look into the log of the broker; the next run or  on-error: {retries: N}  tries again",
        )

    def _ends_earlier(self) -> bool:
        """Return whether the partition has no further message, although the end of the range is not reached."""
        try:
            return not has_message(self._reader)
        except pulsar.PulsarException:
            return False  # the broker is not back yet

    def _is_read(self, position: Position) -> bool:
        """Return whether the message belongs to the previous batch, or was read already.

        A reader begins with the last message of the previous batch. As long as that message exists, no later one is
        lost.
        """
        if self._expects_start and position < self._start:
            return True  # between the parts of the message at the start
        if self._expects_start and position.place != self._start.place:
            self._miss(self._start, position)
        is_start, self._expects_start = self._expects_start and position.place == self._start.place, False
        return is_start or position <= self._reached

    def _miss(self, requested: Position, received: Position | None) -> None:
        """Raise PositionLost for messages that are gone, or log a gap that is accepted. A lost end ends the reading."""
        self._require_whole()
        error = messages_gone(*self._place, requested, received)
        if not self._settings.accept_gap:
            raise error
        log.warning("event=gap_accepted topic=%s asked_for=%s reason=%s", self._name, requested, error.message)
        self.done = requested is self._end

    def _require_whole(self) -> None:
        damaged_entries.require_none(self._name, self._start, self._end, self._passed_over)

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
                hint="start again, or set  pipeline: {on-error: {retries: N}} ",
            )

    def _check_schema(self, message: Message) -> None:
        refusing = self._settings.refuses_schema
        if refusing is not None and message.schema_version():
            raise SourceError(
                f"the messages have a schema of Pulsar, but {refusing} needs those of a schema registry",
                topic=self._name,
                hint="let the producer publish bytes with the header of the schema registry, without a Pulsar schema",
            )
