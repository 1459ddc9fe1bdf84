"""The event with which MariaDB begins a transaction: whether an ALTER TABLE in it takes effect."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.ingest.mysql.binlog.gtid import alters_nothing
from penstock.ingest.mysql.binlog.segment import GTID, HEADER, MARIADB_GTID, Segment

NUMBER_AND_DOMAIN = (5).to_bytes(8, "little") + bytes(4)
COMMIT_ID, XID = bytes(range(8)), (1).to_bytes(4, "little") + bytes([3, 2]) + b"gtrbq"
BEGINS, ENDED, FAILED = b"\x02", b"\x04" + bytes(8), b"\x08" + bytes(8)


def one_event(body: bytes, kind: int = MARIADB_GTID) -> Segment:
    raw = bytearray(HEADER) + body + bytes(16)
    one = np.array([0])
    return Segment("f", raw, one, np.array([HEADER + len(body)]), one, np.array([kind], np.uint8), one, mariadb=True)


def event(flags: int, fields: bytes) -> Segment:
    # The server fills the event up with zeros.
    return one_event((NUMBER_AND_DOMAIN + bytes([flags]) + fields).ljust(19, b"\0"))


@pytest.mark.parametrize(
    ("flags", "fields"), [(0x21, b""), (0x23, COMMIT_ID), (0x41, XID), (0xC3, COMMIT_ID + XID)], ids=str
)
def test_alter_that_begins_or_fails_alters_nothing(flags: int, fields: bytes) -> None:
    assert alters_nothing(event(flags, fields + BEGINS), 0)
    assert alters_nothing(event(flags, fields + FAILED), 0)
    assert not alters_nothing(event(flags, fields + ENDED), 0)
    assert not alters_nothing(event(flags, fields + b"\x01\x02"), 0)  # several engines
    assert not alters_nothing(event(flags, fields), 0)


def test_events_without_these_flags_may_alter() -> None:
    assert not alters_nothing(one_event(NUMBER_AND_DOMAIN), 0)
    assert not alters_nothing(one_event(NUMBER_AND_DOMAIN + b"\x02" + COMMIT_ID), 0)
    assert not alters_nothing(one_event(NUMBER_AND_DOMAIN + b"\x40"), 0)
    assert not alters_nothing(one_event(b"\x02" * 25, kind=GTID), 0)
