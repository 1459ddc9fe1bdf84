"""Findings about tables themselves: identities, keys and partitions that cannot be followed, or only in part."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.errors import SourceError
from penstock.ingest.database.findings import MissingGrant, ServerFinding, error_finding, warning_finding
from penstock.ingest.postgres.errors import AmbiguousKey, IdentityTooWeak
from penstock.ingest.postgres.server.catalog import TableName, qualified, quoted
from penstock.ingest.postgres.server.partitions import parts_without_log

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.catalog import PgTableFacts
    from penstock.ingest.postgres.server.connection import PgConnection


def check_tables(connection: PgConnection, tables: Sequence[PgTableFacts]) -> Iterator[ServerFinding]:
    """Yield what prevents or endangers capturing these tables, apart from rights and the publication."""
    yield from _identities(tables)
    yield from ambiguous_keys(connection, tables)
    yield from _partitions(connection, tables)
    yield from _policies(connection, tables)


def without_old_rows(connection: PgConnection, names: Collection[TableName]) -> list[TableName]:
    """Return those of the tables whose log does not have whole old rows.

    The rows of a partitioned table are logged as the identities of its partitions say. Other tables are not looked at:
    the list of partitions waits for those that are locked.
    """
    wanted = ", ".join(f"({connection.literal(schema)}, {connection.literal(table)})" for schema, table in names)
    if not wanted:
        return []
    rows = connection.rows(
        "SELECT DISTINCT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        f"JOIN (VALUES {wanted}) w (s, t) ON w.s = n.nspname AND w.t = c.relname "
        "CROSS JOIN LATERAL (SELECT c.oid UNION SELECT relid FROM pg_partition_tree(c.oid) WHERE isleaf) t "
        "JOIN pg_class p ON p.oid = t.oid WHERE p.relkind = 'r' AND c.relkind IN ('r', 'p') AND p.relreplident <> 'f' "
        "ORDER BY 1, 2"
    )
    return [(str(schema), str(table)) for schema, table in rows]


def numbers_of(tables: Sequence[PgTableFacts]) -> str:
    """Return the numbers of the tables as a list of SQL, never an empty one."""
    return ", ".join(str(table.oid) for table in tables) or "0"


def _identities(tables: Sequence[PgTableFacts]) -> Iterator[ServerFinding]:
    for table in tables:
        if table.identity in {"n", "i"}:
            seen = "NOTHING" if table.identity == "n" else "USING INDEX"
            fix = f"ALTER TABLE {qualified(table.name)} REPLICA IDENTITY DEFAULT;  or FULL"
            message = f"updates and deletes of {table.qualified} may not contain its key"
            yield warning_finding(IdentityTooWeak, message, f"REPLICA IDENTITY {seen}", "DEFAULT or FULL", fix)


def ambiguous_keys(connection: PgConnection, tables: Sequence[PgTableFacts]) -> Iterator[ServerFinding]:
    """Yield findings for keys of BIT VARYING, also of domains over it: as bytes, 1 and 01 are equal."""
    # Columns after indnkeyatts are INCLUDEd in the index without being part of the key.
    rows = connection.rows(
        "SELECT i.indrelid::regclass, quote_ident(a.attname) FROM pg_index i JOIN pg_attribute a "
        "ON a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) WHERE i.indisprimary "
        f"AND i.indrelid IN ({numbers_of(tables)}) AND (WITH RECURSIVE t(oid, base) AS ("
        "SELECT y.oid, y.typbasetype FROM pg_type y WHERE y.oid = a.atttypid UNION ALL "
        "SELECT y.oid, y.typbasetype FROM pg_type y JOIN t ON y.oid = t.base) "
        "SELECT bool_or(t.oid = 'varbit'::regtype) FROM t) ORDER BY 1, 2"
    )
    for table, column in rows:
        message = f"the key column {column} of {table} has no number of bits in the target, where 1 and 01 are one key"
        fix = (
            f"ALTER TABLE {table} ALTER COLUMN {column} TYPE text USING {column}::text;  or exclude the table "
            "(--excluding-tables, in a file  selection: {excluding-tables: NAME})"
        )
        yield error_finding(AmbiguousKey, message, "BIT VARYING", "text or BIT(n)", fix)


def _partitions(connection: PgConnection, tables: Sequence[PgTableFacts]) -> Iterator[ServerFinding]:
    """Yield findings for partitions that are read with their table although their changes are in no log."""
    for table, part, is_foreign in parts_without_log(connection, tables):
        message = f"no log has the changes of the partition {part} of {table}"
        if is_foreign:
            fix = "none is needed if its rows never change; else --reset TABLE reads them again"
            yield warning_finding(SourceError, message, "a foreign table", "a table of this server", fix)
        else:
            fix = f"ALTER TABLE {part} SET LOGGED;  or exclude the table"
            yield error_finding(SourceError, message, "UNLOGGED", "LOGGED", fix)


def _policies(connection: PgConnection, tables: Sequence[PgTableFacts]) -> Iterator[ServerFinding]:
    """Yield findings for tables whose policies would hide rows from the user: the log contains the rows of all."""
    rows = connection.rows(
        "SELECT oid::regclass, current_user FROM pg_class WHERE relrowsecurity AND row_security_active(oid) "
        f"AND oid IN ({numbers_of(tables)}) ORDER BY 1"
    )
    for table, user in rows:
        message = f"row level security may hide rows of {table} from the user"
        fix = f"ALTER ROLE {quoted(str(user))} BYPASSRLS;  or exclude the table"
        yield error_finding(MissingGrant, message, "no BYPASSRLS", "BYPASSRLS", fix)
