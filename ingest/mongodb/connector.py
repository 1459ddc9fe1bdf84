"""The connector of MongoDB servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.errors import SourceError
from penstock.ingest.connector import (
    LOG_SECONDS,
    Capabilities,
    Preparation,
    SourceCheck,
    SourceRequest,
    StartPlace,
    TableName,
)
from penstock.ingest.database.connector import DatabaseConnector
from penstock.ingest.mongodb.config import MongoConfig, MongoStartup
from penstock.ingest.source import Offsets

if TYPE_CHECKING:
    from penstock.formats.change import SourceSchema
    from penstock.ingest.database.findings import ServerFinding
    from penstock.ingest.mongodb.server.connection import MongoConnection
    from penstock.ingest.mongodb.settings import MongoSettings
    from penstock.ingest.mongodb.source import MongoComparison, MongoSource


class MongoConnector(DatabaseConnector["MongoConfig", "MongoSettings"]):
    """Replica sets and sharded clusters whose collections are copied, and whose change stream is read from there on."""

    name = "mongodb"
    config = MongoConfig
    capabilities = Capabilities(describes_tables=True, rereads_tables=True, names_rows=True, lag_unit=LOG_SECONDS)

    def settings(self, config: MongoConfig, request: SourceRequest) -> MongoSettings:
        from penstock.ingest.mongodb.settings import mongo_settings

        return mongo_settings(config, request)

    def open(self, config: MongoConfig, request: SourceRequest) -> MongoSource:
        from penstock.ingest.mongodb.source import MongoSource

        return MongoSource(self.settings(config, request))

    def check(self, config: MongoConfig, request: SourceRequest, *, must: bool = True) -> SourceCheck:
        settings = self.settings(config, request)
        found, tables = self._examined(settings, request, must=must)
        return SourceCheck(settings.server.where, [finding.for_source() for finding in found], tables)

    def tables(self, config: MongoConfig, request: SourceRequest, *, must: bool = True) -> list[SourceSchema]:
        from penstock.ingest.database.findings import log_warnings, require_ready

        found, tables = self._examined(self.settings(config, request), request, must=must)
        log_warnings(found)
        require_ready(found)
        return tables

    def _examined(
        self, settings: MongoSettings, request: SourceRequest, *, must: bool
    ) -> tuple[list[ServerFinding], list[SourceSchema]]:
        """Return the findings of the server, and the collections to capture with the columns of a first document."""
        from penstock.ingest.mongodb.planner import MongoPlanner, captured_collections
        from penstock.ingest.mongodb.server.checks import check_server
        from penstock.ingest.mongodb.server.connection import connected

        with connected(replace(settings.server, patience=0.0)) as connection:
            findings = check_server(connection)
            if any(finding.level == "error" for finding in findings):
                return findings, []
            # A pipeline of a whole database may begin before its first collection.
            needs_one = must and request.single_table
            names = [one.table for one in captured_collections(MongoPlanner(settings), connection, must=needs_one)]
            return findings, _described(connection, settings, names, needs_one=needs_one)

    def left_out(self, config: MongoConfig, request: SourceRequest) -> Mapping[TableName, str]:
        from penstock.ingest.mongodb.server.collections import selected_collections
        from penstock.ingest.mongodb.server.connection import connected

        settings = self.settings(config, request)
        with connected(replace(settings.server, patience=0.0)) as connection:
            found = selected_collections(connection, settings.tables, settings.database)
        return {one.table: f"a {one.kind} has no change stream" for one in found if not one.has_stream}

    def prepare(self, config: MongoConfig, request: SourceRequest, preparation: Preparation) -> MongoSource:
        from penstock.ingest.mongodb.source import MongoSource

        settings = self.prepared(self.settings(config, request), preparation)
        # Documents of a chunk are read beside their changes, so changes that they contain already are applied once
        # more; and without images an update shows a document that may be newer.
        if preparation.exact and (settings.reads_tables or settings.full_document == "lookup"):
            raise SourceError(
                "a target table would show changes that are applied twice, as after reading the rows of a table",
                hint="use the merge engine deduplicate and changelog-producer: none, or  startup: {mode: latest-offset}"
                " with  full-document: required",
            )
        return MongoSource(settings)

    def estimates(self, config: MongoConfig, request: SourceRequest) -> Mapping[TableName, int]:
        """Return the server's counts."""
        from penstock.ingest.mongodb.server.collections import row_count
        from penstock.ingest.mongodb.server.connection import connected

        source = self.open(config, request)
        with connected(replace(source.settings.server, patience=0.0)) as connection:
            return {one.table: row_count(connection, one.table) for one in source.planner.captured(connection)}

    def resume_point(self, config: MongoConfig, request: SourceRequest, reached: Offsets) -> str | None:
        from penstock.ingest.mongodb.offsets import MongoProgress
        from penstock.ingest.mongodb.planner import check_progress
        from penstock.ingest.mongodb.server.cluster_time import time_text
        from penstock.ingest.mongodb.server.connection import connected
        from penstock.ingest.mongodb.settings import server_address

        if "server" not in reached:
            return None
        progress = MongoProgress.from_json(reached)
        with connected(replace(server_address(config), patience=0.0)) as connection:
            check_progress(connection, progress)
        return time_text(progress.log)

    def comparable(self, config: MongoConfig, request: SourceRequest) -> MongoComparison:
        from penstock.ingest.mongodb.source import MongoComparison

        return MongoComparison(self.open(config, request))

    def warnings(self, config: MongoConfig) -> list[str]:
        from penstock.ingest.mongodb.server.checks import check_retention
        from penstock.ingest.mongodb.server.connection import connected
        from penstock.ingest.mongodb.settings import server_address

        with connected(replace(server_address(config), patience=0.0)) as connection:
            return [finding.problem for finding in check_retention(connection)]

    def starting_at(self, config: MongoConfig, place: StartPlace) -> MongoConfig:
        if place == "earliest":
            startup = MongoStartup()
        elif place == "latest":
            startup = MongoStartup(mode="latest-offset")
        else:
            startup = MongoStartup(mode="timestamp", timestamp_millis=place)
        return config.model_copy(update={"startup": startup})


def _described(
    connection: MongoConnection, settings: MongoSettings, names: list[TableName], *, needs_one: bool
) -> list[SourceSchema]:
    from penstock.ingest.mongodb.errors import EmptyCollection
    from penstock.ingest.mongodb.rows import DocumentRows
    from penstock.ingest.mongodb.source import described

    documents = DocumentRows(settings.choice, Counter())
    found = [described(connection, name, documents) for name in names]
    tables = [one for one in found if one is not None]
    if names and not tables and needs_one:
        raise EmptyCollection(
            "No documents in collection to infer schema",
            collections=", ".join(map(".".join, names)),
            hint="insert a document first, or name the columns: schema.start.mode=specified with field.name",
        )
    return tables


CONNECTOR = MongoConnector()
