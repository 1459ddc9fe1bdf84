"""Messages of pgoutput: their kinds, and those that are read one by one because they are rare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from penstock.ingest.database.buffers import at_every_byte
from penstock.ingest.postgres.errors import UnexpectedMessage
from penstock.ingest.postgres.relation import LoggedColumn, LoggedRelation
from penstock.ingest.postgres.snapshot.copy_rows import located

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ingest.database.buffers import Bytes, Int64s
    from penstock.ingest.postgres.relation import Identity

BEGIN, COMMIT, RELATION, TYPE, INSERT, UPDATE, DELETE, TRUNCATE, ORIGIN, MESSAGE = b"BCRYIUDTOM"
DATA = ord("w")
KEEPALIVE = ord("k")
ENVELOPE = 25  # kind, two positions, time
EPOCH_MS = 946_684_800_000  # 2000-01-01, where the server's times start
_KNOWN = np.zeros(256, np.bool_)
_KNOWN[[BEGIN, COMMIT, RELATION, TYPE, INSERT, UPDATE, DELETE, TRUNCATE, ORIGIN, MESSAGE]] = True


@dataclass(frozen=True, slots=True)
class MessageBlock:
    """Consecutive messages in one buffer; `start` is the place of each after its envelope, `tag` its kind."""

    data: Bytes
    start: Int64s
    end: Int64s
    tag: Bytes

    @classmethod
    def of(cls, messages: Sequence[bytes], envelope: int = ENVELOPE) -> MessageBlock:
        """Return a block of messages as they arrived; UnexpectedMessage for one of an unknown kind."""
        data, start, end = located(messages)
        start = start + envelope
        tag = data[start]
        if not _KNOWN[tag].all():
            unknown = chr(int(tag[int(np.argmin(_KNOWN[tag]))]))
            raise UnexpectedMessage("the server sent a message of an unknown kind", kind=unknown)
        return cls(data, start, end, tag)

    def __len__(self) -> int:
        return len(self.start)

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
    """Return the content of a Relation message."""
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
    # An empty schema name stands for pg_catalog.
    return LoggedRelation(oid, schema or "pg_catalog", table, cast("Identity", identity), tuple(columns))


def parse_truncate(body: bytes) -> list[int]:
    """Return the oids of the tables that a Truncate message empties."""
    count = int.from_bytes(body[1:5], "big")
    return [int.from_bytes(body[6 + 4 * place : 10 + 4 * place], "big") for place in range(count)]


def _name(body: bytes, at: int) -> tuple[str, int]:
    end = body.index(0, at)
    return body[at:end].decode(), end + 1
