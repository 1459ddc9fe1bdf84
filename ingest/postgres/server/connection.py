"""Connections over libpq: small queries, COPY, and the stream of a replication slot.

psycopg's own connections have neither replication nor access to undecoded COPY data, so once they are open this module
uses the layer below them. Login, TLS, Kerberos and service files are libpq's.
"""

from __future__ import annotations

import logging
import select
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from penstock.errors import ConfigError, SourceError
from penstock.ingest.database.kept_connections import KeptConnections
from penstock.ingest.database.reachability import until_reachable
from penstock.ingest.postgres.received import Received
from penstock.ingest.postgres.server.copy_stream import CopyStream, SocketStream
from penstock.ingest.postgres.server.libpq_stream import LibpqStream, answers, run
from penstock.ingest.postgres.server.refusals import refused, unopened
from penstock.ingest.postgres.server.silence import ServerRefused, Silence, doubt
from penstock.ingest.postgres.server.waits import is_ready

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGconn, PGresult

    from penstock.ingest.postgres.server.address import PgAddress

log = logging.getLogger(__name__)
_COPY_BYTES = 4 << 20
# A connection that was idle for longer than this is used again only if it answers within this time, in seconds: the
# server's machine, or a device on the way, may be gone without a word.
_SURE_S, _ANSWER_S = 1.0, 5.0
_TRANSACTION_TIMEOUT_SINCE = 17_00_00
Row = tuple[str | None, ...]
# The process numbers, on the servers, of the connections that this process has.
_backends: set[int] = set()


@dataclass(slots=True)
class PgConnection:
    """One connection. Not usable any more after an error in the middle of a COPY.

    `built_in_types` are those that were loaded: the name, the kind, the base, the modifier and the element of a number.
    """

    server: PgAddress
    opened: Connection
    silence: Silence
    raw: PGconn = field(init=False)
    built_in_types: dict[int, tuple[str, str, int, int, int]] = field(default_factory=dict, repr=False)
    _facts: dict[str, Row] = field(default_factory=dict, repr=False)
    _stream: CopyStream | None = field(default=None, repr=False)
    _backend: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.raw = self.opened.pgconn
        self._backend = self.raw.backend_pid
        _backends.add(self._backend)

    def wait_for_slow_statements(self) -> None:
        """Wait for an answer as long as the server works on it."""
        server = self.server
        asks = partial(doubt, partial(_asked, server), server.where, self._backend)
        self.silence = Silence(asks, most_s=server.answer_timeout)

    @property
    def version(self) -> int:
        """The version of the server, as in server_version_num."""
        return int(self.raw.server_version)

    def rows(self, sql: str) -> list[Row]:
        """Return the rows of a small query, as texts."""
        result = self._run(sql)
        return [
            tuple(_text(result.get_value(row, column)) for column in range(result.nfields))
            for row in range(result.ntuples)
        ]

    def value(self, sql: str) -> str | None:
        """Return the only value of a query; None if there is no row or the value is null."""
        rows = self.rows(sql)
        return rows[0][0] if rows else None

    def fact(self, sql: str) -> Row:
        """Return the only row of a query whose answer is the same as long as the connection is open."""
        if sql not in self._facts:
            self._facts[sql] = self.rows(sql)[0]
        return self._facts[sql]

    def copied(self, select_: str, block: int = _COPY_BYTES) -> Iterator[Received]:
        """Yield the messages of `COPY (...) TO STDOUT (FORMAT binary)`, some at a time: one for each row."""
        statement = f"COPY ({select_}) TO STDOUT (FORMAT binary)"
        with self._named(statement):
            stream = self._start(statement)
            while stream.is_open:
                yield stream.read(block)

    def literal(self, text: str) -> str:
        """Return a text as a literal of SQL."""
        from psycopg import pq

        return bytes(pq.Escaping(self.raw).escape_literal(text.encode())).decode()

    def start_stream(self, statement: str) -> CopyStream:
        """Begin to receive the log."""
        with self._named(statement):
            return self._start(statement)

    def received(self, stream: CopyStream, wait_s: float) -> Received:
        """Return the messages of the log that have arrived, after waiting for a first one."""
        with self._named("START_REPLICATION"):
            return stream.read_now(wait_s)

    def is_usable(self, idle_seconds: float) -> bool:
        """Return whether the connection can be used again: it is in no transaction, and the server has not ended it."""
        from psycopg import pq

        if self.raw.transaction_status != pq.TransactionStatus.IDLE or (
            self._stream is not None and self._stream.is_open
        ):
            return False
        # The server was asked nothing, so what arrives is most likely the end of the connection.
        if is_ready(self.raw.socket, select.POLLIN, 0.0):
            return False
        return idle_seconds < _SURE_S or answers(self.raw, _ANSWER_S)

    def close(self) -> None:
        _backends.discard(self._backend)
        if self._stream is not None:
            self._stream.close()
        self.raw.finish()

    def _start(self, statement: str) -> CopyStream:
        if self._stream is None:
            encrypted = self._is_encrypted()
            self._stream = LibpqStream(self.raw, self.silence) if encrypted else SocketStream.of(self.raw, self.silence)
        self._stream.start(statement)
        return self._stream

    def _is_encrypted(self) -> bool:
        if self.raw.ssl_in_use:
            return True
        if [option.val for option in self.raw.info if option.keyword == b"gssencmode"] == [b"disable"]:
            return False
        # libpq does not say whether Kerberos encrypts the connection.
        return self.value("SELECT encrypted FROM pg_stat_gssapi WHERE pid = pg_backend_pid()") == "t"

    def _run(self, sql: str) -> PGresult:
        with self._named(sql):
            return run(self.raw, sql, self.silence)

    @contextmanager
    def _named(self, sql: str) -> Iterator[None]:
        """Raise errors of the server as Penstock errors with the statement."""
        try:
            yield
        except ServerRefused as error:
            raise refused(self.server, error.state, error.text, sql) from error


def is_of_this_process(backend: int) -> bool:
    """Return whether a process of a server serves a connection of this process."""
    return backend in _backends


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def connect(server: PgAddress, *, replication: bool = False) -> PgConnection:
    """Return a connection. An unreachable server is retried for `patience` seconds, which is logged."""
    opened = until_reachable(lambda: _open(server, replication=replication), server.where, server.patience)
    opened.wait_for_slow_statements()
    return opened


def _open(server: PgAddress, *, replication: bool) -> PgConnection:
    try:
        from psycopg import Connection, OperationalError
    except ImportError as error:
        why = f"sources of type postgres need psycopg: {error}"
        raise ConfigError(why, hint="pip install psycopg psycopg-binary") from error
    given = server.parameters(replication=replication)
    conninfo = " ".join(f"{key}={_quoted(value)}" for key, value in given.items())
    # libpq warns of a Kerberos login without PGGSSENCMODE; the docs name this setting.
    warnings.filterwarnings("ignore", "the connection was obtained using the GSSAPI", RuntimeWarning)
    try:
        # libpq's own way to connect keeps all threads of this process waiting.
        opened = Connection.connect(conninfo, autocommit=True)
    except (OperationalError, UnicodeError) as error:  # a name with two dots in a row cannot be looked up
        raise unopened(server, str(error).removeprefix("connection failed: ")) from error
    opened.pgconn.nonblocking = 0
    return _without_limit(PgConnection(server, opened, Silence.at_most(max(_ANSWER_S, server.connect_timeout))))


def _without_limit(opened: PgConnection) -> PgConnection:
    """Return the connection without a limit for transactions; close it if it is lost meanwhile."""
    try:
        # Older servers do not know this limit, and refuse a login with an unknown setting.
        if opened.version >= _TRANSACTION_TIMEOUT_SINCE:
            opened.rows("SET transaction_timeout = 0")
    except SourceError:
        opened.close()
        raise
    return opened


def _asked(server: PgAddress, sql: str) -> tuple[int, Row]:
    """Return the row of a query on a connection of its own, and the number that libpq has for its process."""
    opened = _open(server, replication=False)
    try:
        return opened.raw.backend_pid, opened.rows(sql)[0]
    finally:
        opened.close()


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


@contextmanager
def connected(server: PgAddress, *, replication: bool = False) -> Iterator[PgConnection]:
    """Open a connection for the context."""
    connection = connect(server, replication=replication)
    try:
        with _libpq_errors(server):
            yield connection
    finally:
        connection.close()


_kept: KeptConnections[PgAddress, PgConnection] = KeptConnections()


@contextmanager
def kept_connected(server: PgAddress) -> Iterator[PgConnection]:
    """Use a connection for the context, which is kept for the next use.

    Nothing may stay in it: no setting of the session, no temporary slot, no transaction.
    """
    with _kept.used(server, lambda: connect(server)) as connection, _libpq_errors(server):
        yield connection


@contextmanager
def _libpq_errors(server: PgAddress) -> Iterator[None]:
    from psycopg import Error as LibpqError

    try:
        yield
    except (OSError, LibpqError) as error:
        raise refused(server, "", str(error)) from error
