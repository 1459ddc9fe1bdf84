"""Positions in the log (LSNs), and the newest one that a reader can reach."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.errors import SourceError
from penstock.ingest.database.findings import MissingGrant

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.connection import PgConnection

_LOOKS, _PAUSE_S = 100, 0.05
_LOOKS_BEFORE_MESSAGE = 4
# A transaction whose commit is flushed. Readers of slots do not get this message.
MESSAGE = "pg_logical_emit_message(true, 'penstock', '')"


def parse_lsn(text: str) -> int:
    """Return the number of `16/B374D848`."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def lsn_text(lsn: int) -> str:
    """Return a number as the server prints it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def reachable_end(connection: PgConnection) -> int:
    """Return the end of the log as of now, once a reader can reach it.

    The connection must not be in a transaction, or one that only reads could not write the message.
    """
    found = flushed_end(connection)
    if found is None:
        raise SourceError(
            "the end of the log is not flushed, so that it cannot be read",
            retryable=True,
            waited=f"{_LOOKS * _PAUSE_S:g} s",
            server=connection.server.where,
            hint="the user needs EXECUTE on pg_logical_emit_message, which PUBLIC has unless it was revoked",
        )
    return found


def flushed_end(connection: PgConnection) -> int | None:
    """Return the end of the log as of now, once it is flushed. None if the server does not flush it for seconds.

    It is the end of a record. The flush position itself may lie in the middle of a record of an open transaction, so
    that a reader would wait for the next commit. The end is asked for once: while another session writes without a
    pause, such as a bulk load, the newest record is never flushed.
    """
    end = None
    for look in range(_LOOKS):
        inserted, flushed, block = connection.rows(
            "SELECT pg_current_wal_insert_lsn(), pg_current_wal_flush_lsn(), current_setting('wal_block_size')"
        )[0]
        end = end or _without_page_header(parse_lsn(str(inserted)), int(str(block)))
        if parse_lsn(str(flushed)) >= end:
            return end
        if look == _LOOKS_BEFORE_MESSAGE:
            # Records that no transaction waits for, such as the records of a vacuum, are flushed with the next commit
            # only, which may never come on a quiet server.
            # A synchronous standby that is away must not keep its commit from ending.
            with suppress(MissingGrant):  # the next commit of another session may come in time
                connection.rows(f"SELECT set_config('synchronous_commit', 'local', true), {MESSAGE}")
        time.sleep(_PAUSE_S)
    return None


def _without_page_header(end: int, block: int) -> int:
    # A page begins with a header of 24 bytes, and the first page of a file with one of 40.
    return end - end % block if end % block in {24, 40} else end
