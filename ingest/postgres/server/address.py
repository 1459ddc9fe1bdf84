"""The address of a PostgreSQL server, with the password by reference and the protection of the connection."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.references import resolve

# A server, a database or a role may have other defaults, and the text of values depends on them.
SESSION = {
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    # A policy would hide rows from queries, but not from the log: the server then refuses the query instead.
    "row_security": "off",
    # With many tables, the server would compile the queries of the catalog for longer than it runs them.
    "jit": "off",
    # Readers of the log report every ten seconds. The next reader waits until one of a lost machine has ended.
    "wal_sender_timeout": "120s",
    # Limits for the statements of applications would end the COPY of a large table.
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}


@dataclass(frozen=True, slots=True)
class PgAddress:
    """The settings that a task needs to connect; safe to pickle and to print.

    `options` are further parameters of libpq, such as `sslmode` and `sslrootcert`. `patience` is how long to wait, in
    seconds, for a server that cannot be reached.
    """

    host: str
    port: int
    user: str
    password: str = field(repr=False)  # may contain references to secrets
    database: str
    options: tuple[tuple[str, str], ...] = ()
    name: str = "penstock"  # shown as application_name
    connect_timeout: float = 30.0
    patience: float = 0.0
    answer_timeout: float = float("inf")  # seconds without a byte after which a statement is given up

    @property
    def where(self) -> str:
        return f"{self.host}:{self.port}/{self.database}"

    @property
    def shown_name(self) -> str:
        """The name as the server shows it."""
        # The server cuts application_name at 63 bytes (NAMEDATALEN).
        return self.name[:63]

    def parameters(self, *, replication: bool) -> dict[str, str]:
        """Return the parameters of a connection, with the password itself."""
        made = {
            "host": self.host,
            "port": str(self.port),
            "user": self.user,
            "dbname": self.database,
            "application_name": self.shown_name,
            "client_encoding": "UTF8",
            "connect_timeout": str(max(2, int(self.connect_timeout))),
            # Otherwise a reader waits for two hours for a server whose machine is gone.
            "keepalives_idle": "60",
            "keepalives_interval": "15",
            "keepalives_count": "4",
            # The same for a statement whose bytes no machine confirms: the system would send them again for long.
            "tcp_user_timeout": "120000",
            "options": " ".join(f"-c {key}={value}" for key, value in SESSION.items()),
            **dict(self.options),
        }
        if replication:
            made["replication"] = "database"
        password = resolve(self.password)
        return made | ({"password": password} if password else {})
