"""The settings of PostgreSQL capture: which tables, from which position, and how. Plain data, safe to pickle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.ingest.connector_requests import SourceRequest
from penstock.ingest.database.settings import (
    PATIENCE_SECONDS,
    CapturedTables,
    ChunkedSettings,
    RereadRequests,
    reread_mark,
)
from penstock.ingest.database.shared_targets import has_shared_targets, refuse_shared
from penstock.ingest.postgres.config import PostgresConfig
from penstock.ingest.postgres.server.address import PgAddress
from penstock.ingest.postgres.server.publication import Publication


@dataclass(frozen=True, slots=True, kw_only=True)
class PgSettings(ChunkedSettings[PgAddress]):
    """The settings of a PostgreSQL source."""

    slot: str
    publication: Publication
    failover: bool = False
    follows_truncate: bool = False
    follows_drop: bool = False
    idle_seconds: float = 10.0  # between two batches that only move the position
    snapshot: Literal["watermark", "exact"] = "watermark"

    @property
    def reads_exactly(self) -> bool:
        """True if tables are read as of the position at which the log continues."""
        return self.reads_tables and self.snapshot == "exact"


def pg_settings(config: PostgresConfig, request: SourceRequest) -> PgSettings:
    """Return the settings of a section, without connecting."""
    publication = config.publication
    follows_truncate, follows_drop = config.ddl.truncate != "ignore", config.ddl.drop != "ignore"
    if follows_truncate or follows_drop:
        refuse_shared(request, config.tables, config.schema_name, config.table_name)
    return PgSettings(
        server=server_address(config),
        tables=CapturedTables.selected(
            config.schema_name, config.table_name, request.selection, config.tables, config.tables_exclude
        ),
        slot=config.slot_name,
        publication=Publication(publication.name or f"{config.slot_name}_pub", publication.create),
        requests=RereadRequests(request.snapshot_requests),
        failover=config.failover,
        mode=config.startup.mode,
        follows_truncate=follows_truncate,
        follows_drop=follows_drop,
        idle_seconds=config.heartbeat,
        chunk_rows=config.snapshot.chunk_rows,
        new_tables=config.newly_added_tables,
        keyless_stops=request.keyless == "fail" or config.keyless == "fail",
        rereads=reread_mark(request),
        rereads_when_lost=request.rereads_when_lost,
        fills_added_columns=config.snapshot.fill_added_columns,
        demand=request.demand,
        language=request.language,
        shares_targets=has_shared_targets(request, config.tables, config.schema_name, config.table_name),
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
        answer_timeout=config.answer_timeout or float("inf"),
        patience=PATIENCE_SECONDS,
    )
