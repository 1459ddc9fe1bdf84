"""Positions in the binlog of a server: the oldest, the newest, the first after a time, and one that is settled."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import SourceError
from penstock.ingest.mysql.binlog.dump import dumping
from penstock.ingest.mysql.binlog.event_stream import DumpRequest
from penstock.ingest.mysql.binlog.gtid import add_transactions
from penstock.ingest.mysql.binlog.segment import TRANSACTION_STARTS
from penstock.ingest.mysql.errors import BinlogDisabled
from penstock.ingest.mysql.position import FIRST_EVENT, LogPosition, MySqlGtidSet, transaction_set
from penstock.ingest.mysql.server.connection import ask, current_position, log_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.ingest.mysql.server.address import ServerAddress
    from penstock.ingest.mysql.server.connection import Connection, ServerFacts


# In seconds. Nearly all commits take less than a moment.
_MOMENT_S, _SETTLE_S, _PAUSE_S = 1, 30, 0.1


def latest(connection: Connection, facts: ServerFacts) -> LogPosition:
    """Return the current end of the binlog; BinlogDisabled if the server does not write one."""
    position = current_position(connection, facts)
    if position is None:
        raise BinlogDisabled("the server does not write a binary log", hint="start the server with log_bin=binlog")
    return position


def settled(connection: Connection, facts: ServerFacts, server: ServerAddress, server_id: int) -> LogPosition:
    """Return the end of the binlog once all transactions before it are visible to a SELECT.

    A transaction is in the binlog a moment before its rows are visible, so rows read right after looking up the end of
    the binlog may lack transactions before it. On MySQL this waits for the transactions being committed at that moment
    (needs GTIDs; without them the gap remains); on MariaDB the position is read together with a snapshot that matches
    it.
    """
    if facts.is_mariadb:
        return snapshot_position(connection, facts, keep=False)
    position = latest(connection, facts)
    _await_committed(connection, lambda: _logged_in_file(server, position, server_id))
    return position


def await_visible(
    connection: Connection, facts: ServerFacts, position: LogPosition, server: ServerAddress, server_id: int
) -> None:
    """Wait until all transactions before this position are visible to a SELECT."""
    if facts.is_mariadb:
        _await_snapshot(connection, facts, position)
    elif position.gtid and not position.skip_events:
        _await_committed(connection, lambda: MySqlGtidSet(position.gtid))
    else:  # rows of the transaction that begins there were read too
        settled(connection, facts, server, server_id)


def _await_snapshot(connection: Connection, facts: ServerFacts, position: LogPosition) -> None:
    until = time.monotonic() + _SETTLE_S
    while snapshot_position(connection, facts, keep=False).is_before(position):
        if time.monotonic() > until:
            raise _commits_too_long(f"before {position}")
        time.sleep(_PAUSE_S)


def _await_committed(connection: Connection, logged: Callable[[], MySqlGtidSet]) -> None:
    """Wait until the transactions of this part of the binlog are committed.

    A transaction of a client has its GTID only while it commits. A transaction that a replica applies, or with
    gtid_next set by its session, has it from its beginning: it may run for hours, and is in the binlog only at its end.
    """
    under_way = owned_transactions(connection)
    if not under_way or _are_committed(connection, under_way, _MOMENT_S):
        return
    known = logged()
    committing = [transaction for transaction in under_way if known.has(transaction)]
    if committing and not _are_committed(connection, committing, _SETTLE_S):
        raise _commits_too_long(",".join(committing))


def _commits_too_long(transactions: str) -> SourceError:
    return SourceError(
        "a transaction has been committing for longer than this pipeline waits",
        transactions=transactions,
        seconds=_SETTLE_S,
        hint="see the transaction with SHOW FULL PROCESSLIST, and run the pipeline when it has ended",
        retryable=True,
    )


def owned_transactions(connection: Connection) -> list[str]:
    """Return the GTIDs of transactions that have one already, but are not yet committed."""
    # Of the form `uuid:7#123:8#124,...`, where the number after each # is a thread.
    owned = str(ask(connection, "SELECT @@GLOBAL.gtid_owned")[0][0] or "")
    return list(transactions_in(re.sub(r"#\d+", "", owned)))


def transactions_in(gtids: str) -> Iterator[str]:
    """Yield the single transactions of a GTID set."""
    for source, spans in MySqlGtidSet(gtids).intervals().items():
        for low, high in spans:
            yield from (f"{source}:{number}" for number in range(low, high + 1))


def _are_committed(connection: Connection, transactions: Sequence[str], seconds: int) -> bool:
    return not ask(connection, "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", ",".join(transactions), seconds)[0][0]


def _logged_in_file(server: ServerAddress, position: LogPosition, server_id: int) -> MySqlGtidSet:
    """Return the transactions before the position in its file. A server closes a file once they are all committed."""
    found = MySqlGtidSet()
    if position.pos <= FIRST_EVENT:
        return found
    request = DumpRequest(LogPosition(position.file, FIRST_EVENT), server_id)
    with dumping(server, request) as segments:
        for segment in segments:
            if segment.file != position.file:
                break
            add_transactions(found, segment.chosen(segment.pos < position.pos))
            if segment.after >= position.pos:
                break
    return found


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
    request = DumpRequest(LogPosition(files[low], FIRST_EVENT), server_id)
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
    request = DumpRequest(LogPosition(file, FIRST_EVENT), server_id, block_bytes=1)
    with dumping(server, request) as segments:
        for segment in segments:
            if segment.file != file:
                return None
            starts = np.flatnonzero(np.isin(segment.kind, list(TRANSACTION_STARTS)))
            if len(starts):
                return int(segment.seconds[starts[0]])
    return None
