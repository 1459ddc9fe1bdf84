"""The address of a MySQL or MariaDB server, with the password by reference and the protection of the connection."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penstock.errors import ConfigError
from penstock.references import resolve


@dataclass(frozen=True, slots=True)
class Secret:
    """A password by reference: the name of an environment variable or a file, or a text that may contain references.

    It is resolved where it is used, because descriptors appear in logs.
    """

    value: str
    kind: Literal["env", "file", "text"] = "text"

    def reveal(self) -> str:
        """Return the password itself; ConfigError if its environment variable is not set."""
        match self.kind:
            case "env":
                if self.value not in os.environ:
                    raise ConfigError(
                        "the password's environment variable is not set",
                        variable=self.value,
                        hint=f"export {self.value}=...",
                    )
                return os.environ[self.value]
            case "file":
                # Editors end a file with a newline, which is not part of the password.
                return Path(self.value).read_text(encoding="utf-8").rstrip("\r\n")
        return resolve(self.value)

    def __repr__(self) -> str:
        return f"Secret({'***' if self.kind == 'text' else self.value!r}, {self.kind!r})"


@dataclass(frozen=True, slots=True)
class Tls:
    """The protection of the connection.

    `preferred` and `required` encrypt without verifying the server's identity; `preferred` continues without TLS if the
    server does not offer it. `public_key` is the file with the server's RSA key; `public_key_retrieval` accepts the key
    that the server sends; `cleartext_password` sends the password itself to an unverified server.
    """

    mode: Literal["disabled", "preferred", "required", "verify-ca", "verify-identity"] = "preferred"
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    public_key: str | None = None
    public_key_retrieval: bool = False
    cleartext_password: bool = False

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS settings of a connection, None if TLS is disabled."""
        if self.mode == "disabled":
            return None
        verifies = self.mode in {"verify-ca", "verify-identity"}
        if verifies or self.ca:
            context = ssl.create_default_context(cafile=self.ca)
        else:
            # Loading the certificates of the system, which are not used, costs 30 ms of CPU for each connection.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # In this order: Python rejects CERT_NONE while host names are checked.
        context.check_hostname = self.mode == "verify-identity"
        if not verifies:
            context.verify_mode = ssl.CERT_NONE
        if self.cert:
            context.load_cert_chain(self.cert, self.key)
        return context


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The settings that a task needs to connect to the server; safe to pickle and to print."""

    host: str
    port: int
    user: str
    password: Secret
    tls: Tls = Tls()
    connect_timeout: float = 30.0
    read_timeout: float = 300.0
    patience: float = 0.0  # seconds to wait for a server that cannot be reached
