"""Login that does not expose the password.

The server chooses the authentication method, and so can anybody between client and server. Without TLS, or if the
server's certificate is not verified, these methods expose the password:

    mysql_clear_password, dialog         the password itself
    caching_sha2_password, full; sha256_password
                                         over TLS the password itself; without TLS the password encrypted with a key
                                         that the server sends, and anybody can send a key
    mysql_old_password                   a hash from which the password can be computed

`Tls` decides which of them are accepted: none without TLS unless the user allowed it, and the first row only if the
server's certificate was verified.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymysql
import pymysql.connections
import pymysql.cursors
from pymysql.constants import CR

from penstock.errors import ConfigError
from penstock.ingest.mysql.errors import PasswordExposed
from penstock.ingest.mysql.server.packet_heads import HEADER

if TYPE_CHECKING:
    from penstock.ingest.mysql.server.address import ServerAddress, Tls

    PyMySqlConnection = pymysql.connections.Connection[pymysql.cursors.Cursor]
else:  # pymysql's class is generic only for the type checker
    PyMySqlConnection = pymysql.connections.Connection

# TCP probes a connection without traffic after this many seconds, repeats that at this interval, and gives up after
# this many probes without an answer.
_PROBES = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
# The wait for the rest of a packet, in seconds: as long as the probes take, because a server may only be paused.
_REST_S = 120.0
# Errors of PyMySQL while it reads an answer that is not as the protocol wants it.
_UNREADABLE = (AssertionError, LookupError, OverflowError, TypeError, ValueError, struct.error)


class GuardedConnection(PyMySqlConnection):
    """A connection that does not send its password to a server that has not proved its identity."""

    _sock: socket.socket  # set by PyMySQL

    def __init__(self, server: ServerAddress, **settings: Any) -> None:
        # Set before the constructor of PyMySQL, which connects, and reads the key while it logs in.
        self.address = server
        self._key: bytes | None = None
        self._sent: str | bytes = b""
        # Otherwise both would be taken for answers that cannot be read.
        _check_host(server.host)
        self._trusted = _trusted_key(server.tls)
        handlers: dict[str, Any] = {
            "mysql_clear_password": _ClearPassword,
            "dialog": _ClearPassword,
            "mysql_old_password": _OldPassword,
        }
        super().__init__(
            host=server.host,
            port=server.port,
            user=server.user,
            password=server.password.reveal(),
            server_public_key=self._trusted,
            auth_plugin_map=handlers,
            **settings,
        )

    def connect(self, sock: socket.socket | None = None) -> None:
        with self._reading_answer():
            super().connect(sock)

    def _read_query_result(self, unbuffered: bool = False) -> int:
        with self._reading_answer():
            found: int = super()._read_query_result(unbuffered)  # type: ignore[misc]
            return found

    @contextmanager
    def _reading_answer(self) -> Iterator[None]:
        """Close the connection if an answer cannot be read: the beginning of the next answer is unknown then."""
        try:
            yield
        except _UNREADABLE as error:
            self._force_close()  # type: ignore[attr-defined]
            raise pymysql.OperationalError(CR.CR_MALFORMED_PACKET, f"{type(error).__name__}: {error}") from error

    def _read_bytes(self, count: int) -> bytes:
        """Wait less long for the rest of a packet than for its beginning, which the server may have to compute.

        A length that the network has changed asks for bytes that the server never sends.
        """
        before = self._sock.gettimeout()
        shorter = count != HEADER and (before is None or before > _REST_S)
        if shorter:
            self._sock.settimeout(_REST_S)
        read: bytes = super()._read_bytes(count)  # type: ignore[misc]
        if shorter:
            self._sock.settimeout(before)
        return read

    def _execute_command(self, command: int, sql: str | bytes) -> None:
        self._sent = sql
        super()._execute_command(command, sql)  # type: ignore[misc]

    @property
    def statement(self) -> str:
        """Return the beginning of the statement that was sent last."""
        text = self._sent if isinstance(self._sent, str) else self._sent.decode("utf-8", "replace")
        return text[:200]

    def wait_at_most(self, seconds: float) -> None:
        """Set the time to wait for each answer from now on."""
        self._read_timeout = seconds

    def notice_silence(self) -> None:
        """Let the operating system end the connection two minutes after the server's machine became unreachable.

        The rows of a long SELECT have no other limit: the first one may come late.
        """
        for name, seconds in _PROBES.items():
            if hasattr(socket, name):  # other systems than Linux lack some of them
                self._sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)

    @property
    def is_encrypted(self) -> bool:
        return bool(getattr(self, "_secure", False))

    @property
    def server_public_key(self) -> bytes | None:
        """Return the server's key.

        PyMySQL reads this just before it would request the key over a connection without TLS.
        """
        if self._key is None and not self.address.tls.public_key_retrieval:
            raise exposed(
                self.address,
                "the server asks for the password itself, and the connection is not protected by TLS",
                "enable TLS on the server, or name its public key with  ssl: {public-key: FILE} , or trust the "
                "network with  ssl: {allow-public-key-retrieval: true}  "
                "(jdbc.properties.allowPublicKeyRetrieval=true)",
            )
        return self._key

    @server_public_key.setter
    def server_public_key(self, key: bytes | None) -> None:
        if key is not None and key != self._trusted and not self.address.tls.public_key_retrieval:
            raise exposed(
                self.address,
                "the server sent a public key to encrypt the password, and the key cannot be verified",
                "name the right key with  ssl: {public-key: FILE}",
            )
        self._key = key


class _ClearPassword:
    """PAM and LDAP: the server receives the password itself."""

    def __init__(self, connection: GuardedConnection) -> None:
        self._connection = connection

    def authenticate(self, packet: object) -> object:
        connection = self._connection
        tls = connection.address.tls
        verified = connection.is_encrypted and tls.mode in {"verify-ca", "verify-identity"}
        if not verified and not tls.cleartext_password:
            raise exposed(
                connection.address,
                "the server asks for the password in clear text, and its identity is not verified",
                "verify the server with  ssl: {mode: verify-identity, ca: FILE} , or allow it with  ssl: "
                "{allow-cleartext-password: true}",
            )
        connection.write_packet(connection.password + b"\0")
        answer: Any = connection._read_packet()  # type: ignore[no-untyped-call]
        answer.check_error()
        return answer


class _OldPassword:
    def __init__(self, connection: GuardedConnection) -> None:
        self._connection = connection

    def authenticate(self, packet: object) -> object:
        raise exposed(
            self._connection.address,
            "the server asks for the password hash of MySQL 4.0, which is insecure",
            "change the user's authentication plugin: ALTER USER ... IDENTIFIED WITH caching_sha2_password BY '...'",
        )


def exposed(server: ServerAddress, message: str, hint: str) -> PasswordExposed:
    return PasswordExposed(message, server=f"{server.host}:{server.port}", ssl_mode=server.tls.mode, hint=hint)


def _check_host(host: str) -> None:
    try:
        host.encode("idna")  # as a socket does
    except UnicodeError as error:
        raise ConfigError(
            "the host name of the MySQL server is not valid", hostname=host, reason=str(error), hint="correct hostname"
        ) from error


def _trusted_key(tls: Tls) -> bytes | None:
    if not tls.public_key:
        return None
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    key = Path(tls.public_key).read_bytes()
    try:
        load_pem_public_key(key)
    except ValueError as error:
        raise ConfigError(
            "the public key of the MySQL server cannot be used",
            file=tls.public_key,
            reason=str(error).partition(".")[0],
            hint="public-key is a file in PEM, which begins with -----BEGIN PUBLIC KEY-----",
        ) from error
    return key
