"""The settings of MongoDB capture: which collections, from which time, and how. Plain data, safe to pickle."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.ingest.connector_requests import SourceRequest
from penstock.ingest.database.settings import (
    PATIENCE_SECONDS,
    CapturedTables,
    ChunkedSettings,
    RereadRequests,
    reread_mark,
)
from penstock.ingest.mongodb.config import MongoConfig
from penstock.ingest.mongodb.log.stream import FullDocument
from penstock.ingest.mongodb.rows import ColumnChoice
from penstock.ingest.mongodb.server.address import MongoAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class MongoSettings(ChunkedSettings[MongoAddress]):
    """The settings of a MongoDB source."""

    choice: ColumnChoice
    timestamp_millis: int | None = None
    full_document: FullDocument = "lookup"
    log_seconds: int = 3600

    @property
    def database(self) -> str | None:
        """The only database, None if the pattern may match several."""
        return _name(self.tables.databases)

    @property
    def collection(self) -> str | None:
        """The only collection, None if the pattern may match several."""
        return _name(self.tables.tables)


def _name(pattern: str) -> str | None:
    """Return the pattern if it is a name; an escaped dot is one of the name."""
    plain = pattern.replace(r"\.", "").replace(r"\-", "")
    return re.sub(r"\\(.)", r"\1", pattern) if re.fullmatch(r"[\w-]+", plain) else None


def mongo_settings(config: MongoConfig, request: SourceRequest) -> MongoSettings:
    """Return the settings of a section, without connecting."""
    return MongoSettings(
        server=server_address(config),
        tables=CapturedTables.selected(
            config.database, config.collection, request.selection, config.tables, config.tables_exclude
        ),
        requests=RereadRequests(request.snapshot_requests),
        choice=ColumnChoice(config.default_id_generation, config.documents.fields),
        mode=config.startup.mode,
        timestamp_millis=config.startup.timestamp_millis,
        chunk_rows=config.snapshot.chunk_rows,
        full_document=config.full_document,
        log_seconds=config.log_seconds,
        new_tables=config.newly_added_tables,
        rereads=reread_mark(request),
        rereads_when_lost=request.rereads_when_lost,
    )


def server_address(config: MongoConfig) -> MongoAddress:
    return MongoAddress(
        config.hosts,
        config.username,
        config.password,
        config.scheme,
        config.connection_options,
        config.connect_timeout,
        PATIENCE_SECONDS,
    )
