"""The settings of PostgreSQL capture: which tables, from which position, and how. Plain data, safe to pickle."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.ingest.connector import SourceRequest
from penstock.ingest.postgres.config import PostgresConfig
from penstock.ingest.postgres.server.address import PgAddress
from penstock.ingest.postgres.server.catalog import TableName
from penstock.ingest.postgres.server.slot import Publication
from penstock.storage.state_folder import StateFolder
from penstock.table_pattern import TablePattern

PATIENCE_SECONDS = 60.0  # how long a running pipeline waits for an unreachable server
_LOG_BYTES = 256 << 20
_SNAPSHOT_ROWS = 2_000_000


@dataclass(frozen=True, slots=True)
class PgTables:
    """The selection of tables by full matches of regular expressions; excluding patterns win."""

    schemas: str = ".*"
    tables: str = ".*"
    including: str = ".*"
    excluding: str | None = None
    including_schemas: str = ".*"
    excluding_schemas: str | None = None
    names: str | None = None  # an expression for `schema.table` as one text
    excluding_names: str | None = None
    left_out: frozenset[TableName] = frozenset()

    def takes(self, schema: str, table: str) -> bool:
        return (
            (schema, table) not in self.left_out
            and _matches(self.schemas, schema)
            and _matches(self.tables, table)
            and _matches(self.including, table)
            and _matches(self.including_schemas, schema)
            and not _matches(self.excluding, table)
            and not _matches(self.excluding_schemas, schema)
            and (self.names is None or _matches(self.names, f"{schema}.{table}"))
            and not _matches(self.excluding_names, f"{schema}.{table}")
        )


def _matches(pattern: str | None, name: str) -> bool:
    return pattern is not None and re.fullmatch(pattern, name) is not None


@dataclass(frozen=True, slots=True)
class RereadRequest:
    """A request to read `tables` again, given as `table` or `schema.table`."""

    name: str
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PgSettings:
    """The settings of a PostgreSQL source.

    `rereads` is a request that the offsets do not contain yet: empty the tables in `reset`, or all, and read them
    again.
    """

    server: PgAddress
    tables: PgTables
    slot: str
    publication: Publication
    requests: StateFolder
    failover: bool = False
    mode: str = "initial"
    chunk_rows: int = 50_000
    new_tables: bool = True
    keyless_stops: bool = False
    rereads: str = ""
    reset: tuple[TableName, ...] = ()
    rereads_when_lost: bool = False
    log_bytes: int = _LOG_BYTES
    snapshot_rows: int = _SNAPSHOT_ROWS

    @property
    def reads_tables(self) -> bool:
        return self.mode in {"initial", "snapshot"}

    def requested(self) -> list[RereadRequest]:
        """Return the requests of users that are still stored."""
        found = ((name, self.requests.read(name)) for name in self.requests.names())
        return [
            RereadRequest(name, tuple(json.loads(content)["tables"])) for name, content in found if content is not None
        ]


def pg_settings(config: PostgresConfig, request: SourceRequest) -> PgSettings:
    """Return the settings of a section, without connecting."""
    selection, publication = request.selection, config.publication
    return PgSettings(
        server=server_address(config),
        tables=PgTables(
            config.schema_name,
            config.table_name,
            selection.including_tables,
            selection.excluding_tables,
            selection.including_databases,
            selection.excluding_databases,
            _pattern(config.tables),
            _pattern(config.tables_exclude),
        ),
        slot=config.slot_name,
        publication=Publication(publication.name or f"{config.slot_name}_pub", publication.create),
        requests=request.snapshot_requests,
        failover=config.failover,
        mode=config.startup.mode,
        chunk_rows=config.snapshot.chunk_rows,
        new_tables=config.newly_added_tables,
        keyless_stops=request.keyless == "fail" or config.keyless == "fail",
        rereads=secrets.token_hex(4) if request.rereads else "",
        rereads_when_lost=request.rereads_when_lost,
    )


def server_address(config: PostgresConfig) -> PgAddress:
    tls = config.ssl
    files = {"sslmode": tls.mode, "sslrootcert": tls.ca, "sslcert": tls.cert, "sslkey": tls.key}
    return PgAddress(
        config.hostname,
        config.port,
        config.username,
        config.password,
        config.database_name,
        tuple((name, value) for name, value in files.items() if value),
        name=f"penstock/{config.slot_name}",
        connect_timeout=config.connect_timeout,
        patience=PATIENCE_SECONDS,
    )


def _pattern(tables: Sequence[str]) -> str | None:
    """Return one regular expression that matches `schema.table` for all of the tables."""
    return "|".join(f"(?:{TablePattern.of(one).regex.pattern})" for one in tables) or None
