"""The base of connectors to databases: the keys that their `source` sections share, and the answers by these keys."""

from __future__ import annotations

import re
import secrets
from abc import abstractmethod
from collections.abc import Collection
from dataclasses import replace
from typing import Annotated, ClassVar, Generic, TypeVar

from pydantic import AfterValidator, Field

from penstock.ingest.connector import Connector, SourceConfig
from penstock.ingest.connector_answers import TableCapture
from penstock.ingest.connector_requests import Keyless, Preparation, SourceRequest, TableName
from penstock.ingest.database.settings import Address, DatabaseSettings
from penstock.ingest.source import Offsets
from penstock.settings import Names, Seconds, Strict, errors_in_place
from penstock.table_pattern import TablePattern


def _expression(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as reason:
        raise ValueError(f"{pattern!r} is not a regular expression: {reason}") from reason
    return pattern


def _patterns(given: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in given:
        with errors_in_place():
            TablePattern.of(pattern)
    return given


def _without_login(host: str) -> str:
    # A name that begins with / or @ is a socket of PostgreSQL. The error must not repeat the value.
    if "@" in host.lstrip("@") and not host.startswith("/"):
        raise ValueError("the address contains a login: write it as username and password")
    return host


Expression = Annotated[str, AfterValidator(_expression)]
Host = Annotated[str, AfterValidator(_without_login)]
TablePatterns = Annotated[Names, AfterValidator(_patterns)]


class DatabaseSnapshot(Strict):
    chunk_rows: int = Field(default=50_000, gt=0)
    parallel: int | None = Field(
        default=None, gt=0, description="chunks that are read at the same time; default: one per task"
    )


class RelationalSnapshot(DatabaseSnapshot):
    fill_added_columns: bool = Field(
        default=True,
        description="read a table again when a column was added that has a default, is generated or cannot be null,"
        " and when a statement changed the values of a column",
    )


class ServerConfig(SourceConfig):
    """The keys of a database at one address."""

    hostname: Host
    port: int = Field(gt=0, lt=65536)
    username: str
    password: str = Field(repr=False)
    database_name: str
    table_name: Expression = ".*"


class DatabaseConfig(SourceConfig):
    """The keys that the section of every database has."""

    tables: TablePatterns = ()
    tables_exclude: TablePatterns = Field(
        default=(), alias="tables.exclude", description="tables to exclude; wins over `tables`"
    )
    snapshot: DatabaseSnapshot = DatabaseSnapshot()
    connect_timeout: Seconds = 30.0
    newly_added_tables: bool = True
    heartbeat: Seconds = Field(
        default=10.0, description="seconds between two queries of the server's position, for freshness"
    )


class RelationalConfig(DatabaseConfig, ServerConfig):
    """The keys that the section of every relational database has."""

    keyless: Keyless = "leave-out"
    snapshot: RelationalSnapshot = RelationalSnapshot()


C = TypeVar("C", bound=DatabaseConfig)
S = TypeVar("S", bound=DatabaseSettings[Address])


class DatabaseConnector(Connector[C], Generic[C, S]):
    """A kind of database whose tables are copied, and whose log is read from there on.

    The modules that connect are imported where they are used, because reading a pipeline file does not need them.
    """

    references: ClassVar[frozenset[str]] = frozenset({"password"})

    @abstractmethod
    def settings(self, config: C, request: SourceRequest) -> S:
        """Return the settings of the source as described."""

    def renames_columns(self, config: C) -> bool:
        """Return whether renamed columns are renamed in the target table at their position in the log."""
        return False

    def follows_drop(self, config: C) -> bool:
        """Return whether the target of a table that is dropped is emptied."""
        return False

    def captured_before(self, settings: S, reached: Offsets) -> Collection[TableName]:
        """Return the tables captured up to there, if files of the checkpoint name them; otherwise the offsets do."""
        return ()

    def capture(self, config: C, request: SourceRequest) -> TableCapture:
        settings = self.settings(config, request)
        return TableCapture(
            settings.reads_tables,
            settings.new_tables,
            self.renames_columns(config),
            lambda name, left_out: replace(settings.tables, left_out=left_out).includes(*name),
            lambda reached: self.captured_before(settings, reached),
            self.follows_drop(config),
        )

    def prepared(self, settings: S, preparation: Preparation) -> S:
        """Return the settings with the decisions that a pipeline made before its first batch."""
        return replace(
            settings,
            tables=replace(settings.tables, left_out=preparation.left_out),
            reset=preparation.reread,
            outdated=preparation.outdated,
            shares_targets=settings.shares_targets or not preparation.has_targets,
            # The offsets record the request that was carried out: with the name of an earlier one, a request would
            # count as carried out already.
            rereads=settings.rereads or (secrets.token_hex(4) if preparation.reread else ""),
        )

    def readers(self, config: C) -> int | None:
        return config.snapshot.parallel

    def look_seconds(self, config: C) -> float:
        return config.heartbeat
