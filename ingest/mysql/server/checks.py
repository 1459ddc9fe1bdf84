"""Checks whether a server can be captured: reports all problems at once, each with the statement that fixes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pymysql

from penstock.errors import SourceError
from penstock.ingest.database.findings import ServerFinding, error_finding, warning_finding
from penstock.ingest.mysql.errors import (
    BinlogDisabled,
    BinlogFormatError,
    PartialJsonError,
    RowImageError,
    ServerIdClash,
)
from penstock.ingest.mysql.server.connection import ask, ask_bytes, server_facts, variables
from penstock.ingest.mysql.server.kind_checks import SETTINGS as KIND_SETTINGS
from penstock.ingest.mysql.server.kind_checks import check_kind, logs_replicated
from penstock.ingest.mysql.server.table_checks import CheckedPlan, check_labels, check_tables, setting_statement
from penstock.ingest.mysql.server.table_rights import check_rights, missing_grant, tried

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from penstock.ingest.mysql.server.catalog import TableName
    from penstock.ingest.mysql.server.connection import Connection, ServerFacts

_DAY_S = 86_400
# The release series whose binlogs are tested: with a real server, or MySQL 8.0 and MariaDB 11.4 with recorded logs.
_TESTED = {"mysql": ((8, 0), (9, 7)), "mariadb": ((10, 11), (11, 4), (11, 8))}
_NAMES = {"mysql": "MySQL", "mariadb": "MariaDB"}
# A server allows only one step at a time.
_GTID_MODES = ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")
_SETTINGS = (
    "log_bin",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_value_options",
    "binlog_row_metadata",
    "binlog_storage_engine",
    "gtid_mode",
    "server_id",
    "binlog_expire_logs_seconds",
    "expire_logs_days",
    *KIND_SETTINGS,
)


def check_retention(connection: Connection) -> list[ServerFinding]:
    """Return findings on binlog retention: after some days of downtime the pipeline must still find its position."""
    return list(_retention(server_facts(connection), variables(connection, *_SETTINGS)))


def check_source(connection: Connection, wanted: CheckedPlan) -> list[ServerFinding]:
    """Return all findings, errors first. Reads only; keeps nothing open afterwards."""
    facts = server_facts(connection)
    settings = variables(connection, *_SETTINGS)
    findings = [
        *_version(facts),
        *check_kind(facts, settings),
        *_log_settings(facts, settings, wanted),
        *_retention(facts, settings),
        *_identity(connection, facts, settings, wanted),
        *_grants(connection, facts, settings, wanted),
        *_prepared(connection, wanted),
        *check_tables(connection, facts, wanted),
        *check_labels(connection, facts, settings, wanted),
    ]
    # By the names of the levels, errors are before warnings.
    return sorted(findings, key=lambda finding: finding.level)


def _version(facts: ServerFacts) -> Iterator[ServerFinding]:
    if facts.version[:2] not in _TESTED[facts.flavour]:
        seen = f"{_NAMES[facts.flavour]} {'.'.join(map(str, facts.version))}"
        tested = ", ".join(
            f"{_NAMES[flavour]} {major}.{minor}" for flavour, series in _TESTED.items() for major, minor in series
        )
        fix = "run  penstock verify  from time to time: it compares the tables with the server's rows"
        yield warning_finding(SourceError, "the binlog of this server version is not tested", seen, tested, fix)


def _log_settings(facts: ServerFacts, settings: dict[str, str], wanted: CheckedPlan) -> Iterator[ServerFinding]:
    if settings.get("log_bin") != "ON":
        fix = "start the server with log_bin=binlog in its configuration (needs a restart)"
        yield error_finding(BinlogDisabled, "binary logging is off", settings.get("log_bin"), "ON", fix)
        return
    format_, image = settings.get("binlog_format", "ROW"), settings.get("binlog_row_image", "FULL")
    # Open sessions keep the settings with which they connected, so their writers have to reconnect.
    if format_ != "ROW":
        fix = setting_statement(facts, "binlog_format", "ROW", "then reconnect all writers")
        yield error_finding(BinlogFormatError, "changes are not logged as rows", format_, "ROW", fix)
    if engine := settings.get("binlog_storage_engine"):
        fix = "start the server without binlog_storage_engine, so that the binlog is kept in files (needs a restart)"
        yield error_finding(
            BinlogFormatError, "the binlog is kept in tables of a storage engine", engine, "log files", fix
        )
    if image != "FULL" and not wanted.partial_images:
        fix = setting_statement(facts, "binlog_row_image", "FULL", "then reconnect all writers")
        yield error_finding(RowImageError, "rows are not logged with all columns", image, "FULL", fix)
    if options := settings.get("binlog_row_value_options"):
        fix = setting_statement(facts, "binlog_row_value_options", "''", "then reconnect all writers")
        yield error_finding(PartialJsonError, "JSON changes are logged as differences", options, "''", fix)
    if (metadata := settings.get("binlog_row_metadata", "MINIMAL")) != "FULL":
        fix = setting_statement(facts, "binlog_row_metadata", "FULL", "then the binlog contains the column names")
        yield warning_finding(SourceError, "the binlog contains no column names", metadata, "FULL", fix)
    if settings.get("gtid_mode", "ON") != "ON":
        steps = ["enforce_gtid_consistency = ON", *(f"gtid_mode = {mode}" for mode in _GTID_MODES)]
        fix = "; ".join(f"SET PERSIST {step}" for step in steps) + ";  -- needed to continue after a failover"
        yield warning_finding(SourceError, "transactions have no GTID", settings["gtid_mode"], "ON", fix)


def _retention(facts: ServerFacts, settings: dict[str, str]) -> Iterator[ServerFinding]:
    # 0 means that files are never purged by age.
    seconds = int(float(settings.get("binlog_expire_logs_seconds") or 0))
    seconds = seconds or int(float(settings.get("expire_logs_days") or 0) * _DAY_S)
    if 0 < seconds < 4 * _DAY_S:  # a long weekend
        fix = setting_statement(
            facts, "binlog_expire_logs_seconds", 7 * _DAY_S, "the pipeline can be stopped for this long at most"
        )
        yield warning_finding(
            SourceError, "binlogs are kept for a short time only", f"{seconds / 3600:.0f} h", "7 days", fix
        )


def _identity(
    connection: Connection, facts: ServerFacts, settings: dict[str, str], wanted: CheckedPlan
) -> Iterator[ServerFinding]:
    if (own := int(settings["server_id"])) in wanted.server_ids:
        fix = f"exclude {own} from the option server-id"
        yield error_finding(
            ServerIdClash,
            "the server's own id is in the pipeline's range",
            own,
            "an id outside of the pipeline's range",
            fix,
        )
    for reader in _readers(connection, facts):
        if reader in wanted.server_ids:
            fix = "set a separate range in the option server-id of every pipeline"
            yield warning_finding(
                ServerIdClash,
                "another binlog reader uses an id of the pipeline's range",
                reader,
                "a range that no other reader uses",
                fix,
            )
    logged = logs_replicated(settings)
    if logged != "ON" and _is_replica(connection, facts):
        fix = "start the replica with log_replica_updates=ON (MariaDB: log_slave_updates), or read from its source"
        yield error_finding(SourceError, "this replica does not log the changes that it replicates", logged, "ON", fix)


def _readers(connection: Connection, facts: ServerFacts) -> list[int]:
    # MySQL 8.4 removed the old statements; MariaDB and older servers have only these.
    statement = "SHOW REPLICAS" if not facts.is_mariadb and facts.version >= (8, 0, 22) else "SHOW SLAVE HOSTS"
    found = tried(connection, statement)
    # If the reason is a missing privilege, it is reported by the check of grants.
    return [] if isinstance(found, pymysql.MySQLError) else [int(row[0]) for row in found]


def _is_replica(connection: Connection, facts: ServerFacts) -> bool:
    statement = "SHOW REPLICA STATUS" if not facts.is_mariadb and facts.version >= (8, 0, 22) else "SHOW SLAVE STATUS"
    found = tried(connection, statement)
    return not isinstance(found, pymysql.MySQLError) and bool(found)


def _grants(
    connection: Connection, facts: ServerFacts, settings: Mapping[str, str], wanted: CheckedPlan
) -> Iterator[ServerFinding]:
    """Yield missing privileges.

    They are tested with harmless statements where possible: roles and wildcards make grants hard to parse.
    """
    user = str(ask(connection, "SELECT CURRENT_USER()")[0][0])
    # From the right, because a user's name may contain the sign.
    name = "@".join(f"'{part}'" for part in user.rsplit("@", 1))
    granted = {
        str(row[0]).upper() for row in ask(connection, "SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES")
    }
    status = tried(connection, facts.status_statement)
    if isinstance(status, pymysql.MySQLError):
        yield missing_grant("REPLICATION CLIENT", "*.*", name, status.args[-1])
    else:
        yield from _filters(status, wanted.tables)
    # USER_PRIVILEGES does not list privileges that a user has by a role.
    if "REPLICATION SLAVE" not in granted and not _has_role(connection, "REPLICATION SLAVE"):
        yield missing_grant("REPLICATION SLAVE", "*.*", name, "not granted")
    if wanted.locking_snapshot and not granted & {"RELOAD", "FLUSH_TABLES"}:
        yield missing_grant("RELOAD, LOCK TABLES", "*.*", name, "not granted")
    if wanted.snapshot:
        metadata = settings.get("binlog_row_metadata", "MINIMAL")
        yield from check_rights(connection, wanted.tables, wanted.demand, metadata, name)


def _prepared(connection: Connection, wanted: CheckedPlan) -> Iterator[ServerFinding]:
    """Yield a finding for XA transactions that are prepared: their rows are logged before the pipeline begins.

    A table that is read now lacks them, and the log has only COMMIT later. MySQL shows them with XA_RECOVER_ADMIN.
    """
    found = tried(connection, "XA RECOVER", ask_bytes) if wanted.snapshot and wanted.tables else []
    if isinstance(found, pymysql.MySQLError) or not found:
        return
    ids = (row[-1] for row in found[:5])
    names = ", ".join(name.decode(errors="replace") for name in ids)
    message = "rows that prepared XA transactions have changed are missing if tables are first read before their commit"
    fix = "XA COMMIT or XA ROLLBACK them before the first start, or read their tables again after it (--reset TABLE)"
    yield warning_finding(SourceError, message, names, "no prepared transaction", fix)


def _has_role(connection: Connection, privilege: str) -> bool:
    return any(privilege in str(row[0]).upper() for row in ask(connection, "SHOW GRANTS"))


def _filters(status: Sequence[tuple[object, ...]], tables: Collection[TableName]) -> Iterator[ServerFinding]:
    if not status:
        return
    # The columns Binlog_Do_DB and Binlog_Ignore_DB.
    only, never = (set(str(status[0][place] or "").split(",")) - {""} for place in (2, 3))
    unlogged = {database for database, _ in tables if database in never or (only and database not in only)}
    if unlogged:
        fix = "remove binlog-do-db / binlog-ignore-db from the server's configuration"
        yield error_finding(
            BinlogDisabled,
            "some databases are not logged",
            ", ".join(sorted(unlogged)),
            "all captured databases logged",
            fix,
        )
