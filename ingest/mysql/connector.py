"""The connector of MySQL and MariaDB servers."""

from __future__ import annotations

import getpass
import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

from penstock.errors import ConfigError, SourceError, counted
from penstock.ingest.connector import LOG_BYTES, Capabilities, StartPlace
from penstock.ingest.connector_answers import SourceCheck, SourceFinding, unverified
from penstock.ingest.connector_requests import Keyless, Preparation, SourceRequest, TableName
from penstock.ingest.database.connector import DatabaseConnector
from penstock.ingest.mysql.config import MySqlConfig, MySqlStartup
from penstock.ingest.source import Offsets

if TYPE_CHECKING:
    from penstock.formats.change import SourceSchema
    from penstock.ingest.mysql.settings import FollowSettings
    from penstock.ingest.mysql.source import MySqlComparison, MySqlSource
    from penstock.ingest.source_draft import DraftOptions, SourceDraft
    from penstock.ingest.sync_actions import TranslatedSource

log = logging.getLogger(__name__)

_DRAFT = """
source:
  type: mysql
  hostname: {host}
  port: {port}
  username: {user}
  password: "${{MYSQL_PASSWORD}}"   # resolved where it is used, never stored
  tables: [{tables}]                # both parts may be regular expressions; tables.exclude excludes tables
"""

_PROTECTION = {
    "disabled": "nothing is encrypted; only a hash of the password is sent",
    "preferred": "encrypted if the server offers it; the server's identity is not verified",
    "required": "encrypted; the server's identity is not verified",
    "verify-ca": "encrypted; the server's certificate is verified, its host name is not",
    "verify-identity": "encrypted; the server's certificate and host name are verified",
}


class MySqlConnector(DatabaseConnector["MySqlConfig", "FollowSettings"]):
    """MySQL and MariaDB servers: their tables are copied, then their binlog is read from there on."""

    name = "mysql"
    config = MySqlConfig
    capabilities = Capabilities(
        describes_tables=True,
        rereads_tables=True,
        rereads_parts=True,
        names_rows=True,
        reads_flink_cdc=True,
        resumes_from_tables=False,  # the definitions that the log lacks are in the checkpoint
        keeps_state=True,
        reads_exactly=True,
        passes_places=True,
        lag_unit=LOG_BYTES,
    )
    url_schemes = frozenset({"mysql", "mariadb"})
    url_form = "mysql://user@host:3306/database"

    def settings(self, config: MySqlConfig, request: SourceRequest) -> FollowSettings:
        from penstock.ingest.mysql.settings import follow_settings

        return follow_settings(config, request)

    def open(self, config: MySqlConfig, request: SourceRequest) -> MySqlSource:
        from penstock.ingest.mysql.source import MySqlSource

        return MySqlSource(self.settings(config, request))

    def check(self, config: MySqlConfig, request: SourceRequest, *, must: bool = True) -> SourceCheck:
        from penstock.ingest.database.findings import MissingGrant
        from penstock.ingest.mysql.captured_tables import captured, findings
        from penstock.ingest.mysql.definition import schema_of
        from penstock.ingest.mysql.server.connection import connected
        from penstock.ingest.mysql.snapshot.read import selections

        settings = self.settings(config, request)
        place = f"{config.hostname}:{config.port}"
        mode = config.ssl.mode
        protection = [SourceFinding("ok", f"ssl mode {mode}: {_PROTECTION[mode]}")]
        if mode not in {"verify-ca", "verify-identity"}:
            fix = "ssl: {mode: verify-identity, ca: FILE}"
            protection = unverified([config.hostname], protection[0].message, fix) or protection
        with connected(replace(settings.server, patience=0.0)) as connection:
            problems = findings(connection, settings)
            problem_findings = [problem.for_source() for problem in problems]
            try:
                definitions = captured(connection, settings, must=must)
            except ConfigError as error:
                # Tables that the user may not read are invisible. If grants are missing, their findings explain why
                # no table was found.
                if not any(problem.error is MissingGrant for problem in problems):
                    raise
                message, fix = f"{error.message}: none, wanted one at least", error.hint or ""
                lacking = SourceFinding("error", message, fix, SourceError.exit_code)
                return SourceCheck(place, [*protection, *problem_findings, lacking])
        tables = [schema_of(definition) for definition in definitions]
        hiding = frozenset(problem.hiding for problem in problems if problem.hiding is not None)
        selected = selections(definitions, settings.demand, settings.zone)
        return SourceCheck(place, [*protection, *problem_findings], tables, selected, hiding)

    def tables(self, config: MySqlConfig, request: SourceRequest, *, must: bool = True) -> list[SourceSchema]:
        from penstock.ingest.database.findings import log_warnings, require_ready
        from penstock.ingest.mysql.captured_tables import captured, findings
        from penstock.ingest.mysql.definition import schema_of
        from penstock.ingest.mysql.server.connection import connected

        settings = self.settings(config, request)
        with connected(replace(settings.server, patience=0.0)) as connection:
            found = findings(connection, settings)
            log_warnings(found)
            require_ready(found)
            return [schema_of(table) for table in captured(connection, settings, must=must)]

    def left_out(self, config: MySqlConfig, request: SourceRequest) -> Mapping[TableName, str]:
        from penstock.ingest.mysql.captured_tables import keyless_tables
        from penstock.ingest.mysql.server.connection import connected

        settings = self.settings(config, request)
        with connected(replace(settings.server, patience=0.0)) as connection:
            return dict.fromkeys(keyless_tables(connection, settings), "the source table has no primary key")

    def renames_columns(self, config: MySqlConfig) -> bool:
        return config.ddl.rename_column == "rename"

    def follows_drop(self, config: MySqlConfig) -> bool:
        return config.ddl.drop != "ignore"

    def captured_before(self, settings: FollowSettings, reached: Offsets) -> Collection[TableName]:
        from penstock.ingest.mysql.offsets import Progress
        from penstock.ingest.mysql.recorded_history import DefinitionStore

        # The next batch may be planned already, but its rows do not count as captured.
        records = DefinitionStore(settings.state).records(Progress.from_json(reached).identity)
        versions = (record.version for record in records)
        return {version.name for version in versions if version.is_captured}

    def prepare(self, config: MySqlConfig, request: SourceRequest, preparation: Preparation) -> MySqlSource:
        from penstock.ingest.mysql.source import MySqlSource

        settings = self.settings(config, request)
        mode = config.snapshot.mode
        if mode == "auto":
            mode = "exact" if preparation.exact else "watermark"
            if preparation.exact:
                reason = "a change that is applied twice would be visible in a table"
                log.info("event=snapshot_mode mode=exact reason=%s", reason)
        return MySqlSource(replace(self.prepared(settings, preparation), snapshot=mode))

    def estimates(self, config: MySqlConfig, request: SourceRequest) -> Mapping[TableName, int]:
        """Return the server's estimates, which are easily off by a tenth."""
        from penstock.ingest.mysql.captured_tables import captured_facts
        from penstock.ingest.mysql.server.connection import connected

        settings = self.settings(config, request)
        with connected(replace(settings.server, patience=0.0)) as connection:
            return {table.name: table.rows for table in captured_facts(connection, settings)}

    def resume_point(self, config: MySqlConfig, request: SourceRequest, reached: Offsets) -> str | None:
        from penstock.ingest.mysql.binlog.resume import resume
        from penstock.ingest.mysql.offsets import Progress
        from penstock.ingest.mysql.server.connection import connected, server_facts
        from penstock.ingest.mysql.settings import server_address

        if "server" not in reached:
            return None
        progress = Progress.from_json(reached)
        with connected(replace(server_address(config), patience=0.0)) as connection:
            return str(resume(connection, server_facts(connection), progress.log, progress.server).start)

    def comparable(self, config: MySqlConfig, request: SourceRequest) -> MySqlComparison:
        from penstock.ingest.mysql.source import MySqlComparison

        return MySqlComparison(self.open(config, request))

    def keyless(self, config: MySqlConfig) -> Keyless:
        return config.keyless

    def warnings(self, config: MySqlConfig) -> list[str]:
        from penstock.ingest.mysql.server.checks import check_retention
        from penstock.ingest.mysql.server.connection import connected
        from penstock.ingest.mysql.settings import server_address

        with connected(replace(server_address(config), patience=0.0)) as connection:
            return [finding.problem for finding in check_retention(connection)]

    def starting_at(self, config: MySqlConfig, place: StartPlace) -> MySqlConfig:
        changes: dict[str, object] = (
            {"mode": "timestamp", "timestamp_millis": place} if isinstance(place, int) else {"mode": place}
        )
        startup = MySqlStartup.model_validate({**config.startup.model_dump(), **changes})
        return config.model_copy(update={"startup": startup})

    def draft(self, place: str, options: DraftOptions) -> SourceDraft:
        from penstock.ingest.source_draft import SourceDraft

        url = urlsplit(place)
        database = url.path.strip("/")
        if not url.hostname or not database:
            raise ConfigError("the URL contains no database", hint=self.url_form)
        user, port = unquote(url.username or getpass.getuser()), url.port or 3306
        found = "The server was not examined." if options.offline else _tables_found(url, user, port, database)
        section = _DRAFT.format(host=url.hostname, port=port, user=user, tables=f'"{database}.*"')
        return SourceDraft(section, found, database, ("MYSQL_PASSWORD",))

    def from_flink_cdc(self, section: Mapping[str, Any]) -> TranslatedSource:
        from penstock.ingest.mysql.actions import flink_cdc_source

        return flink_cdc_source(section)


def _tables_found(url: SplitResult, user: str, port: int, database: str) -> str:
    """Return a sentence about the database's tables."""
    from penstock.ingest.mysql.server.address import Secret, ServerAddress
    from penstock.ingest.mysql.server.catalog import list_tables
    from penstock.ingest.mysql.server.connection import connected

    password = Secret(unquote(url.password)) if url.password else Secret("MYSQL_PASSWORD", "env")
    with connected(ServerAddress(url.hostname or "", port, user, password)) as connection:
        tables = [table for table in list_tables(connection) if table.database == database]
    if not tables:
        raise ConfigError(
            f"the server lists no tables in database {database}",
            hint="check the name, and that the user has privileges on the tables",
        )
    without = sum(not table.has_primary_key for table in tables)
    keys = f", {without} of them without a primary key" if without else ""
    rows = sum(table.rows for table in tables)
    return f"The server has {counted(len(tables), 'table')} in {database}, about {rows:,} rows{keys}."


CONNECTOR = MySqlConnector()
