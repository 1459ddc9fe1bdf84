"""Messages of pgoutput as a server sends them, made by hand."""

from __future__ import annotations

import struct
from collections.abc import Sequence

ENVELOPE = b"w" + bytes(24)
UNCHANGED = object()  # a value stored out of line that an update did not touch
Value = object  # text, bytes (binary), None, or UNCHANGED


def begin(lsn: int, millis: int = 0, xid: int = 7) -> bytes:
    return ENVELOPE + b"B" + struct.pack(">QqI", lsn, (millis - 946_684_800_000) * 1000, xid)


def commit(lsn: int) -> bytes:
    return ENVELOPE + b"C" + struct.pack(">BQQq", 0, lsn, lsn + 48, 0)


def relation(
    oid: int, table: str, columns: Sequence[tuple[str, int]], *, keys: Sequence[str] = ("id",), identity: str = "d"
) -> bytes:
    body = struct.pack(">I", oid) + b"public\0" + table.encode() + b"\0" + identity.encode()
    body += struct.pack(">H", len(columns))
    for name, kind in columns:
        body += bytes([name in keys]) + name.encode() + b"\0" + struct.pack(">Ii", kind, -1)
    return ENVELOPE + b"R" + body


def row(values: Sequence[Value]) -> bytes:
    made = struct.pack(">H", len(values))
    for value in values:
        if value is None:
            made += b"n"
        elif value is UNCHANGED:
            made += b"u"
        else:
            kind, content = (b"b", value) if isinstance(value, bytes) else (b"t", str(value).encode())
            made += kind + struct.pack(">I", len(content)) + content
    return made


def insert(oid: int, new: Sequence[Value]) -> bytes:
    return ENVELOPE + b"I" + struct.pack(">I", oid) + b"N" + row(new)


def update(
    oid: int, new: Sequence[Value], *, key: Sequence[Value] | None = None, old: Sequence[Value] | None = None
) -> bytes:
    before = b"K" + row(key) if key is not None else b"O" + row(old) if old is not None else b""
    return ENVELOPE + b"U" + struct.pack(">I", oid) + before + b"N" + row(new)


def delete(oid: int, *, key: Sequence[Value] | None = None, old: Sequence[Value] = ()) -> bytes:
    before = b"K" + row(key) if key is not None else b"O" + row(old)
    return ENVELOPE + b"D" + struct.pack(">I", oid) + before


def truncate(*oids: int) -> bytes:
    return ENVELOPE + b"T" + struct.pack(">IB", len(oids), 0) + b"".join(struct.pack(">I", oid) for oid in oids)
