"""Connections of a JDBC catalog to MySQL and MariaDB, which do not expose the password to an unverified server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pymysql
import pymysql.connections
import pymysql.cursors
from pymysql.err import Error, IntegrityError, OperationalError

from penstock.errors import ConfigError

if TYPE_CHECKING:
    PyMySqlConnection = pymysql.connections.Connection[pymysql.cursors.Cursor]
else:  # pymysql's class is generic only for the type checker
    PyMySqlConnection = pymysql.connections.Connection

__all__ = ["Error", "IntegrityError", "connect"]

_TIMEOUT_SECONDS = 30
_MODES: dict[str, dict[str, Any]] = {
    "DISABLED": {"ssl_disabled": True},
    "PREFERRED": {},  # what PyMySQL does by default
    "REQUIRED": {"ssl": {"check_hostname": False}},
    "VERIFY_CA": {"ssl_verify_cert": True},
    "VERIFY_IDENTITY": {"ssl_verify_cert": True, "ssl_verify_identity": True},
}
# PREFERRED is not among them: it continues without TLS if the server does not offer it.
_SECURE_MODES = {"REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"}
_EXPOSED = "the server asks for the password in a form that anybody between client and server can read"


def connect(server: Mapping[str, Any], properties: Mapping[str, str]) -> Any:
    """Connect with the properties of MySQL's JDBC driver. Each statement is committed by itself."""
    mode = properties.get("sslMode", "PREFERRED").upper()
    if mode not in _MODES:
        raise ConfigError(f"sslMode = {mode} is not supported", hint=f"choices are {', '.join(_MODES)}")
    authority = {"ssl_ca": properties["sslCa"]} if "sslCa" in properties and mode != "DISABLED" else {}
    return _GuardedConnection(
        secure=mode in _SECURE_MODES,
        trusts_keys=properties.get("allowPublicKeyRetrieval", "false").lower() == "true",
        **server,
        user=properties.get("user"),
        password=properties.get("password", ""),
        autocommit=True,
        connect_timeout=_TIMEOUT_SECONDS,
        read_timeout=_TIMEOUT_SECONDS,
        write_timeout=_TIMEOUT_SECONDS,
        **_MODES[mode],
        **authority,
    )


class _GuardedConnection(PyMySqlConnection):
    """A connection that refuses logins which expose the password, unless the server is verified or trusted."""

    def __init__(self, *, secure: bool, trusts_keys: bool, **settings: Any) -> None:
        self._trusts_keys = trusts_keys
        self._key: bytes | None = None
        refused: dict[str, Any] = dict.fromkeys(("mysql_clear_password", "dialog", "mysql_old_password"), _Refusal)
        super().__init__(**settings, auth_plugin_map=refused)
        if secure and not getattr(self, "_secure", False):  # older versions of PyMySQL continue without TLS
            self.close()
            raise OperationalError("the server does not support TLS, which sslMode requires")

    @property
    def server_public_key(self) -> bytes | None:
        """Return the server's key, which PyMySQL reads just before it would request it without TLS."""
        if self._key is None and not self._trusts_keys:
            raise OperationalError(f"{_EXPOSED}: use sslMode, or trust the network by allowPublicKeyRetrieval = true")
        return self._key

    @server_public_key.setter
    def server_public_key(self, key: bytes | None) -> None:
        self._key = key


class _Refusal:
    def __init__(self, connection: object) -> None:
        """PyMySQL creates the handler of a login method with its connection."""

    def authenticate(self, packet: object) -> object:
        raise OperationalError(_EXPOSED)
