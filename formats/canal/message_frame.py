"""The frame of a canal-json message: all of its bytes outside of its rows and of the digits of its numbers.

A producer writes the messages of one table and operation in one frame: names, declared types and keys are equal in all
of them, and only `data`, `old` and numbers like `ts` differ. If the bytes of a frame are found around rows that are
JSON, the whole message is JSON with the same members, without having been parsed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec
import numpy as np

from penstock.errors import DecodeError
from penstock.formats.canal.groups import declared_columns
from penstock.formats.canal.message import OPERATIONS, CanalEnvelope, read_envelope
from penstock.formats.change import Int64s
from penstock.formats.json_bytes import Bytes
from penstock.formats.json_envelope import UNREADABLE
from penstock.row_kinds import UPDATE_AFTER

# The bytes at the begin and at the end of messages by which their frames are looked up.
EDGE = 64
# A gap at an edge with fewer bytes than this is not looked up: too many frames would share its bytes.
_LEAST_EDGE = 24
# The bytes by which the begin or end of the bytes between two documents is searched.
_SEARCHED = 24
# Up to 18 digits fit into 64 bits.
_PLAIN = re.compile(rb"0|[1-9][0-9]{0,17}")
_ARRAY = b"["
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """The table of the messages of a frame: its names, and `mysqlType` and `pkNames` as they are sent."""

    database: str | None
    table: str | None
    types: bytes
    keys: bytes


@dataclass(slots=True)
class FrameGap:
    """The bytes around or between the documents of a message: texts that are equal in all messages, and numbers."""

    part: int
    size: int = 0
    texts: list[tuple[int, bytes]] = field(default_factory=list)
    numbers: list[tuple[int, int]] = field(default_factory=list)  # offset and digits

    def add(self, text: bytes) -> None:
        """Append bytes that are equal in all messages."""
        offset, before = self.texts.pop() if self.texts and self._ends_with_text() else (self.size, b"")
        self.texts.append((offset, before + text))
        self.size += len(text)

    def add_number(self, digits: int) -> None:
        """Append a number with this number of digits."""
        self.numbers.append((self.size, digits))
        self.size += digits

    def _ends_with_text(self) -> bool:
        offset, text = self.texts[-1]
        return offset + len(text) == self.size

    def edge(self, *, begin: bool) -> bytes:
        """Return a mask of the bytes of this gap, at the begin or end of a message, by which frames are looked up."""
        mask = bytearray(self.size)
        for offset, text in self.texts:
            mask[offset : offset + len(text)] = b"\xff" * len(text)
        if len(mask) < _LEAST_EDGE:
            return bytes(EDGE)
        return bytes(mask[:EDGE].ljust(EDGE, b"\0") if begin else mask[-EDGE:].rjust(EDGE, b"\0"))


@dataclass(frozen=True, slots=True)
class GapBytes:
    """A gap for comparing it with many messages at once: its bytes, with 0 for each digit of a number.

    `most` is 9 for digits and 0 for other bytes. `leading` are the places of the first digits of longer numbers, and
    `time` is where the event time begins and ends.
    """

    part: int
    text: Bytes
    most: Bytes
    leading: Int64s
    time: tuple[int, int] | None


@dataclass(frozen=True)
class MessageFrame:
    """The frame of messages with one operation on one table.

    It has two gaps, around `data`, or three, around and between `data` and `old`. `data_first`: `data` stands before
    `old`.
    """

    table: DeclaredTable
    operation: int
    gaps: tuple[FrameGap, ...]
    data_first: bool
    searched: bytes  # the bytes by which the gap between two documents is searched
    time: tuple[int, int] | None  # the part of the message and the offset in it of the event time

    @cached_property
    def gap_bytes(self) -> Sequence[GapBytes]:
        """Return the gaps that are not empty."""
        return [_gap_bytes(gap, self.time) for gap in self.gaps if gap.size]

    @property
    def edges(self) -> bytes:
        """Return the mask of the bytes at the begin and the end of messages by which this frame is looked up."""
        return self.gaps[0].edge(begin=True) + self.gaps[-1].edge(begin=False)

    def middles(self, messages: Sequence[bytes]) -> list[int]:
        """Return where the gap between two documents may begin in each message; below 0 if it is not there."""
        searched = self.searched
        if self.data_first:
            # `old` is short, so the gap is searched from behind.
            end, back = -self.gaps[2].size, self.gaps[1].size - len(searched)
            return [message.rfind(searched, 0, end) - back for message in messages]
        begin = self.gaps[0].size
        return [message.find(searched, begin) for message in messages]


def frame_of(message: bytes) -> MessageFrame | None:
    """Return the frame of a message with rows of declared columns, None if it has no such rows or is odd in any way."""
    try:
        envelope, members = read_envelope(message), _members(message)
        if not _has_declared_rows(envelope):
            return None
    except (*UNREADABLE, DecodeError):
        return None
    is_update = OPERATIONS[envelope.type or ""] == UPDATE_AFTER
    old = bytes(members.get("old", b""))
    if old.startswith(_ARRAY) != is_update or not _is_time(bytes(members.get("ts", b"0"))):
        return None
    documents = ("data", "old") if is_update else ("data",)
    # An object with blanks between its members, or with a member twice, is not spelled like this.
    spelled = b",".join(_name(name) + bytes(value) for name, value in members.items())
    if b"{" + spelled + b"}" != message:
        return None
    gaps, time = _measured(members, documents)
    data_first = not is_update or list(members).index("data") < list(members).index("old")
    searched = _searched(gaps, data_first=data_first)
    table = DeclaredTable(envelope.database, envelope.table, bytes(envelope.mysql_type), bytes(envelope.pk_names))
    return MessageFrame(table, OPERATIONS[envelope.type or ""], gaps, data_first, searched, time)


def _gap_bytes(gap: FrameGap, time: tuple[int, int] | None) -> GapBytes:
    text, most = np.full(gap.size, ord("0"), np.uint8), np.full(gap.size, 9, np.uint8)
    for offset, part in gap.texts:
        text[offset : offset + len(part)] = np.frombuffer(part, np.uint8)
        most[offset : offset + len(part)] = 0
    leading = np.array([offset for offset, count in gap.numbers if count > 1], np.int64)
    of_time = next(((offset, offset + count) for offset, count in gap.numbers if (gap.part, offset) == time), None)
    return GapBytes(gap.part, text, most, leading, of_time)


def _searched(gaps: tuple[FrameGap, ...], *, data_first: bool) -> bytes:
    """Return the bytes by which a gap between two documents is searched."""
    if len(gaps) < 3:
        return b""
    _, text = gaps[1].texts[-1 if data_first else 0]
    # It begins and ends with the names and marks of members.
    return text[-_SEARCHED:] if data_first else text[:_SEARCHED]


def _has_declared_rows(envelope: CanalEnvelope) -> bool:
    if envelope.type not in OPERATIONS or envelope.is_ddl or not bytes(envelope.data).startswith(_ARRAY):
        return False
    return bool(declared_columns(bytes(envelope.mysql_type), bytes(envelope.pk_names))[0])


def _is_time(value: bytes) -> bool:
    return _PLAIN.fullmatch(value) is not None


def _name(name: str) -> bytes:
    return msgspec.json.encode(name) + b":"


def _measured(
    members: dict[str, msgspec.Raw], documents: tuple[str, ...]
) -> tuple[tuple[FrameGap, ...], tuple[int, int] | None]:
    gaps, time, separator = [FrameGap(0)], None, b"{"
    for name, value in members.items():
        gap, text = gaps[-1], bytes(value)
        gap.add(separator + _name(name))
        separator = b","
        if name in documents:
            # Gaps and documents take turns; without a second document its parts are empty, and the last gap is part 4.
            gaps.append(FrameGap(4 if len(gaps) == len(documents) else 2))
        elif _PLAIN.fullmatch(text):
            if name == "ts":
                time = gap.part, gap.size
            gap.add_number(len(text))
        else:
            gap.add(text)
    gaps[-1].add(b"}")
    return tuple(gaps), time
