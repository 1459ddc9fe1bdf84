"""Checks whether the user may read the tables of a snapshot, or the columns that it selects of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pymysql

from penstock.formats.demand import needed
from penstock.ingest.database.findings import MissingGrant, ServerFinding, error_finding
from penstock.ingest.mysql.definition import schema_of
from penstock.ingest.mysql.server.catalog import definitions, qualified, quoted
from penstock.ingest.mysql.server.connection import ask
from penstock.ingest.mysql.server.refusals import is_locked_out, is_lost

if TYPE_CHECKING:
    from penstock.formats.demand import DemandPolicy
    from penstock.ingest.mysql.definition import TableDefinition
    from penstock.ingest.mysql.server.catalog import TableName
    from penstock.ingest.mysql.server.connection import Connection, Row


def tried(
    connection: Connection, statement: str, how: Callable[[Connection, str], list[Row]] = ask
) -> list[Row] | pymysql.MySQLError:
    """Return the rows, or the server's refusal; a lost connection or a lock says nothing about privileges: raised."""
    try:
        return how(connection, statement)
    except pymysql.MySQLError as error:
        if is_lost(error) or is_locked_out(error):
            raise
        return error


def missing_grant(privilege: str, on: str, user: str, seen: object) -> ServerFinding:
    return error_finding(
        MissingGrant, f"{privilege} is not granted", seen, privilege, f"GRANT {privilege} ON {on} TO {user};"
    )


def check_rights(
    connection: Connection, tables: Sequence[TableName], policy: DemandPolicy | None, metadata: str, user: str
) -> Iterator[ServerFinding]:
    """Yield missing rights to read the captured tables. A column that is not needed need not be readable.

    `metadata` is the server's setting binlog_row_metadata.
    """
    partly = []
    for name in tables:
        found = tried(connection, f"SELECT 1 FROM {qualified(name)} LIMIT 0")
        if isinstance(found, pymysql.MySQLError):
            yield missing_grant("SELECT", qualified(name), user, found.args[-1])
        elif isinstance(tried(connection, f"SELECT * FROM {qualified(name)} LIMIT 0"), pymysql.MySQLError):
            partly.append(name)
    for definition in definitions(connection, partly).values():
        yield from _of_columns(connection, definition, policy, metadata, user)


def _of_columns(
    connection: Connection, definition: TableDefinition, policy: DemandPolicy | None, metadata: str, user: str
) -> Iterator[ServerFinding]:
    """Yield findings if the user has rights on some columns of a table only; the server hides the others."""
    name = definition.database, definition.table
    table, demand = qualified(name), needed(policy, schema_of(definition))
    if not demand.lists_columns:
        seen = ", ".join(column.name for column in definition.columns)
        message = f"only some columns of {definition.qualified} may be read, and the pipeline writes all"
        fix = f"GRANT SELECT ON {table} TO {user};  or list the columns in the projection of a transform, without *"
        yield replace(error_finding(MissingGrant, message, seen, "SELECT on the table", fix), hiding=name)
        return
    needs = [column.name for column in definition.columns if demand.includes(column.name)]
    denied = [need for need in needs if isinstance(tried(connection, _selecting(need, table)), pymysql.MySQLError)]
    denied += sorted(demand.unknown)
    if denied:
        columns = ", ".join(map(quoted, denied))
        message = f"columns of {definition.qualified} may not be read, or do not exist"
        fix = f"GRANT SELECT ({columns}) ON {table} TO {user};"
        yield replace(error_finding(MissingGrant, message, ", ".join(denied), "SELECT", fix), hiding=name)
    if metadata != "FULL":
        message = f"the binlog contains no column names, and the user sees only some columns of {definition.qualified}"
        fix = f"SET GLOBAL binlog_row_metadata = FULL;  or  GRANT SELECT ON {table} TO {user};"
        yield error_finding(MissingGrant, message, metadata, "binlog_row_metadata = FULL", fix)


def _selecting(column: str, table: str) -> str:
    return f"SELECT {quoted(column)} FROM {table} LIMIT 0"
