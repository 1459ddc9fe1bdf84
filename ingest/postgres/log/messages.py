"""Messages of pgoutput: their kinds, a reader of single messages for the rare kinds, and one of many rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from penstock.byte_buffers import at_every_byte, has_any
from penstock.ingest.database.buffers import repeated
from penstock.ingest.database.cells import Cells
from penstock.ingest.postgres.errors import UnexpectedMessage
from penstock.ingest.postgres.relation import LoggedColumn, LoggedRelation
from penstock.ingest.postgres.values.windows import RowCells, Shape

if TYPE_CHECKING:
    from penstock.byte_buffers import Bools, Bytes, Int64s
    from penstock.ingest.postgres.received import Received
    from penstock.ingest.postgres.relation import Identity, Relation


BEGIN, COMMIT, RELATION, TYPE, INSERT, UPDATE, DELETE, TRUNCATE, ORIGIN, MESSAGE = b"BCRYIUDTOM"
KEY, OLD, NEW = b"KON"  # before an image: its key, the whole old row, the new row
DATA = ord("w")
KEEPALIVE = ord("k")
ENVELOPE = 25  # kind, two positions, time
EPOCH_MS = 946_684_800_000  # 2000-01-01, where the server's times start
_KNOWN = np.zeros(256, np.bool_)
_KNOWN[[BEGIN, COMMIT, RELATION, TYPE, INSERT, UPDATE, DELETE, TRUNCATE, ORIGIN, MESSAGE]] = True
# The fewest bytes of the kinds whose fields are read at fixed places.
_LEAST = np.ones(256, np.int64)
_LEAST[[BEGIN, INSERT, UPDATE, DELETE, TRUNCATE]] = 21, 8, 8, 8, 6


@dataclass(frozen=True, slots=True)
class MessageBlock:
    """Consecutive messages in one buffer; `start` is the place of each after its envelope, `tag` its kind."""

    data: Bytes
    start: Int64s
    end: Int64s
    tag: Bytes

    @classmethod
    def of(cls, messages: Received, envelope: int = ENVELOPE) -> MessageBlock:
        """Return a block of messages as they arrived; UnexpectedMessage for one of an unknown kind."""
        data, end = messages.data, messages.end
        # The positions in the envelope are not used: the server sends zeros for messages within a transaction.
        start = messages.start + envelope
        if (end <= start).any():
            raise UnexpectedMessage("the server sent a message without a kind")
        tag = data[start]
        if not _KNOWN[tag].all():
            unknown = chr(int(tag[int(np.argmin(_KNOWN[tag]))]))
            raise UnexpectedMessage("the server sent a message of an unknown kind", kind=unknown)
        short = end - start < _LEAST[tag]
        if short.any():
            raise UnexpectedMessage("the server sent an incomplete message", kind=chr(int(tag[int(np.argmax(short))])))
        return cls(data, start, end, tag)

    def __len__(self) -> int:
        return len(self.start)

    def chosen(self, keep: Bools) -> MessageBlock:
        """Return the messages for which `keep` is true."""
        return MessageBlock(self.data, self.start[keep], self.end[keep], self.tag[keep])

    def body(self, number: int) -> bytes:
        return self.data[self.start[number] : self.end[number]].tobytes()

    def unsigned(self, numbers: Int64s, offset: int) -> Int64s:
        """Return 32-bit numbers at an offset in these messages."""
        found: Int64s = at_every_byte(self.data, ">u4")[self.start[numbers] + offset].astype(np.int64)
        return found

    def longs(self, numbers: Int64s, offset: int) -> Int64s:
        """Return 64-bit numbers at an offset in these messages."""
        found: Int64s = at_every_byte(self.data, ">i8")[self.start[numbers] + offset].astype(np.int64)
        return found


def parse_relation(body: bytes) -> LoggedRelation:
    """Return the content of a Relation message; UnexpectedMessage if it is damaged."""
    try:
        return _relation(body)
    except (IndexError, ValueError) as reason:
        raise UnexpectedMessage("the description of a table in the log is damaged", reason=repr(reason)) from reason


def _relation(body: bytes) -> LoggedRelation:
    oid = int.from_bytes(body[1:5], "big")
    schema, at = _name(body, 5)
    table, at = _name(body, at)
    identity = chr(body[at])
    count = int.from_bytes(body[at + 1 : at + 3], "big")
    at += 3
    columns = []
    for _ in range(count):
        flag = body[at]
        name, at = _name(body, at + 1)
        kind = int.from_bytes(body[at : at + 4], "big")
        modifier = int.from_bytes(body[at + 4 : at + 8], "big", signed=True)
        columns.append(LoggedColumn(name, kind, modifier, bool(flag & 1)))
        at += 8
    if at != len(body):
        raise ValueError(f"{count} columns in {len(body)} bytes")
    # An empty schema name stands for pg_catalog.
    return LoggedRelation(oid, schema or "pg_catalog", table, cast("Identity", identity), tuple(columns))


def parse_truncate(body: bytes) -> list[int]:
    """Return the oids of the tables that a Truncate message empties."""
    count = int.from_bytes(body[1:5], "big")
    if len(body) != 6 + 4 * count:
        raise UnexpectedMessage("a list of emptied tables in the log is damaged", tables=count)
    return [int.from_bytes(body[6 + 4 * place : 10 + 4 * place], "big") for place in range(count)]


def _name(body: bytes, at: int) -> tuple[str, int]:
    end = body.index(0, at)
    return body[at:end].decode(), end + 1


_NULL, _UNCHANGED, _TEXT, _BINARY = b"nutb"


@dataclass(slots=True)
class RowImages:
    """Row images with the cells of each column.

    `unchanged` cells are values stored out of line that an update did not touch: the log does not contain them. They
    are null in `cells`.
    """

    cells: list[Cells]
    unchanged: list[Bools]
    end: Int64s
    binary: bool  # the format of all values

    def __len__(self) -> int:
        return len(self.end)

    def chosen(self, keep: Bools) -> RowImages:
        """Return the images for which `keep` is true."""
        if not keep.any():
            return RowImages([], [], self.end[:0], self.binary)
        cells = [one.chosen(keep) for one in self.cells]
        return RowImages(cells, [one[keep] for one in self.unchanged], self.end[keep], self.binary)


class _LoggedCells(RowCells):
    """Cells that begin with their kind; a value has its length in four bytes after it."""

    header = 5

    def __init__(self, data: Bytes, at: Int64s, end: Int64s) -> None:
        super().__init__(data, at, end)
        self.has_kind = np.zeros(256, np.bool_)
        self._none = self.unchanged = repeated(value=False, count=len(at))  # of the last column

    def all_have(self, headers: Bytes, width: int) -> bool:
        # A comparison with the bytes of the number converts no header.
        length = int.from_bytes(width.to_bytes(4), "little")
        found = not (has_any(headers[:, 0] != _BINARY) or has_any(headers[:, 1:].view("<u4")[:, 0] != length))
        if found:
            self.has_kind[_BINARY] |= len(headers) > 0
            self.unchanged = self._none
        return found

    def read(self, headers: Bytes) -> tuple[Int64s, Bools, Int64s | int]:
        kind, length = np.ascontiguousarray(headers[:, 0]), headers[:, 1:].view(">i4")[:, 0].astype(np.int64)
        if len(kind) and kind[0] in {_TEXT, _BINARY} and not has_any(kind != kind[0]):
            self.has_kind[kind[0]] = True
            self.unchanged = null = self._none
        else:
            self.has_kind[kind] = True
            self.unchanged, null = kind == _UNCHANGED, (kind != _TEXT) & (kind != _BINARY)
            # The bytes that are read as the length of another cell are discarded.
            length[null] = 0
        if has_any(length < 0):
            raise UnexpectedMessage("a row in the log has a value with a negative length")
        return length, null, self.header if null is self._none else np.where(null, 1, self.header)


def images_at(data: Bytes, at: Int64s, end: Int64s, shapes: Sequence[Shape]) -> RowImages:
    """Return the images that begin at these positions, in messages with these ends.

    Raise UnexpectedMessage if one has other columns, or more than its message.
    """
    if (at + 2 > end).any():
        raise UnexpectedMessage("a row ends before its last column")
    if len(at) and (at_every_byte(data, ">i2")[at] != len(shapes)).any():
        raise UnexpectedMessage("a row in the log has another number of columns than its table", wanted=len(shapes))
    rows = _LoggedCells(data, at + 2, end)
    cells, unchanged = [], []
    for column in rows.columns(shapes):
        cells.append(column)
        unchanged.append(rows.unchanged)
    formats = set(np.flatnonzero(rows.has_kind).tolist())
    if not formats <= {_NULL, _UNCHANGED, _TEXT, _BINARY} or {_TEXT, _BINARY} <= formats:
        raise UnexpectedMessage("a row in the log has values in an unknown format", formats=bytes(sorted(formats)))
    return RowImages(cells, unchanged, rows.at, _BINARY in formats)


def images_of(data: Bytes, at: Int64s, end: Int64s, relation: Relation) -> RowImages:
    """Return the images of rows of this table; its name is in the error."""
    if not len(at):
        return RowImages([], [], at, binary=False)
    try:
        return images_at(data, at, end, [Shape.of(column.type) for column in relation.columns])
    except UnexpectedMessage as error:
        error.facts["table"] = relation.qualified
        raise


def check_markers(before_new: Bytes, tag: Bytes, marker: Bytes, relation: Relation) -> None:
    """Raise UnexpectedMessage unless each message has the images of its kind."""
    has_old = (marker == KEY) | (marker == OLD)
    wrong = np.where(tag == INSERT, marker != NEW, ~has_old & (marker != NEW))
    wrong |= (tag == DELETE) & ~has_old
    if wrong.any() or (before_new != NEW).any():
        raise UnexpectedMessage("a row in the log has other images than its kind", table=relation.qualified)


def joined(before: RowImages, after: RowImages, order: Int64s) -> RowImages:
    """Return old and new images as one, in this order of their numbers; new ones are counted after the old ones."""
    if not (len(before) and len(after)):
        return before if len(before) else after  # which are in order
    cells = [
        Cells(
            old.data,
            np.concatenate([old.start, new.start])[order],
            np.concatenate([old.length, new.length])[order],
            np.concatenate([old.null, new.null])[order],
        )
        for old, new in zip(before.cells, after.cells, strict=True)
    ]
    unchanged = [np.concatenate([old, new])[order] for old, new in zip(before.unchanged, after.unchanged, strict=True)]
    end = np.concatenate([before.end, after.end])[order]
    return RowImages(cells, unchanged, end, before.binary or after.binary)
