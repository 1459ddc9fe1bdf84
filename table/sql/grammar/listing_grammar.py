"""The grammar of SHOW and DESCRIBE."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.table.sql.grammar.cursor import Cursor
from penstock.table.sql.grammar.statements import Describe, Show, SqlQuery, Statement

# What to write instead of SHOW of other engines.
_INSTEAD = {
    "branches": "SELECT * FROM t$branches",
    "snapshots": "SELECT * FROM t$snapshots",
    "functions": "SELECT function_name FROM duckdb_functions(): functions are those of DuckDB",
    "table": "DESCRIBE t, SHOW CREATE TABLE t, SHOW PARTITIONS t",
    "jobs": "penstock status: a stream runs in the process of its statement",
}


def read_describe(cursor: Cursor) -> Statement:
    """Read DESCRIBE."""
    begin = cursor.mark
    cursor.skip_any("describe", "desc")
    if cursor.word() in {"select", "with", "from", "values", "("}:
        cursor.back_to(begin)
        return SqlQuery(cursor.rest())
    if cursor.skip_any("database", "schema"):
        if cursor.word(1) not in {"", "."}:
            cursor.skip("extended")
        database = cursor.name()
        cursor.end()
        return Describe((database,), database=True)
    # These words are also possible names: `DESCRIBE extended`, `DESCRIBE table.t`. They are keywords only before a
    # name.
    words: set[str | None] = set()
    for _ in range(2):
        if cursor.word(1) not in {"", "."}:
            words.add(cursor.skip_any("table", "extended", "formatted"))
    name = cursor.names()
    column = None if cursor.at_end else cursor.name()
    cursor.end()
    return Describe(name, extended=bool(words & {"extended", "formatted"}), column=column)


def read_show(cursor: Cursor) -> Show:
    """Read SHOW."""
    cursor.expect("show")
    listed = cursor.skip_any(*_SHOWN)
    if listed is None:
        hint = _INSTEAD.get(cursor.word(), _SHOW_HINT)
        cursor.fail(f"SHOW needs an object: SHOW {cursor.word().upper()} is not supported", hint=hint)
    shown = _SHOWN[listed](cursor)
    cursor.end()
    return shown


def _show_names(listed: str) -> Callable[[Cursor], Show]:
    def read(cursor: Cursor) -> Show:
        database = cursor.names() if listed in {"tables", "views"} and cursor.skip_any("in", "from") else None
        like = cursor.string() if cursor.skip("like") or cursor.kind() == "string" else None
        return Show(listed, database, like)

    return read


def _show_current(cursor: Cursor) -> Show:
    kind = cursor.skip_any("catalog", "database")
    if kind is None:
        cursor.fail("SHOW CURRENT needs CATALOG or DATABASE")
    return Show(f"current {kind}")


def _show_create(cursor: Cursor) -> Show:
    kind = cursor.skip_any("table", "view")
    if kind is None:
        cursor.fail("SHOW needs an object", hint="SHOW CREATE TABLE database.table, or SHOW CREATE VIEW database.view")
    return Show("create" if kind == "table" else "create view", cursor.names())


def _show_of_table(listed: str) -> Callable[[Cursor], Show]:
    def read(cursor: Cursor) -> Show:
        cursor.skip_any("in", "from")
        _refuse_like(cursor, listed)
        name, key, partition, like = cursor.names(), None, None, None
        if listed == "tblproperties" and cursor.skip("("):
            key = cursor.key()
            cursor.expect(")")
        if listed == "partitions" and cursor.skip("partition"):
            partition = cursor.partition()
        if listed in {"columns", "tags"} and cursor.skip("like"):
            like = cursor.string()
        _refuse_like(cursor, listed)
        return Show(listed, name, like, key=key, partition=partition)

    return read


def _refuse_like(cursor: Cursor, listed: str) -> None:
    if cursor.word() in {"like", "ilike"} and cursor.word(1).startswith("'"):  # else it is a name
        cursor.fail(f"SHOW {listed.upper()} does not select by LIKE", hint=_INSTEAD_OF_LIKE[listed])


_INSTEAD_OF_LIKE = {
    "columns": "SHOW COLUMNS IN t LIKE 'a*'; DESCRIBE t name  describes one",
    "partitions": "SHOW PARTITIONS t PARTITION (dt = 'mon'), or SELECT * FROM t$partitions WHERE partition LIKE '...'",
    "tblproperties": "SHOW TBLPROPERTIES t ('key')",
    "tags": "SHOW TAGS t LIKE 'a*', or SELECT * FROM t$tags WHERE tag_name LIKE '...'",
}
_SHOW_HINT = (
    "SHOW CATALOGS, DATABASES, TABLES, VIEWS, CREATE TABLE, CREATE VIEW, PARTITIONS, COLUMNS, TBLPROPERTIES, TAGS or "
    "PROCEDURES"
)
_SHOWN: Mapping[str, Callable[[Cursor], Show]] = {
    "catalogs": _show_names("catalogs"),
    "current": _show_current,
    "databases": _show_names("databases"),
    "schemas": _show_names("databases"),
    "tables": _show_names("tables"),
    "views": _show_names("views"),
    "procedures": _show_names("procedures"),
    "create": _show_create,
    "partitions": _show_of_table("partitions"),
    "columns": _show_of_table("columns"),
    "tblproperties": _show_of_table("tblproperties"),
    "tags": _show_of_table("tags"),
}
