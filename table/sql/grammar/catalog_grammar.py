"""The grammar of CREATE CATALOG, CREATE DATABASE and DROP."""

from __future__ import annotations

from penstock.table.sql.grammar.cursor import Cursor
from penstock.table.sql.grammar.session_statements import CreateCatalog, DropCatalog, View
from penstock.table.sql.grammar.statements import DropDatabase, Statement
from penstock.table.sql.grammar.table_statements import DropTable, DropView
from penstock.table.values.sql_text import quoted

OURS = {"paimon", "penstock"}
# What to write instead of statements on what the catalogs do not keep.
NOT_KEPT = {
    "function": "write the expression into the query; functions are those of DuckDB",
}
# What to write instead of tables of other kinds.
_FILES = "query the files: SELECT * FROM 'files/*.parquet', read_csv('f.csv'); CREATE TABLE t AS SELECT copies them"
_PIPELINE = "a pipeline brings the rows into a table, which a query or another stream reads:"
# Connectors of temporary tables that a query can read.
READ_CONNECTORS = frozenset({"filesystem", "datagen"})
_OTHER_KINDS = {
    "format-table": _FILES,
    "filesystem": f"CREATE TEMPORARY TABLE reads files; or {_FILES}",
    "datagen": "CREATE TEMPORARY TABLE makes up rows; or SELECT i, random() FROM range(1000) AS rows(i)",
    "print": "SELECT shows rows; of streams too:  penstock sql --stream",
    "blackhole": "SELECT count(*) FROM (...) runs a query without its rows",
    "kafka": f"{_PIPELINE}  penstock kafka-sync-table, or source: {{type: kafka}} in a pipeline file",
    "upsert-kafka": f"{_PIPELINE}  penstock kafka-sync-table, or source: {{type: kafka}} in a pipeline file",
    "mysql-cdc": f"{_PIPELINE}  penstock mysql-sync-table, or source: {{type: mysql}} in a pipeline file",
    "postgres-cdc": f"{_PIPELINE}  penstock postgres-sync-table, or source: {{type: postgres}} in a pipeline file",
    "mongodb-cdc": f"{_PIPELINE}  penstock mongodb-sync-table, or source: {{type: mongodb}} in a pipeline file",
    "object-table": "query the list of files: SELECT * FROM glob('folder/*')",
    "view": "CREATE VIEW db.v AS SELECT ... in a catalog that keeps views; CREATE TEMPORARY VIEW lasts as long as the "
    "script",
    "materialized-table": "INSERT INTO t SELECT ... as a stream keeps a table up to date:  penstock sql --stream",
}


def drop(cursor: Cursor) -> Statement:
    """Read DROP."""
    cursor.expect("drop")
    temporary = cursor.skip_any("temporary", "temp") is not None
    kind = cursor.skip_any("catalog", "database", "schema", "table", "view")
    if kind is None:
        hint = NOT_KEPT.get(cursor.word(), "DROP CATALOG, DATABASE, TABLE or VIEW")
        cursor.fail(f"DROP {cursor.word().upper()} is not supported", hint=hint)
    if_exists = cursor.skip("if", "exists")
    if kind == "view":
        (view, *more) = names = cursor.names()
        cursor.end()
        if more:
            return DropView(names, if_exists)
        text = f"DROP VIEW IF EXISTS {quoted(view)}"
        return View(view, text, dropped=True, must_exist=not if_exists, or_kept=not temporary)
    if kind == "catalog" and not temporary:
        catalog = cursor.name()
        cursor.end()
        return DropCatalog(catalog, if_exists)
    if kind == "table":
        name = cursor.names()
        # Dropping a table deletes its files in any case.
        cursor.skip("purge")
        cursor.end()
        return DropTable(name, if_exists, temporary)
    if temporary:
        cursor.fail(f"DROP TEMPORARY {kind.upper()} is not supported", hint="DROP TEMPORARY TABLE or VIEW")
    database = cursor.name()
    cascade = cursor.skip_any("cascade", "restrict") == "cascade"
    cursor.end()
    return DropDatabase(database, if_exists, cascade)


def create_catalog(cursor: Cursor) -> CreateCatalog:
    """Read CREATE CATALOG."""
    cursor.expect("catalog")
    if_not_exists = cursor.skip("if", "not", "exists")
    name = cursor.name()
    cursor.expect("with")
    options = own_options(cursor, cursor.options())
    if "warehouse" not in options:
        cursor.fail("a catalog needs the option 'warehouse'")
    cursor.end()
    return CreateCatalog(name, if_not_exists, options)


def own_options(cursor: Cursor, options: dict[str, str]) -> dict[str, str]:
    """Return the options without the ones that name Paimon as the connector."""
    for key in ("connector", "type"):
        kind = options.pop(key, "paimon")
        if kind not in OURS:
            cursor.fail(
                f"{key} {kind!r} is not supported",
                hint=_OTHER_KINDS.get(kind, "leave it out: all tables are Paimon tables"),
            )
    return options
