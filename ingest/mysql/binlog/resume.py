"""Where to start: from a stored position, after a failover, at a moment, at either end of the log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import SourceError
from penstock.ingest.mysql.binlog.dump import DumpRequest, dumping
from penstock.ingest.mysql.binlog.gtid import add_transactions
from penstock.ingest.mysql.binlog.segment import TRANSACTION_STARTS
from penstock.ingest.mysql.errors import BinlogDisabled, BinlogPurged, BinlogReset, GtidDiverged
from penstock.ingest.mysql.position import FIRST_EVENT, LogPosition, MySqlGtidSet, file_number, transaction_set
from penstock.ingest.mysql.server.connection import ask, current_position, log_files

if TYPE_CHECKING:
    from penstock.ingest.mysql.server.connection import Connection, ServerAddress, ServerFacts

_SETTLE_S = 30
_WAYS_OUT = (
    "read the tables again (--resnapshot), or go on from the oldest log with a gap (--accept-gap);"
    " keep the log longer: SET PERSIST binlog_expire_logs_seconds = 604800"
)


@dataclass(frozen=True, slots=True)
class Resume:
    """How the next plan starts. `by_gtid` until a plan has caught up: the new server's log has another order."""

    start: LogPosition
    by_gtid: bool


def resume(connection: Connection, facts: ServerFacts, stored: LogPosition, server_uuid: str) -> Resume:
    """Go on from a stored position, on the server it was taken from or on another one after a failover.

    Raises what tells of the loss: `BinlogPurged` where the log is gone, `BinlogReset` where it is another log,
    `GtidDiverged` where the other server lacks transactions that were read already.
    """
    if facts.uuid == server_uuid:
        try:
            check_position(connection, stored)
        except BinlogPurged:
            oldest = earliest(connection, facts)
            if not _holds(stored.gtid, oldest.gtid, mariadb=facts.is_mariadb):
                raise
            # An idle server's log was rotated and purged: all that is gone was read.
            return Resume(oldest, by_gtid=False)
        _check_same_log(connection, facts, stored)
        return Resume(stored, by_gtid=False)
    if not stored.gtid:
        raise GtidDiverged(
            "this is another server, and without GTIDs its log cannot be matched with the old one's",
            stored=stored,
            server=facts.uuid,
            before=server_uuid,
            hint="go back to the old server, or read the tables again (--resnapshot); with gtid_mode ON it could be",
        )
    if facts.is_mariadb:
        _require(_missing_on_mariadb(connection, stored))
    else:
        _check_mysql_sets(connection, stored)
    return Resume(stored, by_gtid=True)


def _holds(read: str, gone: str, *, mariadb: bool) -> bool:
    """Whether the transactions that are gone are all among those that were read."""
    if not read:
        return False
    if mariadb:
        known = transaction_set(read, mariadb=True)
        return all(known.holds(part) for part in gone.split(",") if part)
    return MySqlGtidSet(read).contains(MySqlGtidSet(gone))


def check_position(connection: Connection, stored: LogPosition) -> None:
    """Whether the server still has this place of its log."""
    files = log_files(connection)
    if not files:
        raise BinlogDisabled("the server writes no binary log", hint="start it with log_bin=binlog")
    oldest, newest = files[0][0], files[-1][0]
    sizes = dict(files)
    if stored.file not in sizes:
        if file_number(stored.file) < file_number(oldest) and _same_base(stored.file, oldest):
            raise BinlogPurged(
                "the log this pipeline stopped at is gone from the server",
                position=stored,
                oldest=oldest,
                hint=_WAYS_OUT,
            )
        raise BinlogReset(
            "the server's log is another than the one this pipeline read",
            position=stored,
            newest=newest,
            hint="the log was reset or the server restored: read the tables again (--resnapshot)",
        )
    if stored.pos > sizes[stored.file]:
        raise BinlogReset(
            "the stored position lies behind the end of its log file",
            position=stored,
            size=sizes[stored.file],
            hint="the log was reset or the server restored: read the tables again (--resnapshot)",
        )


def _check_same_log(connection: Connection, facts: ServerFacts, stored: LogPosition) -> None:
    """A log that was reset may have grown beyond the stored place again; that it lacks what was read gives it away."""
    missing = _missing_on_mariadb(connection, stored) if facts.is_mariadb else _missing_on_mysql(connection, stored)
    if missing:
        raise BinlogReset(
            "the server's log is another than the one this pipeline read",
            position=stored,
            missing=missing,
            hint="the log was reset or the server restored: read the tables again (--resnapshot)",
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
            "the other server has purged transactions that this pipeline has not read",
            missing="".join(str(purged).split()),
            hint=_WAYS_OUT,
        )


def _require(missing: str) -> None:
    if missing:
        raise GtidDiverged(
            "the other server lacks transactions that this pipeline has read",
            missing=missing,
            hint="wait until the replica has caught up; if it never had them, read the tables again (--resnapshot)",
            retryable=True,
        )


def latest(connection: Connection, facts: ServerFacts) -> LogPosition:
    position = current_position(connection, facts)
    if position is None:
        raise BinlogDisabled("the server writes no binary log", hint="start it with log_bin=binlog")
    return position


def settled(connection: Connection, facts: ServerFacts) -> LogPosition:
    """The end of the log, once everything before it can be seen by a SELECT.

    A transaction stands in the log an instant before its rows are visible: rows read right after a look at the log's
    end may lack what lies before it. On MySQL this waits for the transactions that are under way just then (needs
    GTIDs; without them the instant remains); on MariaDB the position comes with a snapshot that has just that.
    """
    if facts.is_mariadb:
        return snapshot_position(connection, facts, keep=False)
    position = latest(connection, facts)
    under_way = _owned(str(ask(connection, "SELECT @@GLOBAL.gtid_owned")[0][0] or ""))
    if under_way and ask(connection, "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", under_way, _SETTLE_S)[0][0]:
        raise SourceError(
            "a transaction is being committed for longer than a reader waits",
            transactions=under_way,
            seconds=_SETTLE_S,
            retryable=True,
        )
    return position


def _owned(text: str) -> str:
    """The GTIDs of `uuid:7#123:8#124,...`, where the number behind each is its thread."""
    return re.sub(r"#\d+", "", "".join(text.split()))


def snapshot_position(connection: Connection, facts: ServerFacts, *, keep: bool) -> LogPosition:
    """MariaDB: begin a transaction and say which place of the log its view is of; with `keep` it goes on."""
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
    """The beginning of the oldest log file, with the set of what was purged before it."""
    files = log_files(connection)
    if not files:
        raise BinlogDisabled("the server writes no binary log", hint="start it with log_bin=binlog")
    return LogPosition(files[0][0], FIRST_EVENT, _set_at_start(connection, facts, files[0][0]))


def _set_at_start(connection: Connection, facts: ServerFacts, file: str) -> str:
    if facts.is_mariadb:
        return str(ask(connection, "SELECT BINLOG_GTID_POS(%s, %s)", file, FIRST_EVENT)[0][0] or "")
    rows = ask(connection, f"SHOW BINLOG EVENTS IN '{file}' LIMIT 3")
    return next(("".join(str(row[5]).split()) for row in rows if row[2] == "Previous_gtids"), "")


def at_time(
    server: ServerAddress, connection: Connection, facts: ServerFacts, millis: int, server_id: int
) -> LogPosition:
    """The first transaction of this moment or later; the end of the log if there is none."""
    files = [name for name, _ in log_files(connection)]
    low, high = 0, len(files) - 1
    while low < high:  # the last file that begins before the moment
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
    """When the first transaction of a file was logged; None for a file without one."""
    request = DumpRequest(LogPosition(file, FIRST_EVENT), server_id, verify=False, block_bytes=1)
    with dumping(server, request) as segments:
        for segment in segments:
            if segment.file != file:
                return None
            starts = np.flatnonzero(np.isin(segment.kind, list(TRANSACTION_STARTS)))
            if len(starts):
                return int(segment.seconds[starts[0]])
    return None
