"""Builds the settings of a MySQL source from its section and the pipeline's request."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.ingest.connector import SourceRequest
from penstock.ingest.database.settings import PATIENCE_SECONDS, RereadRequests, names_pattern, selected_by
from penstock.ingest.mysql.config import MySqlConfig
from penstock.ingest.mysql.server.address import Secret, ServerAddress, Tls
from penstock.ingest.mysql.server.connection import ask, connected
from penstock.ingest.mysql.settings import Barriers, FollowSettings, MySqlTables, StartPosition
from penstock.ingest.mysql.snapshot.chunk import ChunkOptions
from penstock.ingest.mysql.values.rules import ValueRules
from penstock.table_pattern import TablePattern

_READERS = 256  # server ids, if none are configured


def follow_settings(mysql: MySqlConfig, request: SourceRequest) -> FollowSettings:
    """Return the settings; connects to the server only if its time zone is wanted."""
    first = secrets.randbelow(1 << 30) + 10_000
    startup, snapshot, ddl = mysql.startup, mysql.snapshot, mysql.ddl
    _check_shared(mysql, request)
    return FollowSettings(
        server=server_address(mysql),
        tables=MySqlTables(
            mysql.database_name,
            mysql.table_name,
            *selected_by(request.selection),
            names=names_pattern(mysql.tables),
            excluding_names=names_pattern(mysql.tables_exclude),
        ),
        state=request.state,
        requests=RereadRequests(request.snapshot_requests),
        server_ids=mysql.server_ids or (first, first + _READERS - 1),
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
        first=tuple(TablePattern.of("*.*" if one == "*" else one).regex.pattern for one in snapshot.order),
        rereads=secrets.token_hex(4) if request.rereads else "",
        accept_gap=request.accept_gap,
        rereads_when_lost=request.rereads_when_lost,
    )


def _zone(mysql: MySqlConfig, zone: str) -> str:
    """Return the zone in which TIMESTAMP values are shown: the configured one, or with `auto` the server's."""
    said = mysql.server_time_zone or zone
    zone = said if said != "auto" else _zone_of_server(mysql)
    try:
        pc.local_timestamp(pa.array([0], pa.timestamp("s", zone)))
    except pa.ArrowInvalid as reason:
        whose = "server's time zone" if said == "auto" else "time zone"
        raise ConfigError(
            f"the {whose} {zone!r} has no entry in the zone database",
            hint="name the zone by  server-time-zone: Europe/Berlin  or  '+08:00'",
        ) from reason
    return zone


def _zone_of_server(mysql: MySqlConfig) -> str:
    with connected(replace(server_address(mysql), patience=0.0)) as connection:
        zone, system = (str(one) for one in ask(connection, "SELECT @@GLOBAL.time_zone, @@GLOBAL.system_time_zone")[0])
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


def _is_one_name(patterns: set[str]) -> bool:
    return len(patterns) == 1 and patterns.pop().replace("_", "").replace("-", "").isalnum()


def _check_shared(mysql: MySqlConfig, request: SourceRequest) -> None:
    """Raise ConfigError when a table with several sources should follow DDL of only one of them."""
    parts = [table.partition(".") for table in mysql.tables] or [(mysql.database_name, ".", mysql.table_name)]
    literal = _is_one_name({database for database, _, _ in parts})
    if request.single_table:
        literal = literal and _is_one_name({table for _, _, table in parts})
    shared = not literal and (request.single_table or request.merges_shards)
    hint = "name one database (and one table), or --merge-shards false (naming: {merge-shards: false}), or leave out "
    if shared and (mysql.ddl.truncate, mysql.ddl.drop) != ("ignore", "ignore"):
        raise ConfigError(
            "a table that several source tables may go to cannot be emptied with one of them",
            hint=hint + "--on-truncate and --on-drop",
        )
    if shared and mysql.ddl.rename_column != "add":
        raise ConfigError(
            "the columns of a table that several source tables may go to cannot be renamed with those of one of them",
            hint=hint + "--on-rename-column",
        )


def _value_rules(request: SourceRequest) -> ValueRules:
    odd: Literal["error", "null"] = "error" if request.zero_dates_fail else "null"
    return ValueRules(
        zero_date="text" if request.all_as_text else odd,
        time="text" if request.all_as_text or request.times_as_text else odd,
    )
