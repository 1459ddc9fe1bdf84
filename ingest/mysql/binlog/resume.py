"""The start position: a stored position, also after a failover, a point in time, or either end of the binlog."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import SourceError
from penstock.ingest.mysql.binlog.dump import dumping
from penstock.ingest.mysql.binlog.event_stream import DumpRequest
from penstock.ingest.mysql.binlog.gtid import add_transactions
from penstock.ingest.mysql.binlog.segment import TRANSACTION_STARTS
from penstock.ingest.mysql.errors import BinlogDisabled, BinlogPurged, BinlogReset, GtidDiverged
from penstock.ingest.mysql.position import FIRST_EVENT, LogPosition, MySqlGtidSet, file_number, transaction_set
from penstock.ingest.mysql.server.connection import ask, current_position, log_files

if TYPE_CHECKING:
    from penstock.ingest.mysql.server.address import ServerAddress
    from penstock.ingest.mysql.server.connection import Connection, ServerFacts

_SETTLE_S = 30
_WAYS_OUT = (
    "read the tables again (--resnapshot), or continue at the oldest binlog file with a gap (--accept-gap); keep "
    "binlogs longer: SET PERSIST binlog_expire_logs_seconds = 604800"
)


@dataclass(frozen=True, slots=True)
class Resume:
    """The start of the next plan.

    `by_gtid` until a plan has caught up, because the binlog of a new server has another order.
    """

    start: LogPosition
    by_gtid: bool


def resume(connection: Connection, facts: ServerFacts, stored: LogPosition, server_uuid: str) -> Resume:
    """Return how to resume from a stored position, on the same server or on another one after a failover.

    Raises an error that names the loss: `BinlogPurged` if the binlog files are gone, `BinlogReset` if the binlog is
    another one, `GtidDiverged` if the new server lacks transactions that were already read.
    """
    if facts.uuid == server_uuid:
        try:
            check_position(connection, stored)
        except BinlogPurged:
            oldest = earliest(connection, facts)
            if not _holds(stored.gtid, oldest.gtid, mariadb=facts.is_mariadb):
                raise
            # The log of an idle server was rotated and purged: all purged transactions had been read.
            return Resume(oldest, by_gtid=False)
        _check_same_log(connection, facts, stored)
        return Resume(stored, by_gtid=False)
    if not stored.gtid:
        raise GtidDiverged(
            (
                "the pipeline is connected to another server, and without GTIDs its binlog cannot be matched "
                "with the old server's"
            ),
            stored=stored,
            server=facts.uuid,
            before=server_uuid,
            hint=(
                "connect to the old server, or read the tables again (--resnapshot); with gtid_mode ON a "
                "pipeline can change servers"
            ),
        )
    if facts.is_mariadb:
        _require(_missing_on_mariadb(connection, stored))
    else:
        _check_mysql_sets(connection, stored)
    return Resume(stored, by_gtid=True)


def _holds(read: str, gone: str, *, mariadb: bool) -> bool:
    """Return whether all purged transactions are among those that were read."""
    if not read:
        return False
    if mariadb:
        known = transaction_set(read, mariadb=True)
        return all(known.holds(part) for part in gone.split(",") if part)
    return MySqlGtidSet(read).contains(MySqlGtidSet(gone))


def check_position(connection: Connection, stored: LogPosition) -> None:
    """Raise BinlogPurged or BinlogReset if the server no longer has this position."""
    files = log_files(connection)
    if not files:
        raise BinlogDisabled("the server does not write a binary log", hint="start the server with log_bin=binlog")
    oldest, newest = files[0][0], files[-1][0]
    sizes = dict(files)
    if stored.file not in sizes:
        if file_number(stored.file) < file_number(oldest) and _same_base(stored.file, oldest):
            raise BinlogPurged(
                "the binlog file of the pipeline's last position was purged from the server",
                position=stored,
                oldest=oldest,
                hint=_WAYS_OUT,
            )
        raise BinlogReset(
            "the server's binlog is not the one that this pipeline read before",
            position=stored,
            newest=newest,
            hint="the binlog was reset or the server was restored: read the tables again (--resnapshot)",
        )
    if stored.pos > sizes[stored.file]:
        raise BinlogReset(
            "the stored position is beyond the end of its binlog file",
            position=stored,
            size=sizes[stored.file],
            hint="the binlog was reset or the server was restored: read the tables again (--resnapshot)",
        )


def _check_same_log(connection: Connection, facts: ServerFacts, stored: LogPosition) -> None:
    """Raise BinlogReset if the binlog lacks transactions that were read.

    A binlog that was reset may have grown beyond the stored position again, so the position alone proves nothing.
    """
    missing = _missing_on_mariadb(connection, stored) if facts.is_mariadb else _missing_on_mysql(connection, stored)
    if missing:
        raise BinlogReset(
            "the server's binlog is not the one that this pipeline read before",
            position=stored,
            missing=missing,
            hint="the binlog was reset or the server was restored: read the tables again (--resnapshot)",
        )


def _missing_on_mysql(connection: Connection, stored: LogPosition) -> str:
    return "".join(str(ask(connection, "SELECT GTID_SUBTRACT(%s, @@GLOBAL.gtid_executed)", stored.gtid)[0][0]).split())


def _missing_on_mariadb(connection: Connection, stored: LogPosition) -> str:
    current = str(ask(connection, "SELECT @@GLOBAL.gtid_current_pos")[0][0] or "")
    known = transaction_set(current, mariadb=True)
    return ", ".join(part for part in stored.gtid.split(",") if part and not known.holds(part))


def _same_base(one: str, other: str) -> bool:
    return one.rpartition(".")[0] == other.rpartition(".")[0]


def _check_mysql_sets(connection: Connection, stored: LogPosition) -> None:
    _require(_missing_on_mysql(connection, stored))
    purged = ask(connection, "SELECT GTID_SUBTRACT(@@GLOBAL.gtid_purged, %s)", stored.gtid)[0][0]
    if purged:
        raise BinlogPurged(
            "the new server has purged transactions that this pipeline has not read",
            missing="".join(str(purged).split()),
            hint=_WAYS_OUT,
        )


def _require(missing: str) -> None:
    if missing:
        raise GtidDiverged(
            "the new server does not have all transactions that this pipeline has read",
            missing=missing,
            hint=(
                "wait until the replica has caught up; if the new server never had them, read the tables again "
                "(--resnapshot)"
            ),
            retryable=True,
        )


def latest(connection: Connection, facts: ServerFacts) -> LogPosition:
    """Return the current end of the binlog; BinlogDisabled if the server writes none."""
    position = current_position(connection, facts)
    if position is None:
        raise BinlogDisabled("the server does not write a binary log", hint="start the server with log_bin=binlog")
    return position


def settled(connection: Connection, facts: ServerFacts) -> LogPosition:
    """Return the end of the binlog once all transactions before it are visible to a SELECT.

    A transaction is in the binlog a moment before its rows are visible, so rows read right after looking up the end of
    the binlog may lack transactions before it. On MySQL this waits for the transactions being committed at that moment
    (needs GTIDs; without them the gap remains); on MariaDB the position is read together with a snapshot that matches
    it.
    """
    if facts.is_mariadb:
        return snapshot_position(connection, facts, keep=False)
    position = latest(connection, facts)
    under_way = _owned(str(ask(connection, "SELECT @@GLOBAL.gtid_owned")[0][0] or ""))
    if under_way and ask(connection, "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", under_way, _SETTLE_S)[0][0]:
        raise SourceError(
            "a transaction has been committing for longer than this pipeline waits",
            transactions=under_way,
            seconds=_SETTLE_S,
            retryable=True,
        )
    return position


def _owned(text: str) -> str:
    """Return the GTIDs of `uuid:7#123:8#124,...`, where the number after each # is a thread."""
    return re.sub(r"#\d+", "", "".join(text.split()))


def snapshot_position(connection: Connection, facts: ServerFacts, *, keep: bool) -> LogPosition:
    """Begin a MariaDB transaction and return the binlog position of its view; with `keep` it stays open."""
    ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    status = {str(row[0]).lower(): row[1] for row in ask(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")}
    if not keep:
        ask(connection, "COMMIT")
    if not status.get("binlog_snapshot_file"):
        return latest(connection, facts)
    file, pos = str(status["binlog_snapshot_file"]), int(status["binlog_snapshot_position"])
    gtid = str(ask(connection, "SELECT BINLOG_GTID_POS(%s, %s)", file, pos)[0][0] or "")
    return LogPosition(file, pos, gtid)


def earliest(connection: Connection, facts: ServerFacts) -> LogPosition:
    """Return the beginning of the oldest binlog file, with the GTID set of the transactions purged before it."""
    files = log_files(connection)
    if not files:
        raise BinlogDisabled("the server does not write a binary log", hint="start the server with log_bin=binlog")
    return LogPosition(files[0][0], FIRST_EVENT, _set_at_start(connection, facts, files[0][0]))


def _set_at_start(connection: Connection, facts: ServerFacts, file: str) -> str:
    if facts.is_mariadb:
        return str(ask(connection, "SELECT BINLOG_GTID_POS(%s, %s)", file, FIRST_EVENT)[0][0] or "")
    rows = ask(connection, f"SHOW BINLOG EVENTS IN '{file}' LIMIT 3")
    return next(("".join(str(row[5]).split()) for row in rows if row[2] == "Previous_gtids"), "")


def at_time(
    server: ServerAddress, connection: Connection, facts: ServerFacts, millis: int, server_id: int
) -> LogPosition:
    """Return the position of the first transaction at or after this time; or the end of the binlog."""
    files = [name for name, _ in log_files(connection)]
    low, high = 0, len(files) - 1
    while low < high:  # finds the last file that begins before that time
        middle = (low + high + 1) // 2
        begins = _first_seconds(server, files[middle], server_id)
        if begins is not None and begins * 1000 >= millis:
            high = middle - 1
        else:
            low = middle
    if not files:
        return latest(connection, facts)
    known = transaction_set(_set_at_start(connection, facts, files[low]), mariadb=facts.is_mariadb)
    request = DumpRequest(LogPosition(files[low], FIRST_EVENT), server_id, verify=False)
    with dumping(server, request) as segments:
        for segment in segments:
            starts = np.isin(segment.kind, list(TRANSACTION_STARTS)) & (segment.seconds * 1000 >= millis)
            if starts.any():
                first = int(np.flatnonzero(starts)[0])
                add_transactions(known, segment.chosen(np.arange(first)))
                return LogPosition(segment.file, int(segment.pos[first]), str(known))
            add_transactions(known, segment)
    return latest(connection, facts)


def _first_seconds(server: ServerAddress, file: str, server_id: int) -> int | None:
    """Return when the first transaction of a file was logged; None for a file without transactions."""
    request = DumpRequest(LogPosition(file, FIRST_EVENT), server_id, verify=False, block_bytes=1)
    with dumping(server, request) as segments:
        for segment in segments:
            if segment.file != file:
                return None
            starts = np.flatnonzero(np.isin(segment.kind, list(TRANSACTION_STARTS)))
            if len(starts):
                return int(segment.seconds[starts[0]])
    return None
