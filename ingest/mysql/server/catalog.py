"""The server's catalog: its current tables and columns. Past definitions are in the schema history."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from penstock.ingest.mysql.definition import MySqlColumn, TableDefinition, parse_type
from penstock.ingest.mysql.server.connection import ask

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.ingest.mysql.server.connection import Connection, Row


SYSTEM_DATABASES = ("mysql", "sys", "information_schema", "performance_schema")
TableName = tuple[str, str]
# MariaDB has sequences, whose numbers are logged as rows of a table, and system-versioned tables, which keep past rows:
# in the binlog these look like current rows.
BASE_TABLE, SEQUENCE, SYSTEM_VERSIONED = "BASE TABLE", "SEQUENCE", "SYSTEM VERSIONED"
LOGGED = (BASE_TABLE, SEQUENCE, SYSTEM_VERSIONED)
# Names per query: with more, the text would be too long for a server with a small max_allowed_packet.
_NAMES_A_QUERY = 500


@dataclass(frozen=True, slots=True)
class MySqlTableFacts:
    """A table as the catalog lists it; `rows` is the engine's estimate, which is easily a tenth off."""

    database: str
    table: str
    engine: str
    rows: int
    bytes_a_row: int
    has_primary_key: bool
    kind: str = BASE_TABLE

    @property
    def name(self) -> TableName:
        return self.database, self.table


def list_tables(connection: Connection, kinds: Sequence[str] = (BASE_TABLE,)) -> list[MySqlTableFacts]:
    """Return all tables of these kinds outside the system databases, in the catalog's order."""
    types = ", ".join(["%s"] * len(kinds))
    marks = ", ".join(["%s"] * len(SYSTEM_DATABASES))
    rows = ask(
        connection,
        "SELECT t.TABLE_SCHEMA, t.TABLE_NAME, COALESCE(t.ENGINE, ''), COALESCE(t.TABLE_ROWS, 0),"
        " COALESCE(t.AVG_ROW_LENGTH, 0), k.COLUMN_NAME IS NOT NULL, t.TABLE_TYPE FROM information_schema.TABLES t"
        # TABLE_CONSTRAINTS would be simpler, but MariaDB hides it from users who have only SELECT.
        " LEFT JOIN information_schema.KEY_COLUMN_USAGE k ON k.TABLE_SCHEMA = t.TABLE_SCHEMA"
        " AND k.TABLE_NAME = t.TABLE_NAME AND k.CONSTRAINT_NAME = 'PRIMARY' AND k.ORDINAL_POSITION = 1"
        # MariaDB compares names here without case, although names that differ in case only are different tables.
        " AND (@@GLOBAL.lower_case_table_names > 0 OR (CAST(k.TABLE_SCHEMA AS BINARY) = CAST(t.TABLE_SCHEMA AS BINARY)"
        " AND CAST(k.TABLE_NAME AS BINARY) = CAST(t.TABLE_NAME AS BINARY)))"
        f" WHERE t.TABLE_TYPE IN ({types}) AND t.TABLE_SCHEMA NOT IN ({marks})"
        " ORDER BY t.TABLE_SCHEMA, t.TABLE_NAME",
        *kinds,
        *SYSTEM_DATABASES,
    )
    return [MySqlTableFacts(row[0], row[1], row[2], int(row[3]), int(row[4]), bool(row[5]), row[6]) for row in rows]


def columns_with_values(connection: Connection, table: TableName, *, is_mariadb: bool) -> list[str]:
    """Return the columns that have a value in rows which are older than the column.

    These are columns with a default, generated columns, and columns that cannot be null: they are 0 or empty there.
    """
    # MariaDB writes a default of null as this word, and texts in quotation marks. Compared by the server, because the
    # default of a binary column is bytes.
    null = "NULLIF(HEX(COLUMN_DEFAULT), HEX('NULL'))" if is_mariadb else "COLUMN_DEFAULT"
    rows = ask(
        connection,
        f"SELECT COLUMN_NAME, {null} IS NOT NULL, IS_NULLABLE, EXTRA FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        *table,
    )
    return [
        str(name)
        for name, has_default, nullable, extra in rows
        if has_default or nullable == "NO" or "GENERATED" in str(extra).upper()
    ]


def generated_columns(connection: Connection, table: TableName) -> set[str]:
    """Return the columns that the server computes from others of the same row."""
    rows = ask(
        connection,
        "SELECT COLUMN_NAME, EXTRA FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        *table,
    )
    return {str(name) for name, extra in rows if _is_generated(extra)}


def _is_generated(extra: object) -> bool:
    # MySQL writes DEFAULT_GENERATED for an expression that is only a default.
    return bool({"STORED", "VIRTUAL"} & set(str(extra).upper().split()))


def definitions(connection: Connection, names: Iterable[TableName]) -> dict[TableName, TableDefinition]:
    """Return the definitions of these tables; a table that does not exist is omitted."""
    wanted = list(dict.fromkeys(names))
    found: dict[TableName, TableDefinition] = {}
    for start in range(0, len(wanted), _NAMES_A_QUERY):
        found |= _definitions_of(connection, wanted[start : start + _NAMES_A_QUERY])
    return found


def _definitions_of(connection: Connection, names: list[TableName]) -> dict[TableName, TableDefinition]:
    pairs = " OR ".join(["(TABLE_SCHEMA = %s AND TABLE_NAME = %s)"] * len(names))
    values = [part for name in names for part in name]
    columns = ask(
        connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, CHARACTER_SET_NAME, COLUMN_COMMENT,"
        f" EXTRA FROM information_schema.COLUMNS WHERE {pairs} ORDER BY ORDINAL_POSITION",
        *values,
    )
    keys = ask(
        connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE"
        f" WHERE CONSTRAINT_NAME = 'PRIMARY' AND ({pairs}) ORDER BY ORDINAL_POSITION",
        *values,
    )
    tables = ask(
        connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_COMMENT, SUBSTRING_INDEX(TABLE_COLLATION, '_', 1)"
        f" FROM information_schema.TABLES WHERE {pairs}",
        *values,
    )
    columns_of, key_of = _by_table(columns), _by_table(keys)
    return {
        (row[0], row[1]): TableDefinition(
            row[0],
            row[1],
            tuple(map(_column, columns_of[row[0], row[1]])),
            tuple(str(key[2]) for key in key_of.get((row[0], row[1]), ())),
            row[2] or None,
            row[3],
        )
        for row in tables
        if (row[0], row[1]) in columns_of
    }


def _by_table(rows: list[Row]) -> dict[TableName, list[Row]]:
    # Not itertools.groupby: if names differ only in case, the server's order interleaves their rows.
    found: dict[TableName, list[Row]] = {}
    for row in rows:
        found.setdefault((row[0], row[1]), []).append(row)
    return found


def _column(row: Row) -> MySqlColumn:
    # The text may be bytes if the server stores it in a BLOB of its data dictionary.
    kind = row[3].decode() if isinstance(row[3], bytes) else str(row[3])
    return MySqlColumn(
        str(row[2]), parse_type(kind), row[4] == "YES", row[5], row[6] or None, is_generated=_is_generated(row[7])
    )


def unique_keys(connection: Connection, name: TableName) -> list[tuple[str, ...]]:
    """Return the unique keys whose columns are all NOT NULL and fully indexed, the primary key first."""
    rows = ask(
        connection,
        "SELECT INDEX_NAME, COLUMN_NAME, NULLABLE, SUB_PART FROM information_schema.STATISTICS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX",
        *name,
    )
    keys = [(index, list(parts)) for index, parts in groupby(rows, itemgetter(0))]
    whole = [
        (index, tuple(str(part[1]) for part in parts))
        for index, parts in keys
        # A prefix (SUB_PART) does not distinguish all rows, and an expression has no column.
        if all(part[2] != "YES" and part[3] is None and part[1] is not None for part in parts)
    ]
    return [columns for _, columns in sorted(whole, key=lambda key: (key[0] != "PRIMARY", key[0]))]


def qualified(name: TableName) -> str:
    """Return the name of a table quoted for SQL, with its database."""
    return ".".join(map(quoted, name))


def quoted(name: str) -> str:
    """Return an identifier quoted for SQL."""
    return "`" + name.replace("`", "``") + "`"
