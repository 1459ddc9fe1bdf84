"""The connector of PostgreSQL servers."""

from __future__ import annotations

import getpass
import logging
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from penstock.errors import ConfigError, counted
from penstock.ingest.connector import WAL_BYTES, Capabilities, StartPlace
from penstock.ingest.connector_answers import SourceCheck, SourceFinding, unverified
from penstock.ingest.connector_requests import Keyless, Preparation, SourceRequest, TableName
from penstock.ingest.database.connector import DatabaseConnector
from penstock.ingest.postgres.config import PostgresConfig, PostgresStartup
from penstock.ingest.source import Offsets

if TYPE_CHECKING:
    from penstock.formats.change import SourceSchema
    from penstock.ingest.database.findings import ServerFinding
    from penstock.ingest.postgres.relation import Relation
    from penstock.ingest.postgres.server.catalog import PgTableFacts
    from penstock.ingest.postgres.settings import PgSettings
    from penstock.ingest.postgres.source import PgComparison, PgSource
    from penstock.ingest.source_draft import DraftOptions, SourceDraft

_DRAFT = """
source:
  type: postgres
  hostname: {host}
  port: {port}
  username: "{user}"
  password: "${{POSTGRES_PASSWORD}}" # resolved where it is used, never stored
  database-name: "{database}"
  tables: ["public.*"]              # both parts may be regular expressions; tables.exclude excludes tables
  slot.name: {slot}                 # replication slot of this pipeline alone; created if missing
"""

log = logging.getLogger(__name__)
_PROTECTION = {
    "disable": "nothing is encrypted",
    "allow": "encrypted only if the server insists; the server's identity is not verified",
    "prefer": "encrypted if the server offers it; the server's identity is not verified",
    "require": "encrypted; the server's identity is not verified",
    "verify-ca": "encrypted; the server's certificate is verified, its host name is not",
    "verify-full": "encrypted; the server's certificate and host name are verified",
}

_WHOLE_DELETES = "ALTER TABLE ... REPLICA IDENTITY FULL, of partitions too: deletes from then on have all values"


class PostgresConnector(DatabaseConnector["PostgresConfig", "PgSettings"]):
    """Databases whose tables are copied, and whose replication slot is read from there on."""

    name = "postgres"
    config = PostgresConfig
    # Not `reads_exactly`: that takes REPLICA IDENTITY FULL, which few tables have.
    capabilities = Capabilities(
        describes_tables=True,
        rereads_tables=True,
        rereads_parts=True,
        names_rows=True,
        passes_places=True,
        lag_unit=WAL_BYTES,
    )
    url_schemes = frozenset({"postgres", "postgresql"})
    url_form = "postgres://user@host:5432/database"

    def database_of_schemas(self, config: PostgresConfig) -> str | None:
        return config.database_name

    def follows_drop(self, config: PostgresConfig) -> bool:
        return config.ddl.drop != "ignore"

    def settings(self, config: PostgresConfig, request: SourceRequest) -> PgSettings:
        from penstock.ingest.postgres.settings import pg_settings

        return pg_settings(config, request)

    def open(self, config: PostgresConfig, request: SourceRequest) -> PgSource:
        from penstock.ingest.postgres.source import PgSource

        return PgSource(self.settings(config, request))

    def check(self, config: PostgresConfig, request: SourceRequest, *, must: bool = True) -> SourceCheck:
        from penstock.ingest.postgres.snapshot.chunks import selections

        settings = self.settings(config, request)
        protection = _protection(config)
        tables, found = self._examined(settings, must=must)
        findings = [*protection, *(finding.for_source() for finding in found), *_others_slot(settings, is_new=must)]
        schemas = [table.source_schema for table in tables]
        return SourceCheck(settings.server.where, findings, schemas, selections(tables, settings.demand))

    def tables(self, config: PostgresConfig, request: SourceRequest, *, must: bool = True) -> list[SourceSchema]:
        from penstock.ingest.database.findings import log_warnings, require_ready

        tables, findings = self._examined(self.settings(config, request), must=must)
        log_warnings(findings)
        require_ready(findings)
        return [table.source_schema for table in tables]

    def _examined(self, settings: PgSettings, *, must: bool) -> tuple[list[Relation], list[ServerFinding]]:
        """Return the captured tables, and what prevents or endangers reading them."""
        from penstock.ingest.postgres.captured_tables import tables_to_capture
        from penstock.ingest.postgres.server.catalog import relations
        from penstock.ingest.postgres.server.checks import check_server
        from penstock.ingest.postgres.server.connection import connected
        from penstock.ingest.postgres.snapshot.chunks import columns_selected

        with connected(replace(settings.server, patience=0.0)) as connection:
            tables = tables_to_capture(connection, settings, must=must)
            described = relations(connection, [table.oid for table in tables])
            findings = check_server(
                connection, settings.slot, settings.publication, tables, columns_selected(described, settings.demand)
            )
        return [described[table.oid] for table in tables if table.oid in described], findings

    def prepare(self, config: PostgresConfig, request: SourceRequest, preparation: Preparation) -> PgSource:
        """Return the source with its publication and its slot created, if the pipeline is new."""
        from penstock.ingest.postgres.captured_tables import captured, publish
        from penstock.ingest.postgres.server.connection import connected
        from penstock.ingest.postgres.server.slot import slot_to_read, warn_of_existing
        from penstock.ingest.postgres.source import PgSource

        mode = config.snapshot.mode
        if mode == "auto":
            mode = "exact" if preparation.exact else "watermark"
            if preparation.exact:
                log.info(
                    "event=snapshot_mode mode=exact reason=a change that is applied twice would be visible in a table"
                )
        source = PgSource(replace(self.prepared(self.settings(config, request), preparation), snapshot=mode))
        settings = source.settings
        if preparation.is_new or request.rereads:
            # The publication before the slot: a change is decoded with the catalog as of its place in the log.
            with connected(settings.server) as connection:
                tables = captured(connection, settings)
                publish(connection, settings, [table.name for table in tables])
                if settings.reads_exactly:
                    _warn_of_identities(tables)
                if not request.rereads:
                    warn_of_existing(connection, settings.slot)
                slot_to_read(
                    connection,
                    settings.slot,
                    failover=settings.failover,
                    replaces_lost=request.rereads and not preparation.reread,
                )
        return source

    def key_only_deletes(
        self, config: PostgresConfig, request: SourceRequest, names: Collection[TableName]
    ) -> Mapping[TableName, str]:
        from penstock.ingest.postgres.server.connection import connected
        from penstock.ingest.postgres.server.table_checks import without_old_rows

        # A start asks too, and waits for a server that is not there for a moment.
        with connected(self.settings(config, request).server) as connection:
            return dict.fromkeys(without_old_rows(connection, names), _WHOLE_DELETES)

    def left_out(self, config: PostgresConfig, request: SourceRequest) -> Mapping[TableName, str]:
        from penstock.ingest.postgres.captured_tables import left_out
        from penstock.ingest.postgres.server.connection import connected

        # A start asks too, and waits for a server that is not there for a moment.
        settings = self.settings(config, request)
        with connected(settings.server) as connection:
            return left_out(connection, settings)

    def estimates(self, config: PostgresConfig, request: SourceRequest) -> Mapping[TableName, int]:
        """Return the server's estimates, which are as old as the last ANALYZE."""
        from penstock.ingest.postgres.captured_tables import captured
        from penstock.ingest.postgres.server.connection import connected

        settings = self.settings(config, request)
        with connected(replace(settings.server, patience=0.0)) as connection:
            return {table.name: table.rows for table in captured(connection, settings)}

    def resume_point(self, config: PostgresConfig, request: SourceRequest, reached: Offsets) -> str | None:
        from penstock.ingest.postgres.offsets import PgProgress
        from penstock.ingest.postgres.server.connection import connected
        from penstock.ingest.postgres.server.lsn import lsn_text
        from penstock.ingest.postgres.server.slot import require_slot
        from penstock.ingest.postgres.settings import server_address

        if "server" not in reached:
            return None
        progress = PgProgress.from_json(reached)
        with connected(replace(server_address(config), patience=0.0)) as connection:
            require_slot(connection, progress.slot, progress.log)
        return lsn_text(progress.log)

    def comparable(self, config: PostgresConfig, request: SourceRequest) -> PgComparison:
        from penstock.ingest.postgres.source import PgComparison

        return PgComparison(self.open(config, request))

    def keyless(self, config: PostgresConfig) -> Keyless:
        return config.keyless

    def starting_at(self, config: PostgresConfig, place: StartPlace) -> PostgresConfig:
        if place != "latest":
            raise ConfigError("a replication slot has no past before it was created", hint="--from latest")
        startup = PostgresStartup(mode="latest-offset")
        return config.model_copy(update={"startup": startup})

    def draft(self, place: str, options: DraftOptions) -> SourceDraft:
        from penstock.ingest.source_draft import SourceDraft

        url = urlsplit(place)
        database = unquote(url.path.strip("/"))
        if not url.hostname or not database:
            raise ConfigError("the URL contains no database", hint=self.url_form)
        user, port = unquote(url.username or getpass.getuser()), url.port or 5432
        found = "The server was not examined." if options.offline else _tables_found(url, user, port, database)
        slot = re.sub(r"[^a-z0-9_]", "_", f"penstock_{database}".lower())[:63]
        section = _DRAFT.format(host=url.hostname, port=port, user=user, database=database, slot=slot)
        return SourceDraft(section, found, database, ("POSTGRES_PASSWORD",))


def _others_slot(settings: PgSettings, *, is_new: bool) -> list[SourceFinding]:
    """Return a warning if a new pipeline will read a slot that it has not created."""
    from penstock.ingest.postgres.server.connection import connected
    from penstock.ingest.postgres.server.slot import OTHERS_SLOT, existing_position

    if not is_new:
        return []
    with connected(replace(settings.server, patience=0.0)) as connection:
        position = existing_position(connection, settings.slot)
    message = f"the slot {settings.slot} exists, at {position}"
    return [] if position is None else [SourceFinding("warning", message, OTHERS_SLOT)]


def _tables_found(url: SplitResult, user: str, port: int, database: str) -> str:
    """Return a sentence about the tables of the schema `public`, or of other schemas if it has no tables."""
    from penstock.ingest.postgres.server.address import PgAddress
    from penstock.ingest.postgres.server.catalog import list_tables
    from penstock.ingest.postgres.server.connection import connected

    password = unquote(url.password) if url.password else "${POSTGRES_PASSWORD}"
    with connected(PgAddress(url.hostname or "", port, user, password, database)) as connection:
        tables = [table for table in list_tables(connection) if table.is_logged]
    public = [table for table in tables if table.schema == "public"]
    if not public:
        raise ConfigError(
            f"database {database} has no tables in the schema public",
            schemas=", ".join(sorted({table.schema for table in tables})) or "none",
            hint="write the file with --offline, and set  tables  to those of another schema",
        )
    without = sum(not table.has_key for table in public)
    keys = f", {without} of them without a primary key" if without else ""
    rows = sum(table.rows for table in public)
    return (
        f"The server has {counted(len(public), 'table')} in the schema public of {database}, about {rows:,} rows{keys}."
    )


def _protection(config: PostgresConfig) -> list[SourceFinding]:
    """Return how the connection is protected, as a warning if nothing verifies the server."""
    if os.environ.get("PGGSSENCMODE") == "require":  # libpq reads it, and uses no TLS then
        return [SourceFinding("ok", "Kerberos (PGGSSENCMODE): encrypted; the server's identity is verified")]
    mode = config.ssl.mode
    protection = [SourceFinding("ok", f"ssl mode {mode}: {_PROTECTION[mode]}")]
    if mode in {"verify-ca", "verify-full"}:
        return protection
    return unverified([config.hostname], protection[0].message, "ssl: {mode: verify-full, ca: FILE}") or protection


def _warn_of_identities(tables: Sequence[PgTableFacts]) -> None:
    """Log which tables must not be updated while they are read as of one position."""
    weak = ",".join(table.qualified for table in tables if table.identity != "f")
    if weak:
        log.warning(
            "event=snapshot_needs_old_rows tables=%s note=updates and deletes during the snapshot stop it "
            "fix=ALTER TABLE ... REPLICA IDENTITY FULL",
            weak,
        )


CONNECTOR = PostgresConnector()
