"""The connector of MySQL and MariaDB servers."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.errors import ConfigError, SourceError
from penstock.ingest.connector import (
    LOG_BYTES,
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
from penstock.ingest.mysql.config import MySqlConfig, MySqlStartup
from penstock.ingest.source import Offsets

if TYPE_CHECKING:
    from penstock.formats.change import SourceSchema
    from penstock.ingest.mysql.comparison import MySqlComparison
    from penstock.ingest.mysql.server.findings import Finding
    from penstock.ingest.mysql.source import MySqlSource

log = logging.getLogger(__name__)

_PROTECTION = {
    "disabled": "nothing is encrypted; only a hash of the password is sent",
    "preferred": "encrypted if the server offers it; the server's identity is not verified (use verify-identity)",
    "required": "encrypted; the server's identity is not verified (use verify-identity)",
    "verify-ca": "encrypted; the server's certificate is verified, its host name is not",
    "verify-identity": "encrypted; the server's certificate and host name are verified",
}


class MySqlConnector(Connector[MySqlConfig]):
    """Servers whose tables are copied, and whose binlog is read from there on.

    The modules that connect are imported where they are used: reading a pipeline file needs none of them.
    """

    name = "mysql"
    config = MySqlConfig
    capabilities = Capabilities(describes_tables=True, rereads_tables=True, names_rows=True, lag_unit=LOG_BYTES)
    references = frozenset({"password"})

    def open(self, config: MySqlConfig, request: SourceRequest) -> MySqlSource:
        from penstock.ingest.mysql.follow_settings import follow_settings
        from penstock.ingest.mysql.source import MySqlSource

        return MySqlSource(follow_settings(config, request))

    def check(self, config: MySqlConfig, request: SourceRequest, *, must: bool = True) -> SourceCheck:
        from penstock.ingest.mysql.captured_tables import captured, findings
        from penstock.ingest.mysql.definition import schema_of
        from penstock.ingest.mysql.errors import MissingGrant
        from penstock.ingest.mysql.follow_settings import follow_settings
        from penstock.ingest.mysql.server.connection import connected

        settings = follow_settings(config, request)
        place = f"{config.hostname}:{config.port}"
        protection = SourceFinding("ok", f"ssl mode {config.ssl.mode}: {_PROTECTION[config.ssl.mode]}")
        with connected(replace(settings.server, patience=0.0)) as connection:
            problems = findings(connection, settings)
            found = [_finding(problem) for problem in problems]
            try:
                tables = [schema_of(one) for one in captured(connection, settings, must=must)]
            except ConfigError as error:
                # Tables that the user may not read are invisible. If grants are missing, their findings explain why
                # no table was found.
                if not any(problem.error is MissingGrant for problem in problems):
                    raise
                message, fix = f"{error.message}: none, wanted one at least", error.hint or ""
                lacking = SourceFinding("error", message, fix, SourceError.exit_code)
                return SourceCheck(place, [protection, *found, lacking])
        return SourceCheck(place, [protection, *found], tables)

    def tables(self, config: MySqlConfig, request: SourceRequest, *, must: bool = True) -> list[SourceSchema]:
        from penstock.ingest.mysql.captured_tables import captured, findings
        from penstock.ingest.mysql.definition import schema_of
        from penstock.ingest.mysql.follow_settings import follow_settings
        from penstock.ingest.mysql.server.connection import connected
        from penstock.ingest.mysql.server.findings import require_ready

        settings = follow_settings(config, request)
        with connected(replace(settings.server, patience=0.0)) as connection:
            require_ready(_logged(findings(connection, settings)))
            return [schema_of(one) for one in captured(connection, settings, must=must)]

    def capture(self, config: MySqlConfig, request: SourceRequest) -> TableCapture:
        from penstock.ingest.mysql.follow_settings import follow_settings

        settings = follow_settings(config, request)

        def takes(name: TableName, left_out: frozenset[TableName]) -> bool:
            return replace(settings.tables, left_out=left_out).takes(*name)

        def captured_before() -> Collection[TableName]:
            versions = (record.version for record in settings.state.records())
            return {version.name for version in versions if version.definition is not None and not version.left_out}

        renames = config.ddl.rename_column == "rename"
        return TableCapture(settings.startup.reads_tables, settings.new_tables, renames, takes, captured_before)

    def prepare(self, config: MySqlConfig, request: SourceRequest, preparation: Preparation) -> MySqlSource:
        from penstock.ingest.mysql.source import MySqlSource

        source = self.open(config, request)
        settings = source.settings
        mode = config.snapshot.mode
        if mode == "auto":
            mode = "exact" if preparation.exact else "watermark"
            if preparation.exact:
                reason = "a change that comes twice would show in a table"
                log.info("event=snapshot_mode mode=exact reason=%s", reason)
        settings = replace(
            settings,
            snapshot=mode,
            tables=replace(settings.tables, left_out=preparation.left_out),
            reset=preparation.reread,
            resnapshot=settings.resnapshot or (secrets.token_hex(4) if preparation.reread else ""),
        )
        return MySqlSource(settings)

    def estimates(self, config: MySqlConfig, request: SourceRequest) -> Mapping[TableName, int]:
        """Return the server's estimates, which are easily off by a tenth."""
        from penstock.ingest.mysql.captured_tables import captured_facts
        from penstock.ingest.mysql.follow_settings import follow_settings
        from penstock.ingest.mysql.server.connection import connected

        settings = follow_settings(config, request)
        with connected(replace(settings.server, patience=0.0)) as connection:
            return {table.name: table.rows for table in captured_facts(connection, settings)}

    def resume_point(self, config: MySqlConfig, request: SourceRequest, reached: Offsets) -> str | None:
        from penstock.ingest.mysql.binlog.resume import resume
        from penstock.ingest.mysql.follow_settings import server_address
        from penstock.ingest.mysql.offsets import Progress
        from penstock.ingest.mysql.server.connection import connected, server_facts

        if "server" not in reached:
            return None
        progress = Progress.from_json(reached)
        with connected(replace(server_address(config), patience=0.0)) as connection:
            return str(resume(connection, server_facts(connection), progress.log, progress.server).start)

    def comparable(self, config: MySqlConfig, request: SourceRequest) -> MySqlComparison:
        from penstock.ingest.mysql.comparison import MySqlComparison

        return MySqlComparison(self.open(config, request))

    def warnings(self, config: MySqlConfig) -> list[str]:
        from penstock.ingest.mysql.follow_settings import server_address
        from penstock.ingest.mysql.server.checks import check_retention
        from penstock.ingest.mysql.server.connection import connected

        with connected(replace(server_address(config), patience=0.0)) as connection:
            return [f"{one.message}: {one.seen}, wanted {one.wanted}" for one in check_retention(connection)]

    def readers(self, config: MySqlConfig) -> int | None:
        return config.snapshot.parallel

    def look_seconds(self, config: MySqlConfig) -> float:
        return config.heartbeat

    def keyless(self, config: MySqlConfig) -> Keyless:
        return config.keyless

    def starting_at(self, config: MySqlConfig, place: StartPlace) -> MySqlConfig:
        changes: dict[str, object] = (
            {"mode": "timestamp", "timestamp_millis": place} if isinstance(place, int) else {"mode": place}
        )
        startup = MySqlStartup.model_validate({**config.startup.model_dump(), **changes})
        return config.model_copy(update={"startup": startup})


def _finding(found: Finding) -> SourceFinding:
    code = found.error.exit_code if found.level == "error" else 0
    return SourceFinding(found.level, f"{found.message}: {found.seen}, wanted {found.wanted}", found.fix, code)


def _logged(found: Sequence[Finding]) -> Sequence[Finding]:
    for one in found:
        if one.level == "warning":
            log.warning("event=check %s", " ".join(str(one).split()))
    return found


CONNECTOR = MySqlConnector()
