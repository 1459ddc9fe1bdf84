"""The settings of MySQL capture: which tables, from which position, and how.

Plain data, safe to pickle and to print.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.ingest.connector_requests import SourceRequest
from penstock.ingest.database.settings import (
    PATIENCE_SECONDS,
    CapturedTables,
    DatabaseSettings,
    RereadRequests,
    reread_mark,
)
from penstock.ingest.database.shared_targets import WAYS_OUT, has_shared_targets, refuse_shared
from penstock.ingest.mysql.config import MySqlConfig
from penstock.ingest.mysql.server.address import Secret, ServerAddress, Tls
from penstock.ingest.mysql.server.catalog import SYSTEM_DATABASES, TableName
from penstock.ingest.mysql.server.connection import ask, connected
from penstock.ingest.mysql.snapshot.chunk import ChunkOptions
from penstock.ingest.mysql.values.rules import ValueRules
from penstock.storage.state_folder import StateFolder
from penstock.table_pattern import TablePattern

Mode = Literal["initial", "snapshot", "latest-offset", "earliest-offset", "timestamp", "specific-offset"]
SnapshotMode = Literal["watermark", "exact"]

# gh-ost: _t_gho, _t_ghc and _t_del. pt-online-schema-change: _t_new and _t_old, with more underscores if these exist.
_SHADOW = re.compile(r"_(_?.+)_(?:gho|ghc|del|new|old)", re.DOTALL)


def shadowed(table: str) -> str | None:
    """Return the table that gh-ost or pt-online-schema-change copied here, by the copy's name.

    None for ordinary names.
    """
    found = _SHADOW.fullmatch(table)
    return found[1].removeprefix("_") if found else None


@dataclass(frozen=True, slots=True)
class MySqlTables(CapturedTables):
    """The selection of tables. Copies that schema change tools make of a captured table are not captured."""

    def includes(self, database: str, table: str) -> bool:
        if database in SYSTEM_DATABASES or (database, table) in self.left_out:
            return False
        original = shadowed(table)
        # A name that looks like a copy is an ordinary table if the table that it would be a copy of is not
        # captured.
        return (original is None or not self.includes(database, original)) and self.matches(database, table)


@dataclass(frozen=True, slots=True)
class StartPosition:
    """The start of a pipeline without a checkpoint; afterwards the checkpoint decides."""

    mode: Mode = "initial"
    file: str = ""
    pos: int = 4
    gtid: str = ""
    millis: int = 0

    @property
    def reads_tables(self) -> bool:
        return self.mode in {"initial", "snapshot"}


@dataclass(frozen=True, slots=True)
class Barriers:
    """The table changes that are applied between batches; all others are ignored, as in Paimon."""

    truncate: bool = False
    drop: bool = False
    rename_column: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowSettings(DatabaseSettings[ServerAddress]):
    """The settings of a MySQL source.

    `state` is where the schema history is stored. With the watermark `snapshot`, rows are read as they are now, and
    binlog events from the batch's position on are applied over them: tables need to accept a change twice. With
    `exact`, every chunk is as of the pipeline's binlog position, which does not move until all chunks are read.
    """

    state: StateFolder
    server_ids: tuple[int, int]
    startup: StartPosition = StartPosition()
    snapshot: SnapshotMode = "watermark"
    chunks: ChunkOptions = field(default_factory=ChunkOptions)
    rules: ValueRules = field(default_factory=ValueRules)
    barriers: Barriers = Barriers()
    zone: str = "UTC"
    comments: bool = False
    keyless: bool = False
    accept_gap: bool = False  # continue from the oldest binlog file that is left
    idle_seconds: float = 10.0  # between two batches that only move the position
    first: tuple[str, ...] = ()  # expressions for `database.table`, in the order in which tables are to be read

    @property
    def reads_tables(self) -> bool:
        return self.startup.reads_tables

    @property
    def empties_rewritten(self) -> bool:
        """True if a table is emptied and read again whose rows got other keys by a statement."""
        return self.fills_added_columns and self.reads_tables and not self.shares_targets

    @property
    def follows_moved_rows(self) -> bool:
        """True if a table is emptied and read again from which a statement took rows, as with a partition."""
        return self.barriers.truncate and self.reads_tables

    def rank(self, name: TableName) -> int:
        """Return the priority of a table in the snapshot, lowest first."""
        of_it = (number for number, pattern in enumerate(self.first) if re.fullmatch(pattern, ".".join(name)))
        return next(of_it, len(self.first))

    def server_id(self, number: int) -> int:
        """Return a server id for the reader with this number, another one at each call if there are enough.

        Spark may run a task twice at the same time (spark.speculation). MariaDB disconnects the first of two readers
        with one id: attempts of a slow task would end each other until the batch fails.
        """
        first, last = self.server_ids
        ids = last - first + 1
        if ids < _READERS * _ATTEMPTS:
            return first + number % ids
        return first + number % _READERS + _READERS * secrets.randbelow(_ATTEMPTS)


# Server ids, if no ids are configured.
_READERS, _ATTEMPTS = 256, 64


def follow_settings(mysql: MySqlConfig, request: SourceRequest) -> FollowSettings:
    """Return the settings; connects to the server only if its time zone is wanted."""
    # At random, because the server disconnects a reader when another one comes with the same id.
    first = secrets.randbelow(1 << 30) + 10_000
    startup, snapshot, ddl = mysql.startup, mysql.snapshot, mysql.ddl
    shares_targets = has_shared_targets(request, mysql.tables, mysql.database_name, mysql.table_name)
    _check_shared(mysql, request, shares_targets=shares_targets)
    return FollowSettings(
        server=server_address(mysql),
        tables=MySqlTables.selected(
            mysql.database_name, mysql.table_name, request.selection, mysql.tables, mysql.tables_exclude
        ),
        state=request.state,
        requests=RereadRequests(request.snapshot_requests),
        # Several ids, because each task is a reader, and MariaDB distinguishes readers by this id alone.
        server_ids=mysql.server_ids or (first, first + _READERS * _ATTEMPTS - 1),
        startup=StartPosition(
            startup.mode, startup.file or "", startup.pos, startup.gtid_set or "", startup.timestamp_millis or 0
        ),
        chunks=ChunkOptions(snapshot.chunk_rows, snapshot.chunk_bytes, snapshot.even_from, snapshot.even_to),
        rules=_value_rules(request),
        barriers=Barriers(ddl.truncate != "ignore", ddl.drop != "ignore", ddl.rename_column == "rename"),
        zone=_zone(mysql, request.zone),
        comments=mysql.schema_comments,
        keyless=request.keyless == "append" or (request.single_table and request.defines_key),
        keyless_stops=request.keyless == "fail",
        new_tables=mysql.reads_new_tables,
        first=tuple(TablePattern.of("*.*" if pattern == "*" else pattern).regex.pattern for pattern in snapshot.order),
        rereads=reread_mark(request),
        accept_gap=request.accept_gap,
        idle_seconds=mysql.heartbeat,
        rereads_when_lost=request.rereads_when_lost,
        fills_added_columns=snapshot.fill_added_columns,
        shares_targets=shares_targets,
        demand=request.demand,
        language=request.language,
    )


def _zone(mysql: MySqlConfig, zone: str) -> str:
    """Return the zone in which TIMESTAMP values are shown: the configured one, or with `auto` the server's."""
    configured = mysql.server_time_zone or zone
    zone = configured if configured != "auto" else _zone_of_server(mysql)
    try:
        # Arrow converts values later: a zone that it does not know is found here, before any batch.
        pc.local_timestamp(pa.array([0], pa.timestamp("s", zone)))
    except pa.ArrowInvalid as reason:
        zone_kind = "server's time zone" if configured == "auto" else "time zone"
        raise ConfigError(
            f"the {zone_kind} {zone!r} has no entry in the zone database",
            hint="name the zone by  server-time-zone: Europe/Berlin  or  '+08:00'",
        ) from reason
    return zone


def _zone_of_server(mysql: MySqlConfig) -> str:
    with connected(replace(server_address(mysql), patience=0.0)) as connection:
        zone, system = map(str, ask(connection, "SELECT @@GLOBAL.time_zone, @@GLOBAL.system_time_zone")[0])
    return system if zone == "SYSTEM" else zone


def server_address(mysql: MySqlConfig) -> ServerAddress:
    given = mysql.ssl
    tls = Tls(
        given.mode,
        given.ca,
        given.cert,
        given.key,
        public_key=given.public_key,
        public_key_retrieval=given.allow_public_key_retrieval,
        cleartext_password=given.allow_cleartext_password,
    )
    return ServerAddress(
        mysql.hostname,
        mysql.port,
        mysql.username,
        Secret(mysql.password),
        tls,
        connect_timeout=mysql.connect_timeout,
        patience=PATIENCE_SECONDS,
    )


def _check_shared(mysql: MySqlConfig, request: SourceRequest, *, shares_targets: bool) -> None:
    """Raise ConfigError when a table with several sources should follow DDL of only one of them."""
    if (mysql.ddl.truncate, mysql.ddl.drop) != ("ignore", "ignore"):
        refuse_shared(request, mysql.tables, mysql.database_name, mysql.table_name)
    if mysql.ddl.rename_column != "add" and shares_targets:
        raise ConfigError(
            "a target table that may have several source tables cannot rename its columns with one of them",
            hint=f"{WAYS_OUT}--on-rename-column",
        )


def _value_rules(request: SourceRequest) -> ValueRules:
    odd: Literal["error", "null"] = "error" if request.zero_dates_fail else "null"
    return ValueRules(
        zero_date="text" if request.all_as_text else odd,
        time="text" if request.all_as_text or request.times_as_text else odd,
    )
