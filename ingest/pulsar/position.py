"""Positions in a Pulsar partition: the ids of messages as values that can be compared, stored and read by people.

A position means all messages up to and including it. It is written `ledger:entry:index`; the index is the position of
the message in its producer batch, -1 for a message that was sent alone, and `before` for the position ahead of an
entry. A message that was sent in chunks has the id of its last chunk. Its position also contains the first one, because
a reader that begins between the two never receives the message: `12:9:-1/12:4`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import total_ordering

from _pulsar import MessageId

from penstock.errors import SourceError

_BEFORE = -2  # sorts before the index of every message of the entry, batched or not
_LARGEST_INDEX = (1 << 31) - 1
_TEXT = re.compile(r"(-?\d+):(-?\d+):(-1|\d+|before)(?:/(\d+):(\d+))?")
# Numbers of the fields in the serialized id, a message of Protobuf.
_LEDGER, _ENTRY, _INDEX, _BATCH_SIZE, _FIRST_CHUNK = 1, 2, 4, 6, 7


@total_ordering
@dataclass(frozen=True, slots=True)
class Position:
    """The place after a message, or before an entry."""

    ledger: int
    entry: int
    index: int = -1
    # Does not count in comparisons, because an id without it belongs to the same message.
    first_chunk: tuple[int, int] | None = field(default=None, compare=False)

    @classmethod
    def before(cls, ledger: int, entry: int) -> Position:
        """Return the place ahead of an entry, which need not exist."""
        return cls(ledger, entry, _BEFORE)

    @classmethod
    def end_of_entry(cls, ledger: int, entry: int) -> Position:
        """Return the place after all messages of an entry, however many they are."""
        return cls(ledger, entry, _LARGEST_INDEX)

    @classmethod
    def of(cls, text: str) -> Position:
        found = _TEXT.fullmatch(text)
        if not found:
            raise SourceError(
                "the offsets in the checkpoint contain no position of a Pulsar topic",
                position=text,
                hint="the checkpoint is damaged or of a newer release: restore it, or start with a new --checkpoint",
            )
        index = _BEFORE if found[3] == "before" else int(found[3])
        return cls(int(found[1]), int(found[2]), index, (int(found[4]), int(found[5])) if found[4] else None)

    @property
    def place(self) -> tuple[int, int, int]:
        return self.ledger, self.entry, self.index

    @property
    def is_message(self) -> bool:
        """Return whether there was a message here when the position was recorded."""
        return self.ledger >= 0 and self.index != _BEFORE

    @property
    def after(self) -> Position:
        """Return the place ahead of the next entry."""
        return Position.before(self.ledger, self.entry + 1)

    def __lt__(self, other: Position) -> bool:
        return self.place < other.place

    def __str__(self) -> str:
        index = "before" if self.index == _BEFORE else str(self.index)
        chunk = f"/{self.first_chunk[0]}:{self.first_chunk[1]}" if self.first_chunk else ""
        return f"{self.ledger}:{self.entry}:{index}{chunk}"

    def start_id(self, partition: int) -> MessageId:
        """Return the id at which a reader begins, inclusive, so that it receives what follows this position.

        If there is a message at the position, the reader receives this message first.
        """
        if self.ledger < 0:
            return MessageId.earliest
        if self.first_chunk is not None:
            return MessageId(partition, *self.first_chunk, -1)
        return MessageId(partition, self.ledger, self.entry, max(self.index, -1))


START = Position(-1, -1)


def position_and_size(message_id: MessageId) -> tuple[Position, int]:
    """Return the position of a message, and the number of messages in its entry, 0 if the message was sent alone.

    The client has methods for most of this, but not for the size of the batch and for the first chunk.
    """
    fields = _fields(message_id.serialize())
    index = _signed(fields.get(_INDEX, -1))
    chunk = fields.get(_FIRST_CHUNK)
    first = _fields(chunk) if isinstance(chunk, bytes) else None
    position = Position(
        _signed(fields[_LEDGER]),
        _signed(fields[_ENTRY]),
        index,
        None if first is None else (_signed(first[_LEDGER]), _signed(first[_ENTRY])),
    )
    return position, _signed(fields.get(_BATCH_SIZE, 0)) if index >= 0 else 0


def _fields(data: bytes) -> dict[int, int | bytes]:
    """Return the fields of a Protobuf message with numbers and nested messages, by their number."""
    fields: dict[int, int | bytes] = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value, at = _varint(data, at)
        if tag & 7 == 2:  # a length, and that many bytes
            fields[tag >> 3] = data[at : at + value]
            at += value
        else:
            fields[tag >> 3] = value
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _signed(number: int | bytes) -> int:
    """Return the number of a field; a negative one is written as its two's complement of 64 bits."""
    assert isinstance(number, int)
    return number - (1 << 64) if number >= 1 << 63 else number
