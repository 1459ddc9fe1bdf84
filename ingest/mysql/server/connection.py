"""Connections to a MySQL or MariaDB server, and the server's version and identity."""

from __future__ import annotations

import logging
import re
import ssl
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pymysql
import pymysql.cursors
from pymysql.constants import CR

from penstock.ingest.database.reachability import until_reachable
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.server.address import ServerAddress
from penstock.ingest.mysql.server.login import GuardedConnection
from penstock.ingest.mysql.server.refusals import LOCK_WAIT_S, refused, unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pymysql.connections import Connection as PyMySqlConnection

    Connection = PyMySqlConnection[pymysql.cursors.Cursor]

Row = tuple[Any, ...]

log = logging.getLogger(__name__)
_logged: set[tuple[str, int, bool]] = set()

# Invisible primary keys that MySQL generates are in the binlog even if the catalog is configured to hide them.
# The server closes a connection whose client does not read for net_write_timeout, and a task may wait for Spark.
# In UTC, TIMESTAMP values are the same as in the binlog. Without SQL modes, statements and values mean the same on
# every server.
# Settings of the server would change which rows a query returns and the spelling of values, refuse or end a query that
# reads many rows, or end the session with its first COMMIT.
_SESSION = (
    "SET time_zone = '+00:00', sql_mode = '', wait_timeout = 86400, net_write_timeout = 3600"
    ", sql_select_limit = 18446744073709551615, sql_big_selects = 1, completion_type = 0"
    " /*!80000 , max_execution_time = 0 */ /*M! , max_statement_time = 0 */"
    f", lock_wait_timeout = {LOCK_WAIT_S}"
    # The binlog never corrects rows that were read and then rolled back.
    " /*!80000 , transaction_isolation = 'REPEATABLE-READ' */ /*M! , tx_isolation = 'REPEATABLE-READ' */"
    " /*!80030 , show_gipk_in_create_table_and_information_schema = ON */"
)


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The version and identity of a server.

    `uuid` identifies the instance; for MariaDB it is derived from the server id.
    """

    flavour: Literal["mysql", "mariadb"]
    version: tuple[int, int, int]
    uuid: str
    lower_case_names: bool

    @property
    def is_mariadb(self) -> bool:
        return self.flavour == "mariadb"

    @property
    def status_statement(self) -> str:
        """The statement that shows the binlog position: MySQL 8.4 rejects the old form, 8.1 and older the new one."""
        new = not self.is_mariadb and self.version >= (8, 2, 0)
        return "SHOW BINARY LOG STATUS" if new else "SHOW MASTER STATUS"


def connect(server: ServerAddress) -> Connection:
    """Return a connection in UTC with autocommit, strings as utf8mb4, and no SQL mode that changes results.

    An unreachable server is retried for `patience` seconds, which is logged.
    """
    return until_reachable(lambda: _opened(server), f"{server.host}:{server.port}", server.patience)


def _opened(server: ServerAddress) -> Connection:
    try:
        return _open(server, server.tls.context())
    except pymysql.MySQLError as error:
        raise refused(error, server) from error
    except OSError as error:
        raise unreachable(server, error) from error


def _open(server: ServerAddress, context: ssl.SSLContext | None) -> Connection:
    protection: dict[str, Any] = {"ssl_disabled": True} if context is None else {"ssl": context}
    try:
        connection = GuardedConnection(
            server,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=int(server.connect_timeout),
            # Another service on this port may accept the connection and wait for the first word. Later, a statement
            # may take longer than a login.
            read_timeout=min(server.connect_timeout, server.read_timeout),
            init_command=_SESSION,
            **protection,
        )
        connection.wait_at_most(server.read_timeout)
        connection.notice_silence()
        _log_protection(server, encrypted=connection.is_encrypted)
        return connection
    except pymysql.OperationalError as error:
        # A server without TLS: error 2026 occurs before the password is sent.
        if error.args[0] == CR.CR_SSL_CONNECTION_ERROR and server.tls.mode == "preferred" and context is not None:
            return _open(server, None)
        raise


def protection(server: ServerAddress, *, encrypted: bool) -> str | None:
    """Return a description of the missing protection of the connection; None if it is fully protected."""
    if not encrypted:
        return "not encrypted: data can be read and changed in transit; only a hash of the password is sent"
    if server.tls.mode in {"verify-ca", "verify-identity"}:
        return None
    return f"encrypted, but the server's identity is not verified (ssl mode {server.tls.mode})"


def _log_protection(server: ServerAddress, *, encrypted: bool) -> None:
    """Log the connection's protection once per process and server, because a job connects often."""
    open_ = protection(server, encrypted=encrypted)
    place = (server.host, server.port, encrypted)
    level = logging.INFO if encrypted or server.tls.mode == "disabled" else logging.WARNING
    if open_ is None or place in _logged or not log.isEnabledFor(level):
        return
    _logged.add(place)
    log.log(
        level,
        'event=mysql_connection server=%s:%d tls="%s" hint=verify it with  ssl: {mode: verify-identity, ca: FILE}',
        server.host,
        server.port,
        open_,
    )


@contextmanager
def connected(server: ServerAddress) -> Iterator[Connection]:
    """Open a connection for the context; PyMySQL's errors within it become Penstock errors."""
    connection = connect(server)
    try:
        yield connection
    except pymysql.MySQLError as error:
        raise refused(error, server, connection) from error
    finally:
        connection.close()


def ask(connection: Connection, sql: str, *values: object) -> list[Row]:
    """Return the rows of a small query."""
    with connection.cursor() as cursor:
        # With None, PyMySQL does not format the text, so that a percent sign in it needs no escape.
        cursor.execute(sql, values or None)
        return list(cursor.fetchall())


def ask_bytes(connection: Connection, sql: str) -> list[Row]:
    """Return the rows of a small query whose texts may be bytes in no character set; all values are bytes."""
    connection.use_unicode = False
    try:
        return ask(connection, sql)
    finally:
        connection.use_unicode = True


def server_facts(connection: Connection) -> ServerFacts:
    """Return version and identity of the server."""
    known = variables(connection, "version", "version_comment", "server_uuid", "server_id", "lower_case_table_names")
    mariadb = "mariadb" in (known["version"] + known.get("version_comment", "")).lower()
    numbers = [int(number) for number in re.findall(r"\d+", known["version"])[:3]]
    return ServerFacts(
        "mariadb" if mariadb else "mysql",
        (numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else 0),
        known.get("server_uuid") or f"server-{known['server_id']}",
        known["lower_case_table_names"] != "0",
    )


def variables(connection: Connection, *names: str) -> dict[str, str]:
    """Return global settings by name; a setting that this server does not know is omitted."""
    marks = ", ".join(["%s"] * len(names))
    return dict(ask(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({marks})", *names))


def current_position(connection: Connection, facts: ServerFacts) -> LogPosition | None:
    """Return the current end of the binlog; None if the server writes no binlog."""
    rows = ask(connection, facts.status_statement)
    if not rows:
        return None
    file, pos = str(rows[0][0]), int(rows[0][1])
    return LogPosition(file, pos, _gtid_at(connection, facts, rows[0]))


def _gtid_at(connection: Connection, facts: ServerFacts, status: Row) -> str:
    if facts.is_mariadb:
        return str(ask(connection, "SELECT BINLOG_GTID_POS(%s, %s)", status[0], status[1])[0][0] or "")
    return "".join(str(status[4]).split()) if len(status) > 4 else ""


def log_files(connection: Connection) -> list[tuple[str, int]]:
    """Return names and sizes of the binlog files that the server still has, oldest first."""
    return [(str(row[0]), int(row[1])) for row in ask(connection, "SHOW BINARY LOGS")]
