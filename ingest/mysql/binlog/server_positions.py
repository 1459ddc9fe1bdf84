"""Positions in the binlog of a server: the oldest, the newest, the first after a time, and one that is settled."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import SourceError
from penstock.ingest.mysql.binlog.dump import dumping
from penstock.ingest.mysql.binlog.event_stream import DumpRequest
from penstock.ingest.mysql.binlog.gtid import add_transactions
from penstock.ingest.mysql.binlog.segment import TRANSACTION_STARTS
from penstock.ingest.mysql.errors import BinlogDisabled
from penstock.ingest.mysql.position import FIRST_EVENT, LogPosition, transaction_set
from penstock.ingest.mysql.server.connection import ask, current_position, log_files

if TYPE_CHECKING:
    from penstock.ingest.mysql.server.address import ServerAddress
    from penstock.ingest.mysql.server.connection import Connection, ServerFacts


# In seconds.
_SETTLE_S = 30


def latest(connection: Connection, facts: ServerFacts) -> LogPosition:
    """Return the current end of the binlog; BinlogDisabled if the server does not write one."""
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
    # gtid_owned lists the transactions that have their GTID already, but are not yet committed.
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
    # Ends the transaction, whose view would otherwise keep old row versions on the server.
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
    # One of the first events of a file is the set of all transactions in the files before it.
    rows = ask(connection, f"SHOW BINLOG EVENTS IN '{file}' LIMIT 3")
    return next(("".join(str(row[5]).split()) for row in rows if row[2] == "Previous_gtids"), "")


def at_time(
    server: ServerAddress, connection: Connection, facts: ServerFacts, millis: int, server_id: int
) -> LogPosition:
    """Return the position of the first transaction at or after this time; or the end of the binlog."""
    files = [name for name, _ in log_files(connection)]
    low, high = 0, len(files) - 1
    # A binary search for the last file that begins before that time.
    while low < high:
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
    # The smallest block, because only the first transaction is wanted.
    request = DumpRequest(LogPosition(file, FIRST_EVENT), server_id, verify=False, block_bytes=1)
    with dumping(server, request) as segments:
        for segment in segments:
            if segment.file != file:
                return None
            starts = np.flatnonzero(np.isin(segment.kind, list(TRANSACTION_STARTS)))
            if len(starts):
                return int(segment.seconds[starts[0]])
    return None
