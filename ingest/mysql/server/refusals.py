"""PyMySQL's errors as errors of Penstock: a lost connection, a locked table, a missing right, or another refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pymysql
from pymysql.constants import CR, ER

from penstock.errors import SourceError
from penstock.ingest.database.findings import ConnectionLost, MissingGrant
from penstock.ingest.mysql.server.login import GuardedConnection, PyMySqlConnection

if TYPE_CHECKING:
    from penstock.ingest.mysql.server.address import ServerAddress

# 1053: the server shuts down. 1927: MariaDB killed the connection.
_LOST = {CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_CONN_HOST_ERROR, CR.CR_CONNECTION_ERROR, 1053, 1927}
# The server accepts no login for now: its limit of connections, or that of the user, is reached; it is in offline mode,
# or not available. A Galera node without a majority answers with the code of an unknown command.
_NOT_NOW = {ER.CON_COUNT_ERROR, ER.TOO_MANY_USER_CONNECTIONS, 3032, 3168}
_NO_MAJORITY = "WSREP has not yet prepared node"
# The client, or the server, does not understand what the other one sends. 1835 is the server's code for this.
_GARBLED = {CR.CR_MALFORMED_PACKET, CR.CR_COMMANDS_OUT_OF_SYNC, ER.UNKNOWN_COM_ERROR, 1835}
# 1142, 1143, 1370: a table, a column or a routine is denied. 1227: a privilege of the whole server is missing.
_DENIED = {ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, 1142, 1143, 1227, 1370}
_UNREACHABLE = (
    "check that the server is running, that hostname and port are correct, and that no firewall blocks the connection"
)
_LIMITS = (
    "wait, or let the server admit more: see max_connections, max_user_connections and offline_mode in SHOW VARIABLES, "
    "and on Galera wsrep_cluster_status in SHOW STATUS"
)
# How long a statement waits for a table that another session has locked, in seconds. The client waits longer for an
# answer, because that error means that the server cannot be reached.
LOCK_WAIT_S = 240


def is_lost(error: pymysql.MySQLError) -> bool:
    """Return whether the connection failed, not the statement.

    On a connection that is closed already, PyMySQL raises only an InterfaceError.
    """
    return isinstance(error, pymysql.InterfaceError) or bool(error.args and error.args[0] in _LOST)


def lost_reason(error: pymysql.MySQLError) -> str:
    """Return why the connection was lost. The error of a closed connection has no text."""
    return str(error.args[-1] if error.args else "") or "the connection is closed"


def is_locked_out(error: pymysql.MySQLError) -> bool:
    """Return whether a statement waited too long for another session that has locked a table."""
    return bool(error.args) and error.args[0] == ER.LOCK_WAIT_TIMEOUT


def refused(
    error: pymysql.MySQLError, server: ServerAddress, connection: PyMySqlConnection | None = None
) -> SourceError:
    """Return PyMySQL's error as a Penstock error, which says whether a retry can help.

    With its connection, the error of a locked table has the statement, which names the table.
    """
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    where = f"{server.host}:{server.port}"
    if is_lost(error):
        return unreachable(server, lost_reason(error))
    if code in _NOT_NOW or _NO_MAJORITY in text:
        return unreachable(server, text, hint=_LIMITS)
    if is_locked_out(error):
        return SourceError(
            "another session has locked a table, or waits to alter it, for longer than this pipeline waits",
            retryable=True,
            server=where,
            seconds=LOCK_WAIT_S,
            statement=connection.statement if isinstance(connection, GuardedConnection) else None,
            hint="SHOW FULL PROCESSLIST shows who waits for a metadata lock; end the transaction that has it",
        )
    if code in _GARBLED:
        return SourceError(
            "an answer of the MySQL server cannot be read",
            retryable=True,
            server=where,
            reason=text,
            hint="the next attempt sends the request again; if this happens again, check the network and proxies on "
            "the way, and use TLS, which detects changed bytes: ssl: {mode: verify-identity, ca: FILE}",
        )
    if code in _DENIED:
        hint = "see the user's privileges with SHOW GRANTS; penstock check names the grants that are missing"
        if code == ER.ACCESS_DENIED_ERROR:
            hint = "check user and password, and from which hosts the user may connect"
        if server.tls.mode == "disabled":
            hint += "; a user created with REQUIRE SSL cannot log in without TLS: set  ssl: {mode: required}"
        return MissingGrant("the MySQL server denied access", server=where, user=server.user, reason=text, hint=hint)
    return SourceError(
        "the MySQL server returned an error",
        server=where,
        code=code,
        reason=text,
        hint="remove the reason on the server, whose log may show more, and start again",
    )


def unreachable(server: ServerAddress, text: object, hint: str = _UNREACHABLE) -> ConnectionLost:
    """Return the error of a server that cannot be reached; it can be retried."""
    where = f"{server.host}:{server.port}"
    return ConnectionLost(
        "the MySQL server cannot be reached",
        retryable=True,
        server=where,
        reason=str(text),
        hint=hint,
    )
