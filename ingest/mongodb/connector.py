"""The connector of MongoDB servers."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from penstock.errors import ConfigError, SourceError, counted
from penstock.ingest.connector import LOG_SECONDS, Capabilities, StartPlace
from penstock.ingest.connector_answers import SourceCheck, unverified
from penstock.ingest.connector_requests import Preparation, SourceRequest, TableName
from penstock.ingest.database.connector import DatabaseConnector
from penstock.ingest.mongodb.config import MongoConfig, MongoStartup
from penstock.ingest.source import Offsets

if TYPE_CHECKING:
    from penstock.formats.change import SourceSchema
    from penstock.ingest.database.findings import ServerFinding
    from penstock.ingest.mongodb.server.address import MongoAddress
    from penstock.ingest.mongodb.server.connection import MongoConnection
    from penstock.ingest.mongodb.settings import MongoSettings
    from penstock.ingest.mongodb.source import MongoComparison, MongoSource
    from penstock.ingest.source_draft import DraftOptions, SourceDraft

log = logging.getLogger(__name__)

_OLD_DOCUMENTS = (
    "the target table needs the old documents of updates and deletes, and the first of them will stop the pipeline; set"
    "  full-document: required  (--mongodb-conf scan.full-changelog=true) if there will be any"
)
_DRAFT = """
source:
  type: mongodb
  scheme: {scheme}
  hosts: "{hosts}"{login}
  connection.options: "{options}"   # as in a connection string, such as replicaSet=rs0&authSource=admin
  tables: ["{pattern}"]             # both parts may be regular expressions; tables.exclude excludes collections
"""
_LOGIN = """
  username: "{user}"
  password: "${{MONGODB_PASSWORD}}" # resolved where it is used, never stored"""


class MongoConnector(DatabaseConnector["MongoConfig", "MongoSettings"]):
    """Replica sets and sharded clusters: collections are copied, then their change stream is read from there on."""

    name = "mongodb"
    config = MongoConfig
    capabilities = Capabilities(
        describes_tables=True, rereads_tables=True, names_rows=True, passes_places=True, lag_unit=LOG_SECONDS
    )
    url_schemes = frozenset({"mongodb", "mongodb+srv"})
    url_form = "mongodb://user@host:27017/database"

    def settings(self, config: MongoConfig, request: SourceRequest) -> MongoSettings:
        from penstock.ingest.mongodb.settings import mongo_settings

        return mongo_settings(config, request)

    def open(self, config: MongoConfig, request: SourceRequest) -> MongoSource:
        from penstock.ingest.mongodb.source import MongoSource

        return MongoSource(self.settings(config, request))

    def check(self, config: MongoConfig, request: SourceRequest, *, must: bool = True) -> SourceCheck:
        settings = self.settings(config, request)
        found, tables = self._examined(settings, request, must=must)
        columns_of = 0 if settings.choice.fields else request.samples
        findings = [finding.for_source() for finding in found]
        if not settings.server.is_verified:
            how = "connection.options do not verify the server by TLS"
            fix = "connection.options: tls=true&tlsCAFile=FILE"
            findings = [*unverified(settings.server.hosts_alone, how, fix), *findings]
        return SourceCheck(settings.server.where, findings, tables, columns_of=columns_of)

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
        from penstock.ingest.mongodb.server.checks import check_images, check_server
        from penstock.ingest.mongodb.server.connection import connected

        with connected(replace(settings.server, patience=0.0)) as connection:
            findings = check_server(connection)
            if any(finding.level == "error" for finding in findings):
                return findings, []
            # A pipeline of a whole database may begin before its first collection.
            needs_one = must and request.single_table
            collections = captured_collections(MongoPlanner(settings), connection, must=needs_one)
            if settings.full_document == "required":
                findings += check_images(collections)
            names = [collection.table for collection in collections]
            return findings, _described(connection, settings, names, request.samples, needs_one=needs_one)

    def undescribed(self, config: MongoConfig, request: SourceRequest) -> Collection[TableName]:
        """Return all captured collections: one without documents has no columns."""
        from penstock.ingest.mongodb.server.connection import connected

        planner = self.open(config, request).planner
        with connected(replace(planner.settings.server, patience=0.0)) as connection:
            return [collection.table for collection in planner.captured(connection)]

    def left_out(self, config: MongoConfig, request: SourceRequest) -> Mapping[TableName, str]:
        from penstock.ingest.mongodb.server.collections import selected_collections
        from penstock.ingest.mongodb.server.connection import connected

        settings = self.settings(config, request)
        with connected(replace(settings.server, patience=0.0)) as connection:
            found = selected_collections(connection, settings.tables, settings.database)
        return {
            collection.table: f"a {collection.kind} has no change stream"
            for collection in found
            if not collection.has_stream
        }

    def check_preparation(self, config: MongoConfig, request: SourceRequest, preparation: Preparation) -> None:
        settings = self.prepared(self.settings(config, request), preparation)
        # Documents of a chunk are read beside their changes, so changes that they contain already are applied once
        # more; and without images an update shows a document that may be newer.
        if preparation.exact and (settings.reads_tables or settings.full_document == "lookup"):
            raise SourceError(
                "a target table would show changes that are applied twice, as after reading the rows of a table",
                hint="use the merge engine deduplicate and changelog-producer: none, without  deletes: history,  or "
                " startup: {mode: latest-offset}  with  full-document: required",
            )

    def prepare(self, config: MongoConfig, request: SourceRequest, preparation: Preparation) -> MongoSource:
        from penstock.ingest.mongodb.source import MongoSource

        self.check_preparation(config, request, preparation)
        settings = self.prepared(self.settings(config, request), preparation)
        for name in sorted(preparation.before_images) if settings.full_document == "lookup" else ():
            log.warning("event=old_documents_missing collection=%s.%s note=%s", *name, _OLD_DOCUMENTS)
        return MongoSource(settings)

    def has_old_rows(self, config: MongoConfig) -> bool:
        """Return whether the server is asked for the documents before and after each change."""
        return config.full_document == "required"

    def key_only_deletes(
        self, config: MongoConfig, request: SourceRequest, names: Collection[TableName]
    ) -> Mapping[TableName, str]:
        fix = (
            "set  full-document: required  (--mongodb-conf scan.full-changelog=true), and keep the old documents there"
        )
        return {} if self.has_old_rows(config) else dict.fromkeys(names, fix)

    def estimates(self, config: MongoConfig, request: SourceRequest) -> Mapping[TableName, int]:
        """Return the server's counts."""
        from penstock.ingest.mongodb.server.collections import row_count
        from penstock.ingest.mongodb.server.connection import connected

        source = self.open(config, request)
        with connected(replace(source.settings.server, patience=0.0)) as connection:
            return {
                collection.table: row_count(connection, collection.table)
                for collection in source.planner.captured(connection)
            }

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

    def draft(self, place: str, options: DraftOptions) -> SourceDraft:
        """Return a section for a connection string. The login is checked in `admin`, unless authSource says another."""
        from penstock.ingest.mongodb.server.address import MongoAddress
        from penstock.ingest.source_draft import SourceDraft

        url = urlsplit(place)
        # Not url.hostname, which knows of one host only.
        login, _, hosts = url.netloc.rpartition("@")
        database = unquote(url.path.strip("/"))
        if not hosts or not database:
            raise ConfigError("the URL contains no database", hint=self.url_form)
        # Some are options, others are parts of authMechanismProperties.
        secret = re.search(r"\w*(?:password|token)(?==|:|%3A)", url.query, re.IGNORECASE)
        if secret is not None:
            raise ConfigError(
                f"the option {secret[0]} of the URL contains a secret, which would be written to the file",
                hint="leave it out, and add it as a reference to a variable: connection.options: ...&KEY=${VARIABLE}",
            )
        user, _, password = (unquote(part) for part in login.partition(":"))
        reference = "${MONGODB_PASSWORD}" if user else ""
        address = MongoAddress(hosts, user, password or reference, url.scheme, url.query)
        found = "The server was not examined." if options.offline else _collections_found(address, database)
        section = _DRAFT.format(
            scheme=url.scheme,
            hosts=hosts,
            login=_LOGIN.format(user=user) if user else "",
            options=url.query,
            pattern=f"{database}.*",
        )
        return SourceDraft(section, found, database, ("MONGODB_PASSWORD",) if user else ())


def _described(
    connection: MongoConnection, settings: MongoSettings, names: list[TableName], samples: int, *, needs_one: bool
) -> list[SourceSchema]:
    from penstock.ingest.mongodb.errors import EmptyCollection
    from penstock.ingest.mongodb.rows import DocumentRows
    from penstock.ingest.mongodb.source import described

    documents = DocumentRows(settings.choice, Counter())
    found = [described(connection, name, documents, samples) for name in names]
    tables = [collection for collection in found if collection is not None]
    if names and not tables and needs_one:
        raise EmptyCollection(
            "No documents in collection to infer schema",
            collections=", ".join(map(".".join, names)),
            hint="insert a document first, or name the columns: schema.start.mode=specified with field.name",
        )
    return tables


def _collections_found(address: MongoAddress, database: str) -> str:
    """Return a sentence about the database's collections."""
    from penstock.ingest.database.settings import CapturedTables
    from penstock.ingest.mongodb.server.collections import row_count, selected_collections
    from penstock.ingest.mongodb.server.connection import connected

    with connected(address) as connection:
        listed = selected_collections(connection, CapturedTables(), database)
        tables = [collection.table for collection in listed if collection.has_stream]
        count = sum(row_count(connection, table) for table in tables)
    if not tables:
        raise ConfigError(
            f"the server lists no collections in database {database}",
            hint="check the name, and that the user has the role read",
        )
    return f"The server has {counted(len(tables), 'collection')} in {database}, about {count:,} documents."


CONNECTOR = MongoConnector()
