"""The databases that JDBC URLs refer to, as Python's drivers connect to them: SQLite, MySQL, MariaDB and PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock.errors import ConfigError, StoreError, nearest
from penstock.references import resolve
from penstock.table.catalog.kept_connections import KEPT

_URL = re.compile(r"jdbc:(?P<kind>[a-z]+):(?P<place>[^?]*)(?:\?(?P<parameters>.*))?", re.DOTALL)
_FORMS = "jdbc:sqlite:/path/to/names.sqlite, jdbc:mysql://host:3306/database or jdbc:postgresql://host:5432/database"
_TIMEOUT_SECONDS = 30


class DuplicateRow(Exception):
    """A row that was not inserted, because there is one with the same key."""


@dataclass(frozen=True, slots=True)
class JdbcDatabase:
    """A database and the properties of connections to it, which may contain references to secrets.

    Each session has a connection to itself, which the process keeps for the next one. So this class is safe in threads
    and in processes that fork, and it is pickled without an open connection.
    """

    kind: str
    place: str
    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, url: str, properties: Mapping[str, str]) -> JdbcDatabase:
        """Parse a URL as Java's drivers take it; `properties` are those that the catalog's `jdbc.*` options set."""
        parts = _URL.fullmatch(url.strip())
        if parts is None or parts["kind"] not in _DRIVERS:
            # A password may be among the parameters, or before an @; neither is shown.
            shown = url.partition("?")[0].rpartition("@")[2]
            raise ConfigError(
                f"uri = {shown} is not the URL of a supported database", option="uri", hint=f"write {_FORMS}"
            )
        pairs = (pair.partition("=") for pair in (parts["parameters"] or "").split("&") if pair)
        known = {name: unquote(value) for name, _, value in pairs} | dict(properties)
        driver = _DRIVERS[parts["kind"]]
        for name in known.keys() - driver.properties:
            near = nearest(name, driver.properties)
            hint = f"did you mean {near}?" if near else f"choices are {', '.join(sorted(driver.properties)) or 'none'}"
            raise ConfigError(f"connections to {parts['kind']} have no property {name!r}", hint=hint)
        driver.check(parts["place"])
        return cls(parts["kind"], parts["place"], tuple(sorted(known.items())))

    def __str__(self) -> str:
        return f"jdbc:{self.kind}:{self.place}"

    @property
    def seconds_since(self) -> str:
        """Return the SQL expression for the seconds that have passed since the timestamp in `acquired_at`."""
        return _DRIVERS[self.kind].seconds_since

    @contextmanager
    def session(self) -> Iterator[DatabaseConnection]:
        """Yield a connection for a few statements; each is committed by itself. StoreError when one fails."""
        driver = _DRIVERS[self.kind]
        module = _driver_module(driver.module)
        try:
            with self._connection(driver, module) as connection:
                yield DatabaseConnection(connection, module, driver.placeholder)
        except module.Error as error:
            raise StoreError(
                f"the database of the catalog failed: {error}",
                database=str(self),
                hint="check that the database is running and that its user may read and write Paimon's tables",
            ) from error

    @contextmanager
    def _connection(self, driver: _Driver, module: Any) -> Iterator[Any]:
        properties = {name: resolve(text) for name, text in self.properties}
        # With the secrets, which may have changed since: whoever has others connects with them, or is refused.
        place = self, tuple(properties.items())
        connection = None
        if driver.probe is not None:
            connection = KEPT.take(place, partial(_answers, module, driver.probe(self.place)))
        if connection is None:
            connection = driver.connect(module, self.place, properties)
        is_whole = False
        try:
            yield connection
            is_whole = True
        except DuplicateRow:
            is_whole = True  # the statement changed nothing
            raise
        finally:
            if is_whole and driver.probe is not None:
                KEPT.keep(place, connection)
            else:
                connection.close()

    def texts(self, query: str, *values: object) -> list[tuple[str, ...]]:
        """Return the rows of a query for names. ConfigError if one has a value that is not text, such as NULL."""
        with self.session() as session:
            rows = session.rows(query, *values)
        for row in rows:
            if not all(isinstance(value, str) for value in row):
                raise ConfigError(
                    "a row of Paimon's tables in the database of the catalog has a value that is not text",
                    database=str(self),
                    row=f"{row!r:.200}",
                    query=query,
                    hint="correct or delete the row; neither Penstock nor Java Paimon writes such rows",
                )
        return rows


@dataclass(frozen=True, slots=True)
class DatabaseConnection:
    """A connection. Its statements have a question mark for each value."""

    connection: Any
    module: Any
    placeholder: str

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(statement.replace("?", self.placeholder), values)
            return [tuple(row) for row in cursor.fetchall()]

    def execute(self, statement: str, *values: object) -> int:
        """Run a statement and return the number of changed rows. DuplicateRow when a key exists already."""
        with closing(self.connection.cursor()) as cursor:
            try:
                cursor.execute(statement.replace("?", self.placeholder), values)
            except self.module.IntegrityError as error:
                raise DuplicateRow(str(error)) from error
            return int(cursor.rowcount)

    def create_table(self, name: str, columns: str) -> None:
        """Create a table unless it exists. A user without the right to create tables may use existing ones."""
        try:
            self.rows(f"SELECT 1 FROM {name} WHERE 1 = 0")
        except self.module.Error:
            try:
                self.execute(f"CREATE TABLE {name} ({columns})")
            except self.module.Error:
                self.rows(f"SELECT 1 FROM {name} WHERE 1 = 0")  # another process may have created it just now


@dataclass(frozen=True, slots=True)
class _Driver:
    """A kind of database: the Python module that connects to it, and where its SQL differs."""

    module: str
    connect: Callable[[Any, str, Mapping[str, str]], Any]
    check: Callable[[str], object]
    properties: frozenset[str]
    placeholder: str
    seconds_since: str
    # The statement that tries a connection kept between sessions; None if connections are not kept.
    probe: Callable[[str], str] | None


def _answers(module: Any, probe: str, connection: Any) -> bool:
    """Return whether the server still has the session of an idle connection: it may have been restarted."""
    try:
        with closing(connection.cursor()) as cursor:
            cursor.execute(probe)
    except module.Error:
        return False
    return True


def _driver_module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigError(
            "the client of PostgreSQL is not installed",
            hint="on all machines of the job:  pip install psycopg psycopg-binary",
        ) from error


def _sqlite_path(place: str) -> str:
    path = re.sub(r"^file:(//)?", "", place)
    if not path.startswith("/"):
        raise ConfigError(
            f"uri = jdbc:sqlite:{place} does not name a file by its absolute path",
            option="uri",
            hint="write jdbc:sqlite:/path/to/names.sqlite; every process of a job opens the file",
        )
    return path


def _connect_sqlite(module: Any, place: str, _: Mapping[str, str]) -> Any:
    # Without an isolation level sqlite3 opens no transactions, so each statement is committed by itself.
    return module.connect(_sqlite_path(place), timeout=_TIMEOUT_SECONDS, isolation_level=None)


def _server(place: str) -> dict[str, Any]:
    """Return host, port and database of `//host:port/database`."""
    try:
        parts = urlsplit(place)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    database = unquote(parts.path.strip("/")) if host else ""
    if not host or not database or "@" in parts.netloc:
        raise ConfigError(
            "uri names no host and database, or contains a login",
            option="uri",
            hint=f"write {_FORMS}; options for the login are jdbc.user and jdbc.password",
        )
    return {"host": host, "database": database} | ({"port": port} if port else {})


def _connect_mysql(module: Any, place: str, properties: Mapping[str, str]) -> Any:
    return module.connect(_server(place), properties)


def _connect_postgresql(module: Any, place: str, properties: Mapping[str, str]) -> Any:
    server = _server(place)
    # The time of a lock has no time zone: all sessions must use the same one.
    fixed = {"autocommit": True, "connect_timeout": _TIMEOUT_SECONDS, "options": "-c timezone=UTC"}
    # Without it, a statement on a kept connection to a machine that is gone would wait for a quarter of an hour.
    fixed["tcp_user_timeout"] = 1000 * _TIMEOUT_SECONDS
    return module.connect(**properties, **fixed, dbname=server.pop("database"), **server)


_MYSQL = _Driver(
    "penstock.table.catalog.jdbc_mysql",
    _connect_mysql,
    _server,
    frozenset({"user", "password", "sslMode", "sslCa", "allowPublicKeyRetrieval"}),
    "%s",
    # The clock of the database, which is the same for all writers.
    "TIMESTAMPDIFF(SECOND, acquired_at, NOW())",
    # If the database was dropped and created again, the session has none.
    lambda place: f"USE `{_server(place)['database'].replace('`', '``')}`",
)
_DRIVERS = {
    "sqlite": _Driver(
        "sqlite3",
        _connect_sqlite,
        _sqlite_path,
        frozenset(),
        "?",
        "strftime('%s', 'now') - strftime('%s', acquired_at)",
        None,  # opening a file is cheap, and it may be replaced
    ),
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "postgresql": _Driver(
        "psycopg",
        _connect_postgresql,
        _server,
        frozenset({"user", "password", "sslmode", "sslrootcert"}),
        "%s",
        "EXTRACT(EPOCH FROM AGE(NOW(), acquired_at))",
        lambda _: "SELECT 1",
    ),
}
