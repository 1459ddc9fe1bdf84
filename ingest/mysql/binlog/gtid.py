"""Names of transactions: GTID events of both servers, and the packed GTID set in a dump request."""

from __future__ import annotations

import struct
import uuid
from typing import TYPE_CHECKING

import numpy as np

from penstock.byte_buffers import at_every_byte
from penstock.ingest.database.buffers import gathered
from penstock.ingest.mysql.binlog.segment import ANONYMOUS_GTID, GTID, GTID_TAGGED, HEADER, MARIADB_GTID, reading
from penstock.ingest.mysql.position import MySqlGtidSet

if TYPE_CHECKING:
    from penstock.byte_buffers import Bools, Int64s
    from penstock.ingest.mysql.binlog.segment import Segment
    from penstock.ingest.mysql.position import TransactionSet

# Bytes of the body up to the last field that is part of the transaction's name.
_SHORTEST = {GTID: 25, GTID_TAGGED: 4, MARIADB_GTID: 12}


# Of the flags of MariaDB's event, and of its further flags since 10.8.
_HAS_COMMIT_ID, _HAS_XID = 0x02, 0x40 | 0x80
_ALTER_BEGINS, _ALTER_FAILED = 0x02, 0x08


def packed_set(known: MySqlGtidSet) -> bytes:
    """Return the set in the format of COM_BINLOG_DUMP_GTID; the format with tags is used only if there are tags."""
    sources = known.intervals()
    tagged = any(":" in source for source in sources)
    count = len(sources)
    packed = [struct.pack("<Q", 1 << 56 | count << 8 | 1 if tagged else count)]
    for source, intervals in sources.items():
        name, _, tag = source.partition(":")
        packed.append(uuid.UUID(name).bytes + (bytes([len(tag) << 1]) + tag.encode() if tagged else b""))
        packed.append(struct.pack("<Q", len(intervals)))
        # The protocol has intervals with an exclusive end, their text form an inclusive one.
        packed += [struct.pack("<QQ", first, last + 1) for first, last in intervals]
    return b"".join(packed)


def transaction_name(segment: Segment, event: int) -> str | None:
    """Return the GTID as the server prints it; None for an anonymous transaction or another event."""
    kind = int(segment.kind[event])
    if kind not in _SHORTEST:
        return None
    with reading(segment, event, "the start of a transaction in the binlog"):
        body = segment.body(event)
        if len(body) < _SHORTEST[kind]:
            raise ValueError("the event ends within a field")
        return _name(segment, event, body)


def alters_nothing(segment: Segment, event: int) -> bool:
    """Return whether the ALTER TABLE of this transaction only begins here, or was given up.

    With `binlog_alter_two_phase`, MariaDB logs the statement when it begins and again when it has ended, or has failed.
    """
    if segment.kind[event] != MARIADB_GTID:
        return False
    body = segment.body(event)
    # The number, the domain and the flags precede the fields that these flags announce.
    at, flags = 13, body[12] if len(body) > 12 else 0
    at += 8 if flags & _HAS_COMMIT_ID else 0
    if flags & _HAS_XID and len(body) > at + 5:
        at += 6 + body[at + 4] + body[at + 5]
    return len(body) > at and bool(body[at] & (_ALTER_BEGINS | _ALTER_FAILED))


def _name(segment: Segment, event: int, body: bytes) -> str | None:
    match int(segment.kind[event]):
        case kind if kind == GTID:
            return f"{uuid.UUID(bytes=body[1:17])}:{int.from_bytes(body[17:25], 'little')}"
        case kind if kind == GTID_TAGGED:
            return _tagged_name(body)
        case kind if kind == MARIADB_GTID:
            server = int.from_bytes(segment.raw[int(segment.start[event]) + 5 :][:4], "little")
            return f"{int.from_bytes(body[8:12], 'little')}-{server}-{int.from_bytes(body[:8], 'little')}"
    return None


def _tagged_name(body: bytes) -> str:
    """Return the GTID of a GTID_TAGGED event, whose fields are numbered.

    Numbers have a variable length: the trailing one bits of the first byte count the bytes that follow.
    """
    at = 0

    def number() -> int:
        nonlocal at
        # The lowest zero bit of the first byte; 0xFF has none and is followed by eight bytes.
        extra = (~body[at] & body[at] + 1).bit_length() - 1 if body[at] != 0xFF else 8
        raw = int.from_bytes(body[at : at + extra + 1], "little")
        at += extra + 1
        return raw >> extra + 1 if extra < 8 else raw >> 8

    number()  # version of the format
    number()  # size
    number()  # last field that may not be ignored
    source, sequence, tag = b"", 0, ""
    while at < len(body):
        match number():
            case 0:
                number()  # flags
            case 1:
                source = bytes(number() for _ in range(16))
            case 2:
                folded = number()
                # Signed numbers are folded: the lowest bit is the sign.
                sequence = folded >> 1 ^ -(folded & 1)
            case 3:
                length = number()
                tag = body[at : at + length].decode()
                break
            case _:
                break
    return f"{uuid.UUID(bytes=source)}:{tag}:{sequence}" if tag else f"{uuid.UUID(bytes=source)}:{sequence}"


def add_transactions(known: TransactionSet, segment: Segment) -> None:
    """Add every transaction that starts in the segment; consecutive numbers are added as one range."""
    if isinstance(known, MySqlGtidSet):
        _add_plain(known, segment)
        rest: Int64s = np.flatnonzero(segment.kind == GTID_TAGGED).astype(np.int64)
    else:
        rest = _last_of_domains(segment)
    for event in rest.tolist():
        name = transaction_name(segment, event)
        if name is not None:
            known.add(name)


def _add_plain(known: MySqlGtidSet, segment: Segment) -> None:
    plain = np.flatnonzero(segment.kind == GTID)
    if not len(plain):
        return
    body = segment.start[plain] + HEADER
    for event in plain[segment.end[plain] - body < _SHORTEST[GTID]].tolist():
        # Raises the error that names the short event.
        transaction_name(segment, event)
    sources = gathered(segment.data, body + 1, 16)
    numbers = at_every_byte(segment.data, "<i8")[body + 17]
    # A void type of 16 bytes lets numpy compare whole uuids instead of single bytes.
    distinct, which = np.unique(np.ascontiguousarray(sources).view("V16").reshape(-1), return_inverse=True)
    for place, source in enumerate(distinct):
        found = np.unique(numbers[which == place])
        breaks = np.flatnonzero(np.diff(found) != 1)
        firsts = found[np.concatenate([[0], breaks + 1])]
        lasts = found[np.concatenate([breaks, [len(found) - 1]])]
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            known.add_range(str(uuid.UUID(bytes=source.tobytes())), first, last)


def _last_of_domains(segment: Segment) -> Int64s:
    events = np.flatnonzero(segment.kind == MARIADB_GTID)
    domains = at_every_byte(segment.data, "<u4")[segment.start[events] + HEADER + 8]
    # A position of MariaDB contains the last transaction of each domain, so earlier ones need not be added.
    _, first_from_behind = np.unique(domains[::-1], return_index=True)
    return np.sort(events[::-1][first_from_behind]).astype(np.int64)


def outside(known: TransactionSet, segment: Segment, open_is_known: bool) -> tuple[Bools, bool]:
    """Return which events belong to transactions outside the set, and whether the last, still open one is in the set.

    `open_is_known` is that state for the transaction in which the segment begins.
    """
    keep = np.ones(len(segment), np.bool_)
    starts = np.flatnonzero(np.isin(segment.kind, [GTID, ANONYMOUS_GTID, GTID_TAGGED, MARIADB_GTID])).tolist()
    bounds = [*starts, len(segment)]
    # The events before the first start belong to the transaction that the segment before left open.
    keep[: bounds[0]] = not open_is_known
    for start, end in zip(starts, bounds[1:], strict=True):
        name = transaction_name(segment, start)
        open_is_known = name is not None and known.has(name)
        keep[start:end] = not open_is_known
    return keep, open_is_known
