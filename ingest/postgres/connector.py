"""The connector of PostgreSQL servers."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.errors import ConfigError, SourceError
from penstock.ingest.connector import (
    WAL_BYTES,
    Capabilities,
    Connector,
    Keyless,
    Preparation,
    SourceCheck,
    SourceFinding,
    SourceRequest,
    StartPlace,
    TableCapture,
    TableName,
)
from penstock.ingest.postgres.config import PostgresConfig, PostgresStartup
from penstock.ingest.source import Offsets

if TYPE_CHECKING:
    from penstock.formats.change import SourceSchema
    from penstock.ingest.postgres.server.checks import PgFinding
    from penstock.ingest.postgres.source import PgSource

log = logging.getLogger(__name__)

_PROTECTION = {
    "disable": "nothing is encrypted",
    "allow": "encrypted only if the server insists; the server's identity is not verified (use verify-full)",
    "prefer": "encrypted if the server offers it; the server's identity is not verified (use verify-full)",
    "require": "encrypted; the server's identity is not verified (use verify-full)",
    "verify-ca": "encrypted; the server's certificate is verified, its host name is not",
    "verify-full": "encrypted; the server's certificate and host name are verified",
}


class PostgresConnector(Connector[PostgresConfig]):
    """Databases whose tables are copied, and whose replication slot is read from there on.

    The modules that connect are imported where they are used: reading a pipeline file needs none of them.
    """

    name = "postgres"
    config = PostgresConfig
    capabilities = Capabilities(describes_tables=True, rereads_tables=True, names_rows=True, lag_unit=WAL_BYTES)
    references = frozenset({"password"})

    def open(self, config: PostgresConfig, request: SourceRequest) -> PgSource:
        from penstock.ingest.postgres.settings import pg_settings
        from penstock.ingest.postgres.source import PgSource

        return PgSource(pg_settings(config, request))

    def check(self, config: PostgresConfig, request: SourceRequest, *, must: bool = True) -> SourceCheck:
        from penstock.ingest.postgres.planner import PgPlanner, captured_tables
        from penstock.ingest.postgres.server.catalog import relations
        from penstock.ingest.postgres.server.checks import check_server
        from penstock.ingest.postgres.server.connection import connected
        from penstock.ingest.postgres.settings import pg_settings

        settings = pg_settings(config, request)
        protection = SourceFinding("ok", f"ssl mode {config.ssl.mode}: {_PROTECTION[config.ssl.mode]}")
        with connected(replace(settings.server, patience=0.0)) as connection:
            tables = captured_tables(PgPlanner(settings), connection, must=must)
            found = check_server(connection, settings.slot, settings.publication, tables)
            described = relations(connection, [one.oid for one in tables])
        schemas = [described[one.oid].source_schema for one in tables if one.oid in described]
        return SourceCheck(settings.server.where, [protection, *map(_finding, found)], schemas)

    def tables(self, config: PostgresConfig, request: SourceRequest, *, must: bool = True) -> list[SourceSchema]:
        from penstock.ingest.postgres.planner import PgPlanner, captured_tables
        from penstock.ingest.postgres.server.catalog import relations
        from penstock.ingest.postgres.server.checks import check_server, require_ready
        from penstock.ingest.postgres.server.connection import connected
        from penstock.ingest.postgres.settings import pg_settings

        settings = pg_settings(config, request)
        with connected(replace(settings.server, patience=0.0)) as connection:
            tables = captured_tables(PgPlanner(settings), connection, must=must)
            findings = check_server(connection, settings.slot, settings.publication, tables)
            for one in findings:
                if one.level == "warning":
                    log.warning("event=check %s: %s, wanted %s. %s", one.message, one.seen, one.wanted, one.fix)
            require_ready(findings)
            described = relations(connection, [one.oid for one in tables])
        return [described[one.oid].source_schema for one in tables if one.oid in described]

    def capture(self, config: PostgresConfig, request: SourceRequest) -> TableCapture:
        from penstock.ingest.postgres.settings import pg_settings

        settings = pg_settings(config, request)

        def takes(name: TableName, left_out: frozenset[TableName]) -> bool:
            return replace(settings.tables, left_out=left_out).takes(*name)

        def captured_before() -> Collection[TableName]:
            return ()  # the offsets name the tables that are known

        return TableCapture(
            settings.reads_tables,
            settings.new_tables,
            renames_columns=False,
            takes=takes,
            captured_before=captured_before,
        )

    def prepare(self, config: PostgresConfig, request: SourceRequest, preparation: Preparation) -> PgSource:
        """Return the source with its publication and its slot created, if the pipeline is new."""
        from penstock.ingest.postgres.server.connection import connected
        from penstock.ingest.postgres.server.slot import create_slot, slot_facts
        from penstock.ingest.postgres.source import PgSource

        source = self.open(config, request)
        if preparation.exact and source.settings.reads_tables:
            raise SourceError(
                "a target table would show changes that are applied twice, as after reading the rows of a table",
                hint="use the merge engine deduplicate, changelog-producer: none, or  startup: {mode: latest-offset}",
            )
        settings = source.settings
        reread = settings.rereads or (secrets.token_hex(4) if preparation.reread else "")
        tables = replace(settings.tables, left_out=preparation.left_out)
        settings = replace(settings, tables=tables, reset=preparation.reread, rereads=reread)
        source = PgSource(settings)
        if preparation.is_new or request.rereads:
            with connected(settings.server) as connection:
                source.planner.publish(connection, [one.name for one in source.planner.captured(connection)])
                if slot_facts(connection, settings.slot) is None:
                    create_slot(connection, settings.slot, failover=settings.failover)
        return source

    def estimates(self, config: PostgresConfig, request: SourceRequest) -> Mapping[TableName, int]:
        """Return the server's estimates, which are as old as the last ANALYZE."""
        from penstock.ingest.postgres.server.connection import connected

        source = self.open(config, request)
        with connected(replace(source.settings.server, patience=0.0)) as connection:
            return {one.name: one.rows for one in source.planner.captured(connection)}

    def resume_point(self, config: PostgresConfig, request: SourceRequest, reached: Offsets) -> str | None:
        from penstock.ingest.postgres.lsn import lsn_text
        from penstock.ingest.postgres.offsets import PgProgress
        from penstock.ingest.postgres.server.connection import connected
        from penstock.ingest.postgres.server.slot import require_slot
        from penstock.ingest.postgres.settings import server_address

        if "server" not in reached:
            return None
        progress = PgProgress.from_json(reached)
        with connected(replace(server_address(config), patience=0.0)) as connection:
            require_slot(connection, progress.slot, progress.log)
        return lsn_text(progress.log)

    def readers(self, config: PostgresConfig) -> int | None:
        return config.snapshot.parallel

    def look_seconds(self, config: PostgresConfig) -> float:
        return config.heartbeat

    def keyless(self, config: PostgresConfig) -> Keyless:
        return config.keyless

    def starting_at(self, config: PostgresConfig, place: StartPlace) -> PostgresConfig:
        if place != "latest":
            raise ConfigError("a replication slot has no past before it was created", hint="--from latest")
        startup = PostgresStartup(mode="latest-offset")
        return config.model_copy(update={"startup": startup})


def _finding(found: PgFinding) -> SourceFinding:
    code = found.error.exit_code if found.level == "error" else 0
    return SourceFinding(found.level, f"{found.message}: {found.seen}, wanted {found.wanted}", found.fix, code)


CONNECTOR = PostgresConnector()
