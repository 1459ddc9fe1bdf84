"""A sample of the log before a position. It shows whether a server still has the log that was read up to there.

A server whose disk was put back to an earlier state stays on its timeline, and writes another log from there on. Once
that is longer than the position, neither the position nor the slot shows it. The bytes of the log do: records contain
numbers of transactions, the times of commits, and checksums.

After a change of the WAL file (`pg_switch_wal`, `archive_timeout`) the rest of the file is zeros in any log: then the
sample is of the last records in the file.

The bytes are read as a standby reads them. A server whose start is that of the sample has written its log without a
break, so they are compared after a restart only.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from penstock.errors import SourceError
from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.postgres.errors import Diverged
from penstock.ingest.postgres.server.connection import connected
from penstock.ingest.postgres.server.lsn import lsn_text, parse_lsn

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.address import PgAddress
    from penstock.ingest.postgres.server.connection import PgConnection
    from penstock.ingest.postgres.server.server_identity import ServerIdentity

log = logging.getLogger(__name__)
_MOST_BYTES = 16 << 10
_DIGEST_BYTES = 16
_PATIENCE_S, _LOOK_S = 10.0, 0.1
_STARTED = "SELECT pg_postmaster_start_time()"
_DATA, _ENVELOPE = b"w", 25
_NOT_COMPARED = "whether the server was restored from a copy of its disk, and has written more since, is not known"


@dataclass(frozen=True, slots=True)
class LogSample:
    """The digest of the log between two positions of a timeline; `started` is when the server began to run."""

    first: int
    last: int
    timeline: int
    digest: str
    started: str

    def to_json(self) -> list[Any]:
        return [lsn_text(self.first), lsn_text(self.last), self.timeline, self.digest, self.started]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> LogSample:
        first, last, timeline, digest, started = value
        return cls(parse_lsn(first), parse_lsn(last), int(timeline), str(digest), str(started))


def sample_before(connection: PgConnection, position: int, timeline: int) -> LogSample | None:
    """Return a sample of the log before the position; None, with a warning, if the server does not show it.

    It ends earlier if the bytes before the position are zeros.
    """
    with connected(connection.server, replication=True) as stream:
        started, segment = stream.fact(f"{_STARTED}, setting FROM pg_settings WHERE name = 'wal_segment_size'")
        # Not more than one file, which the slot keeps as long as the pipeline is at the position.
        begin = (position - 1) // int(str(segment)) * int(str(segment))
        first, last = max(position - _MOST_BYTES, begin), position
        found = _content(stream, first, last, timeline)
    if found is not None and found.is_blank and first > begin:
        last = _end_of_records(connection.server, begin, first, timeline)
        first = max(last - _MOST_BYTES, begin)
        with connected(connection.server, replication=True) as stream:
            found = _content(stream, first, last, timeline)
    if found is not None and found.is_blank:
        _warn(position, "the bytes before the position are zeros")
        return None
    # The position is one of the server that was asked for it: it has not been restarted as long as it answers here.
    if connection.fact(_STARTED)[0] != started:
        raise ConnectionLost(
            "another server answers at the address than a moment ago",
            retryable=True,
            server=connection.server.where,
            position=lsn_text(position),
        )
    return None if found is None else LogSample(first, last, timeline, found.digest, str(started))


def require_same_log(server: PgAddress, identity: ServerIdentity, sample: LogSample) -> None:
    """Raise Diverged if the server was started since the sample was taken, and has another log there."""
    if sample.started == identity.started:
        return
    with connected(server, replication=True) as connection:
        found = _content(connection, sample.first, sample.last, sample.timeline)
    if found is not None and found.digest != sample.digest:
        raise Diverged(
            "the log that the pipeline has read is not the log of the server: the server was restored from a backup "
            "and has written more since, or another copy of it answers at the address",
            server=server.where,
            position=lsn_text(sample.last),
            end=lsn_text(identity.end),
            started=identity.started,
            hint="changes may be missing, and tables may have rows that the server lacks: start with --resnapshot",
        )


@dataclass(frozen=True, slots=True)
class _Content:
    digest: str
    is_blank: bool  # zeros only


def _content(connection: PgConnection, first: int, last: int, timeline: int) -> _Content | None:
    hashed, missing, is_blank = blake2b(digest_size=_DIGEST_BYTES), last - first, True
    try:
        for data in _parts(connection, first, last, timeline):
            wanted = data[:missing]
            hashed.update(wanted)
            missing -= len(wanted)
            is_blank = is_blank and not wanted.strip(b"\0")
    except SourceError as error:
        if error.retryable:
            raise
        reason = str(error.facts.get("reason", error.message))
    else:
        if not missing:
            return _Content(hashed.hexdigest(), is_blank)
        reason = f"{missing} bytes were not sent"
    _warn(last, reason)
    return None


def _warn(position: int, reason: str) -> None:
    log.warning("event=log_not_compared position=%s reason=%s note=%s", lsn_text(position), reason, _NOT_COMPARED)


def _end_of_records(server: PgAddress, begin: int, last: int, timeline: int) -> int:
    """Return where the zeros begin that end a file. Each page of records begins with a header of other bytes."""
    at = end = begin
    with connected(server, replication=True) as connection:
        for data in _parts(connection, begin, last, timeline):
            filled = len(data[: last - at].rstrip(b"\0"))
            end = at + filled if filled else end
            at += len(data)
            if at - end >= _MOST_BYTES:
                break
    return end


def _parts(connection: PgConnection, first: int, last: int, timeline: int) -> Iterator[bytes]:
    """Yield the bytes of the log up to the position or further, fewer if the server does not send them."""
    stream = connection.start_stream(f"START_REPLICATION PHYSICAL {lsn_text(first)} TIMELINE {timeline}")
    until = time.monotonic() + _PATIENCE_S
    # A server that was restored meanwhile would send the rest once it has written it.
    while first < last and stream.is_open and time.monotonic() < until:
        received = connection.received(stream, _LOOK_S)
        for body in map(received.body, range(len(received))):
            if body[:1] == _DATA:
                yield body[_ENVELOPE:]
                first += len(body) - _ENVELOPE
