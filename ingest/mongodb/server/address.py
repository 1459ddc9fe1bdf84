"""The address of a MongoDB server, with the password by reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote_plus, unquote, urlsplit

from penstock.references import resolve


@dataclass(frozen=True, slots=True)
class MongoAddress:
    """The settings that a task needs to connect; safe to pickle and to print.

    `options` are the options of a connection string, as in `replicaSet=rs0&tls=true`. `patience` is how long to wait,
    in seconds, for a server that cannot be reached.
    """

    hosts: str
    user: str = ""
    password: str = field(default="", repr=False)  # may contain references to secrets
    scheme: str = "mongodb"
    options: str = ""
    connect_timeout: float = 30.0
    patience: float = 0.0

    @property
    def where(self) -> str:
        return f"{self.scheme}://{self.hosts}"

    @property
    def hosts_alone(self) -> list[str]:
        """Return the hosts without their ports, and the paths of sockets, which are encoded in a connection string."""
        return [unquote(urlsplit(f"//{host}").hostname or "") for host in self.hosts.split(",")]

    @property
    def is_verified(self) -> bool:
        """Return whether the certificate of the server is checked, by the options of the connection string."""
        given = {name.lower(): text.lower() for name, text in parse_qsl(self.options)}
        encrypts = given.get("tls", given.get("ssl", "true" if self.scheme == "mongodb+srv" else "false"))
        trusts_any = {given.get("tlsinsecure"), given.get("tlsallowinvalidcertificates")}
        return encrypts == "true" and "true" not in trusts_any

    @property
    def uri(self) -> str:
        """The connection string, with the password itself."""
        password = resolve(self.password)
        login = f"{quote_plus(self.user)}:{quote_plus(password)}@" if self.user else ""
        return f"{self.scheme}://{login}{self.hosts}/?{self.options}"
