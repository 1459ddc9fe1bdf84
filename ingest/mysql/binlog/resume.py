"""The start position: a stored position, also after a failover, a point in time, or either end of the binlog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ingest.mysql.binlog.server_positions import earliest, owned_transactions, transactions_in
from penstock.ingest.mysql.errors import BinlogDisabled, BinlogPurged, BinlogReset, GtidDiverged
from penstock.ingest.mysql.position import LogPosition, MySqlGtidSet, file_number, transaction_set
from penstock.ingest.mysql.server.connection import ask, log_files, variables

if TYPE_CHECKING:
    from penstock.ingest.mysql.server.connection import Connection, ServerFacts

_LOST_HINT = (
    "read the tables again (--resnapshot), or continue at the oldest binlog file with a gap (--accept-gap); keep "
    "binlogs longer: SET PERSIST binlog_expire_logs_seconds = 604800"
)


_SAME_S = 2.0  # between the times of a file and of the setting that began it


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
    # A file and a byte mean the same place only on the server that wrote them. Another server is matched by GTIDs.
    if facts.uuid == server_uuid:
        try:
            check_position(connection, stored)
        except BinlogPurged:
            oldest = earliest(connection, facts)
            # The server lists the transactions that it purged by their GTIDs: others may be gone unread.
            if not _all_named(connection, facts, stored) or not _contains(
                stored.gtid, oldest.gtid, mariadb=facts.is_mariadb
            ):
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


def _all_named(connection: Connection, facts: ServerFacts, stored: LogPosition) -> bool:
    """Return whether transactions after a position have GTIDs, as far as the server shows it.

    The mode may have been another one for a while. Setting it begins a new file, so a mode that was set after the
    position's file was begun was set after the position. A mode from the configuration has no such time.
    """
    if facts.is_mariadb:
        return True
    if variables(connection, "gtid_mode").get("gtid_mode") != "ON":
        return False
    found = ask(
        connection,
        "SELECT UNIX_TIMESTAMP(SET_TIME) FROM performance_schema.variables_info "
        "WHERE VARIABLE_NAME = 'gtid_mode' AND VARIABLE_SOURCE IN ('DYNAMIC', 'PERSISTED')",
    )
    set_at = float(found[0][0]) if found and found[0][0] is not None else 0.0
    return not stored.begun or set_at <= stored.begun + _SAME_S


def _contains(read: str, gone: str, *, mariadb: bool) -> bool:
    """Return whether all purged transactions are among the transactions that were read."""
    if not read:
        return False
    if mariadb:
        known = transaction_set(read, mariadb=True)
        return all(known.has(part) for part in gone.split(",") if part)
    return MySqlGtidSet(read).contains(MySqlGtidSet(gone))


def require_log(connection: Connection, facts: ServerFacts, planned: LogPosition) -> None:
    """Raise BinlogPurged or BinlogReset if this server no longer has the log that a batch was planned with.

    `planned` is the start of the batch, with the transactions of the log up to its end.
    """
    check_position(connection, planned)
    _check_same_log(connection, facts, planned)


def check_position(connection: Connection, stored: LogPosition) -> None:
    """Raise BinlogPurged or BinlogReset if the server no longer has this position."""
    files = log_files(connection)
    if not files:
        raise BinlogDisabled("the server does not write a binary log", hint="start the server with log_bin=binlog")
    oldest, newest = files[0][0], files[-1][0]
    sizes = dict(files)
    if stored.file not in sizes:
        # A lower number of the same base name was purged. Any other name belongs to a binlog that was reset or
        # replaced.
        if file_number(stored.file) < file_number(oldest) and _same_base(stored.file, oldest):
            raise BinlogPurged(
                "the binlog file of the pipeline's last position was purged from the server",
                position=stored,
                oldest=oldest,
                hint=_LOST_HINT,
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
    # Asked first. A transaction that was read may still commit, for as long as it waits for a replica.
    committing = set() if facts.is_mariadb else set(owned_transactions(connection))
    missing = _missing_on_mariadb(connection, stored) if facts.is_mariadb else _missing_on_mysql(connection, stored)
    # A binlog that was reset lacks millions of transactions: only the first that is not committing is of interest.
    if missing and (facts.is_mariadb or not all(transaction in committing for transaction in transactions_in(missing))):
        raise BinlogReset(
            "the server's binlog is not the one that this pipeline read before",
            position=stored,
            missing=missing,
            hint="the binlog was reset or the server was restored: read the tables again (--resnapshot)",
        )


def _missing_on_mysql(connection: Connection, stored: LogPosition) -> str:
    return "".join(str(ask(connection, "SELECT GTID_SUBTRACT(%s, @@GLOBAL.gtid_executed)", stored.gtid)[0][0]).split())


def _missing_on_mariadb(connection: Connection, stored: LogPosition) -> str:
    # The current position leaves out the log's last transaction if it has the id of another server, as after the id was
    # changed. The log's position leaves out what a replica without log_slave_updates has received.
    positions = ask(connection, "SELECT @@GLOBAL.gtid_current_pos, @@GLOBAL.gtid_binlog_pos")[0]
    known = [transaction_set(str(position or ""), mariadb=True) for position in positions]
    return ", ".join(part for part in stored.gtid.split(",") if part and not any(found.has(part) for found in known))


_ONE_SERVER = "check that one server only answers at the address, and that a proxy sends no SELECT to replicas"


def require_read(connection: Connection, facts: ServerFacts, planned_at: str, gtid: str) -> None:
    """Raise GtidDiverged if rows of this server may lack changes that were read from the server `planned_at`.

    `gtid` are the transactions of the log up to the end of the batch. The address may lead to several servers, or to
    another one from one moment to the next: a replica that is late has older rows, whose changes are not read again.
    """
    # Servers of MySQL have an identity of their own. Those of MariaDB have server ids, and several may have the same.
    if facts.uuid == planned_at and not (facts.is_mariadb and gtid):
        return
    at = LogPosition("", 0, gtid)
    missing = _missing_on_mariadb(connection, at) if facts.is_mariadb else _missing_on_mysql(connection, at)
    if missing or not gtid:
        raise GtidDiverged(
            "a table would be read on another server than its changes, which lacks some of them",
            server=facts.uuid,
            planned_at=planned_at,
            missing=missing or "unknown, without GTIDs",
            hint=_ONE_SERVER,
            retryable=True,
        )


def require_position_of(facts: ServerFacts, planned_at: str) -> None:
    """Raise GtidDiverged if rows would be read as of a position of another server, which means another place here."""
    if facts.uuid != planned_at:
        raise GtidDiverged(
            "a table would be read as of a position of another server",
            server=facts.uuid,
            planned_at=planned_at,
            hint=_ONE_SERVER,
            retryable=True,
        )


def _same_base(file: str, other: str) -> bool:
    return file.rpartition(".")[0] == other.rpartition(".")[0]


def _check_mysql_sets(connection: Connection, stored: LogPosition) -> None:
    _require(_missing_on_mysql(connection, stored))
    purged = ask(connection, "SELECT GTID_SUBTRACT(@@GLOBAL.gtid_purged, %s)", stored.gtid)[0][0]
    if purged:
        raise BinlogPurged(
            "the new server has purged transactions that this pipeline has not read",
            missing="".join(str(purged).split()),
            hint=_LOST_HINT,
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
