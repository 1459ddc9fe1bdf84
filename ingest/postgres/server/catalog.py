"""The catalog of a database: tables with their columns, keys, identities, and the names of types."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from penstock.ingest.postgres.relation import Column, PgType, Relation
from penstock.ingest.postgres.server.catalog_numbers import row_number, rows_number
from penstock.ingest.postgres.server.silent_columns import NONE, SilentColumns, silent_columns

if TYPE_CHECKING:
    from penstock.ingest.postgres.relation import Identity, LoggedRelation
    from penstock.ingest.postgres.server.connection import PgConnection, Row

TableName = tuple[str, str]  # schema and table
_SYSTEM = "n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%'"
_ORDINARY, _PARTITIONED = "r", "p"
# Columns after indnkeyatts are INCLUDEd in the index without being part of the key.
_KEY_COLUMNS = (
    "CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, place) JOIN pg_attribute a ON a.attrelid = "
    "i.indrelid AND a.attnum = k.attnum WHERE i.indisprimary AND k.place <= i.indnkeyatts"
)
# The columns of the primary key of a table `c`, in their order.
_KEY = (
    "COALESCE((SELECT json_agg(a.attname ORDER BY k.place) FROM pg_index i "
    f"{_KEY_COLUMNS} AND i.indrelid = c.oid), '[]')"
)
_LEAVES = "pg_partition_tree(c.oid) t JOIN pg_class p ON p.oid = t.relid AND t.isleaf"
UNLOGGED = "u"  # as in pg_class.relpersistence
# A number of the row of pg_inherits that makes a table a partition: ATTACH PARTITION makes another row.
PART_LINK = row_number("i.inhrelid", "i.xmin")


@dataclass(frozen=True, slots=True)
class PgTableFacts:
    """A table that exists now; `rows` is the server's estimate. `kind` and `persistence` are as in pg_class.

    `columns` is the highest number of a column, dropped columns included. `files` changes when a statement rewrites all
    rows, and `marks` when a statement changes a column; 0 is unknown. `parts` describes the partitions at all levels
    that are tables: the highest of their numbers, their count, the sum of their numbers, and a number that changes when
    one of them is attached again. `silent` are the columns whose values can change without any of these changes.
    """

    oid: int
    schema: str
    table: str
    has_key: bool
    identity: Identity
    rows: int
    kind: str = _ORDINARY
    persistence: str = "p"
    is_partition: bool = False
    columns: int = 0
    files: int = 0
    marks: int = 0
    parts: tuple[int, ...] = ()
    silent: SilentColumns = NONE
    toast: int = 0
    key: tuple[str, ...] = ()

    @property
    def name(self) -> TableName:
        return self.schema, self.table

    @property
    def qualified(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def is_unlogged(self) -> bool:
        """True if no log has the rows of an ordinary table that is no partition."""
        return self.kind == _ORDINARY and self.persistence == UNLOGGED and not self.is_partition

    @property
    def is_logged(self) -> bool:
        """True if the log contains the table's rows. Partitions are captured as their partitioned table."""
        return self.kind in {_ORDINARY, _PARTITIONED} and self.persistence == "p" and not self.is_partition


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def qualified(name: TableName) -> str:
    return f"{quoted(name[0])}.{quoted(name[1])}"


def own_rows(name: TableName, kind: str) -> str:
    """Return the table as a part of FROM: without rows of tables that inherit from it, which have logs of their own.

    `kind` is as in pg_class.
    """
    return qualified(name) if kind == _PARTITIONED else f"ONLY {qualified(name)}"


def as_logged(column: str, kind: PgType) -> str:
    """Return the expression for a column's values as the log has them: binary, or as the server prints them."""
    if kind.is_binary:
        return column
    # A cast of inet to text adds the length of the netmask to the address of a host.
    return f"abbrev({column})" if kind.name == "inet" and kind.element is None else f"{column}::text"


def list_tables(connection: PgConnection) -> list[PgTableFacts]:
    """Return all tables of the database that hold rows, in the order of their names."""
    silent = silent_columns(connection)
    # reltuples is -1 until the first ANALYZE, and a partitioned table has the rows of its partitions.
    rows = connection.rows(
        f"SELECT c.oid, n.nspname, c.relname, {_KEY}, c.relreplident, CASE c.relkind WHEN 'p' THEN "
        f"(SELECT COALESCE(sum(GREATEST(p.reltuples, 0)), 0) FROM {_LEAVES}) ELSE "
        "GREATEST(c.reltuples, 0) END::int8, c.relkind, c.relpersistence, c.relispartition, c.relnatts, "
        # ALTER COLUMN TYPE gives the table a new file, as VACUUM FULL does, and the column a new row in the catalog.
        f"CASE c.relkind WHEN 'p' THEN (SELECT COALESCE(sum(hashint8(p.relfilenode::int8)), 0) FROM {_LEAVES}) "
        "ELSE c.relfilenode::int8 END, "
        f"(SELECT {rows_number(row_number('a.attnum', 'a.xmin'))} FROM pg_attribute a WHERE "
        "a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), "
        "CASE c.relkind WHEN 'p' THEN (SELECT concat_ws(',', COALESCE(max(t.relid::oid::int8), 0), count(*), "
        f"COALESCE(sum(t.relid::oid::int8), 0), {rows_number(PART_LINK)}) FROM pg_partition_tree(c.oid) t "
        "JOIN pg_inherits i ON i.inhrelid = t.relid WHERE t.level > 0) ELSE '' END, "
        # VACUUM FULL, CLUSTER and TRUNCATE keep the table beside it that has long values.
        f"CASE c.relkind WHEN 'p' THEN (SELECT COALESCE(sum(p.reltoastrelid::int8), 0) FROM {_LEAVES}) "
        "ELSE c.reltoastrelid::int8 END "
        f"FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'f') "
        f"AND {_SYSTEM} ORDER BY 2, 3"
    )
    return [
        PgTableFacts(
            int(str(oid)), str(schema), str(table), key != "[]", cast("Identity", identity), int(str(count)), str(kind),
            str(persistence), partition == "t", int(str(columns)), int(str(files)), int(str(marks)),
            tuple(map(int, filter(None, str(parts).split(",")))), silent.get(int(str(oid)), NONE),
            int(str(toast)), tuple(json.loads(str(key))),
        )
        for (
            oid, schema, table, key, identity, count, kind, persistence, partition, columns, files, marks, parts, toast
        ) in rows
    ]  # fmt: skip


def relations(connection: PgConnection, oids: Collection[int]) -> dict[int, Relation]:
    """Return tables with their present columns. Generated columns are left out, because the log lacks them."""
    if not oids:
        return {}
    numbers = ", ".join(map(str, sorted(oids)))
    tables: dict[int, Row] = {}
    columns: dict[int, list[tuple[str, int, int, str | None]]] = {}
    for oid, *table, name, kind, modifier, comment in connection.rows(
        "SELECT c.oid, n.nspname, c.relname, c.relreplident, obj_description(c.oid, 'pg_class'), c.relkind, p.key, "
        "v.attname, v.atttypid, v.atttypmod, col_description(c.oid, v.attnum) FROM pg_class c JOIN pg_namespace n "
        f"ON n.oid = c.relnamespace CROSS JOIN LATERAL (SELECT {_KEY}) p(key) LEFT JOIN pg_attribute v "
        "ON v.attrelid = c.oid AND v.attnum > 0 AND NOT v.attisdropped AND v.attgenerated = '' "
        f"WHERE c.oid IN ({numbers}) ORDER BY c.oid, v.attnum"
    ):
        number = int(str(oid))
        tables[number] = tuple(table)
        found = columns.setdefault(number, [])
        if name is not None:
            found.append((name, int(str(kind)), int(str(modifier)), comment))
    types = Types(connection)
    types.load({kind for some_columns in columns.values() for _, kind, _, _ in some_columns})
    return {oid: _relation(oid, table, columns[oid], types) for oid, table in tables.items()}


def _relation(oid: int, table: Row, columns: Sequence[tuple[str, int, int, str | None]], types: Types) -> Relation:
    schema, name, identity, comment, kind, listed = table
    key = tuple(json.loads(str(listed)))
    described = tuple(Column(column, types.of(*of), column in key, note) for column, *of, note in columns)
    return Relation(oid, str(schema), str(name), described, key, cast("Identity", identity), comment, str(kind))


def primary_keys(connection: PgConnection, numbers: str) -> dict[int, tuple[str, ...]]:
    """Return the columns of the primary keys of `some` tables, a list of numbers, in the order of the key."""
    keys: dict[int, tuple[str, ...]] = {}
    for oid, name in connection.rows(
        f"SELECT i.indrelid, a.attname FROM pg_index i {_KEY_COLUMNS} AND i.indrelid IN ({numbers}) "
        "ORDER BY i.indrelid, k.place"
    ):
        keys[int(str(oid))] = (*keys.get(int(str(oid)), ()), str(name))
    return keys


def logged_relation(
    connection: PgConnection, types: Types, logged: LoggedRelation, last_key: tuple[str, ...] | None
) -> Relation | None:
    """Return the table of a Relation message: its columns as of that place, and its current key.

    `last_key` is the key of a table that may not exist any more; if it is not known either, return None.
    """
    # A Relation message contains neither the primary key nor comments. The columns of the identity are no substitute:
    # with REPLICA IDENTITY FULL these are all columns.
    now = relations(connection, [logged.oid]).get(logged.oid)
    key = now.key if now is not None else last_key
    if key is None:
        return None
    types.load({column.oid for column in logged.columns})
    names = {column.name for column in logged.columns}
    comments = {} if now is None else {column.name: column.comment for column in now.columns}
    columns = tuple(
        Column(column.name, types.of(column.oid, column.modifier), column.in_identity, comments.get(column.name))
        for column in logged.columns
    )
    # The key of today may have columns that the message lacks.
    key = key if set(key) <= names else tuple(column.name for column in logged.columns if column.in_identity)
    comment = None if now is None else now.comment
    return Relation(logged.oid, logged.schema, logged.table, columns, key, logged.identity, comment)


# The types with numbers below this one are the same in every database of a server, and are never changed.
_FIRST_OF_A_DATABASE = 10_000


class Types:
    """The types of the database by number. Loaded when first needed, and kept."""

    def __init__(self, connection: PgConnection) -> None:
        self._connection = connection
        self._known = dict(connection.built_in_types)

    def load(self, oids: Collection[int]) -> None:
        """Load these types, and the types that they consist of."""
        missing: Sequence[int] = sorted(set(oids) - self._known.keys() - {0})
        while missing:
            rows = self._connection.rows(
                # The element of an array is the type whose `typarray` is the array's type.
                "SELECT t.oid, t.typname, t.typtype, t.typbasetype, t.typtypmod, COALESCE(e.oid, 0) FROM pg_type t "
                f"LEFT JOIN pg_type e ON e.typarray = t.oid WHERE t.oid IN ({', '.join(map(str, missing))})"
            )
            for oid, name, kind, base, modifier, element in rows:
                known = (str(name), str(kind), int(str(base)), int(str(modifier)), int(str(element)))
                self._known[int(str(oid))] = known
                if int(str(oid)) < _FIRST_OF_A_DATABASE:
                    self._connection.built_in_types[int(str(oid))] = known
            # A type that was dropped in the meantime.
            for number in missing:
                self._known.setdefault(number, ("text", "b", 0, -1, 0))
            inner = {part for number in missing for part in (self._known[number][2], self._known[number][4])}
            missing = sorted(inner - self._known.keys() - {0})

    def of(self, oid: int, modifier: int) -> PgType:
        """Return a type; domains are resolved to their base."""
        name, kind, base, own_modifier, element = self._known[oid]
        if kind == "d":
            return self.of(base, own_modifier if modifier < 0 else modifier)
        if kind == "e":
            return PgType("enum")
        if element:
            inner = self.of(element, modifier)
            return PgType(name, element=inner)
        return PgType.of(name, modifier)
