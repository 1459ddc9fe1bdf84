"""Checks of the captured tables: keys, engines, character sets and columns that cannot be captured fully."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pymysql

from penstock.errors import SourceError
from penstock.ingest.database.findings import MissingGrant, ServerFinding, error_finding, warning_finding
from penstock.ingest.mysql.errors import (
    NoUsableKey,
)
from penstock.ingest.mysql.server.catalog import list_tables, qualified
from penstock.ingest.mysql.server.charsets import charset_named
from penstock.ingest.mysql.server.connection import ask, ask_bytes
from penstock.ingest.mysql.server.table_rights import tried
from penstock.ingest.mysql.shown_times import repeats_times

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from penstock.formats.demand import DemandPolicy
    from penstock.ingest.mysql.server.catalog import TableName
    from penstock.ingest.mysql.server.connection import Connection, ServerFacts


_FOREIGN_KEY = re.compile(r"CONSTRAINT (`(?:[^`]|``)+`) FOREIGN KEY .*\)((?: ON (?:DELETE|UPDATE) [A-Z ]+?)*),?\n")

# Columns of each table in the information schema, where MariaDB compares names without case.
_COLUMNS = "MIN(TABLE_SCHEMA), MIN(TABLE_NAME), GROUP_CONCAT(COLUMN_NAME)"
_TABLE = "CAST(TABLE_SCHEMA AS BINARY), CAST(TABLE_NAME AS BINARY)"

_UNLOGGED = "may change without being logged"
# By engine: the difference from tables whose rows are kept and logged.
_ENGINES = {
    "MEMORY": _UNLOGGED,
    "FEDERATED": _UNLOGGED,
    "CSV": _UNLOGGED,
    "BLACKHOLE": (
        "keeps no rows: rows that are inserted are in the binlog alone, stay in the target table for ever, and verify "
        "reports them as extra"
    ),
}


@dataclass(frozen=True, slots=True)
class CheckedPlan:
    """The plan of the pipeline, so that only what it needs is checked.

    `demand` says which part of a table is read, and `zone` in which time zone TIMESTAMP is shown.
    """

    tables: Sequence[TableName] = ()
    server_ids: range = range(0)
    partial_images: bool = False
    locking_snapshot: bool = False
    snapshot: bool = True
    demand: DemandPolicy | None = None
    zone: str = "UTC"


def setting_statement(facts: ServerFacts, setting: str, value: object, note: str = "") -> str:
    """Return the statement that changes a setting permanently; MariaDB has no statement that persists a setting."""
    notes = [*(["set it in the configuration file too"] if facts.is_mariadb else []), *([note] if note else [])]
    statement = f"SET {'GLOBAL' if facts.is_mariadb else 'PERSIST'} {setting} = {value};"
    return f"{statement}  -- {', '.join(notes)}" if notes else statement


def check_tables(connection: Connection, facts: ServerFacts, wanted: CheckedPlan) -> Iterator[ServerFinding]:
    known = {table.name: table for table in list_tables(connection)}
    for name in wanted.tables:
        table = known.get(name)
        if table is None:
            continue
        if not table.has_primary_key:
            take = "or write it to an append table (--include-keyless append)"
            fix = f"ALTER TABLE {qualified(name)} ADD PRIMARY KEY (...);  -- {take}"
            yield warning_finding(NoUsableKey, f"{'.'.join(name)} has no primary key", "none", "a primary key", fix)
        if note := _ENGINES.get(table.engine.upper()):
            fix = f"ALTER TABLE {qualified(name)} ENGINE = InnoDB;  -- or exclude the table"
            yield warning_finding(SourceError, f"{'.'.join(name)} {note}", table.engine, "InnoDB", fix)
    yield from _charsets(connection, set(wanted.tables))
    yield from _times_in_keys(connection, set(wanted.tables))
    yield from _timestamps_in_keys(connection, set(wanted.tables), wanted.zone)
    yield from cascades(connection, facts, [name for name in wanted.tables if name in known])


def _times_in_keys(connection: Connection, tables: Collection[TableName]) -> Iterator[ServerFinding]:
    for table, columns in _keys_of_type(connection, "time", tables):
        message = f"{table} has TIME columns in its key, and rows with a time outside of one day are bad records"
        fix = "use --type-mapping time-to-string to store them as text, and --isolate to keep other tables running"
        yield warning_finding(SourceError, message, columns, "times within one day, or text", fix)


def _timestamps_in_keys(connection: Connection, tables: Collection[TableName], zone: str) -> Iterator[ServerFinding]:
    this_year = time.gmtime().tm_year
    if not repeats_times(zone, (this_year, this_year + 1)):
        return
    for table, columns in _keys_of_type(connection, "timestamp", tables):
        message = (
            f"{table} has TIMESTAMP columns in its key, and clocks of server-time-zone {zone} show an hour of each "
            "year twice: rows with the later of two such times are bad records"
        )
        fix = "set server-time-zone: UTC, or use --isolate to keep other tables running"
        yield warning_finding(SourceError, message, columns, "a time zone without summer time", fix)


def _keys_of_type(connection: Connection, type_: str, tables: Collection[TableName]) -> Iterator[tuple[str, str]]:
    """Yield the names of tables with columns of this type in their primary key, and the columns."""
    statement = (
        f"SELECT {_COLUMNS} FROM information_schema.COLUMNS WHERE DATA_TYPE = '{type_}' AND COLUMN_KEY = 'PRI'"
        f" GROUP BY {_TABLE} ORDER BY 1, 2"
    )
    for database, table, columns in ask(connection, statement):
        if (database, table) in tables:
            yield f"{database}.{table}", columns


def check_labels(
    connection: Connection, facts: ServerFacts, settings: dict[str, str], wanted: CheckedPlan
) -> Iterator[ServerFinding]:
    """Yield a finding if labels of ENUM or SET may be damaged.

    The catalog shows characters of four bytes as question marks, and the binlog contains labels only with full
    metadata.
    """
    if settings.get("binlog_row_metadata", "MINIMAL") == "FULL":
        return
    statement = (
        f"SELECT {_COLUMNS} FROM information_schema.COLUMNS"
        " WHERE DATA_TYPE IN ('enum', 'set') AND CHARACTER_SET_NAME NOT IN ('latin1', 'ascii')"
        f" AND LOCATE('?', COLUMN_TYPE) > 0 GROUP BY {_TABLE} ORDER BY 1, 2"
    )
    for database, table, columns in ask(connection, statement):
        if (database, table) in set(wanted.tables):
            fix = setting_statement(facts, "binlog_row_metadata", "FULL", "then the binlog contains the labels")
            message = (
                f"{database}.{table} has labels with ?, which may replace characters that the server's "
                "catalog cannot show"
            )
            yield warning_finding(SourceError, message, columns, "labels without ?", fix)


def _charsets(connection: Connection, tables: Collection[TableName]) -> Iterator[ServerFinding]:
    """Yield an error for unknown character sets: the binlog contains text in the column's character set."""
    statement = (
        f"SELECT {_COLUMNS}, CHARACTER_SET_NAME FROM information_schema.COLUMNS WHERE CHARACTER_SET_NAME IS NOT NULL"
        f" GROUP BY {_TABLE}, CHARACTER_SET_NAME ORDER BY 1, 2, 4"
    )
    for database, table, columns, charset in ask(connection, statement):
        if (database, table) in tables and charset_named(charset) is None:
            fix = f"ALTER TABLE {qualified((database, table))} CONVERT TO CHARACTER SET utf8mb4;"
            message = f"{database}.{table} has text that cannot be decoded from the binlog: {columns}"
            yield error_finding(SourceError, message, charset, "a character set that MySQL or MariaDB can convert", fix)


def cascades(connection: Connection, facts: ServerFacts, tables: Collection[TableName]) -> Iterator[ServerFinding]:
    """Yield a finding for each foreign key by which rows of these tables change without being logged."""
    # MySQL 9.6 moved cascades out of InnoDB, and logs the rows that they change.
    if not facts.is_mariadb and facts.version >= (9, 6, 0):
        return
    # MariaDB hides the catalog's list of constraints from users with read privileges only, but not SHOW CREATE TABLE.
    for database, table in sorted(tables):
        # With defaults of binary columns, which are bytes.
        shown = tried(connection, f"SHOW CREATE TABLE {qualified((database, table))}", ask_bytes)
        if isinstance(shown, pymysql.MySQLError):
            message = f"it is not known whether foreign key cascades, which are not logged, change {database}.{table}"
            fix = f"GRANT SELECT ON {qualified((database, table))}  to the user shows it"
            yield warning_finding(MissingGrant, message, shown.args[-1], "a readable definition", fix)
            continue
        text = shown[0][1].decode(errors="replace")
        for constraint, rules in _FOREIGN_KEY.findall(text):
            if "CASCADE" in rules or "SET NULL" in rules:
                fix = (
                    "the server does not log rows changed by a cascade: change them in the application or in a trigger"
                )
                message = f"{database}.{table} is changed by a foreign key cascade"
                yield warning_finding(SourceError, message, f"{constraint}{rules}", "no cascading foreign key", fix)
