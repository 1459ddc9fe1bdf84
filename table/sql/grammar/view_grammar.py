"""The grammar of CREATE VIEW and ALTER VIEW of views that the catalog keeps, in the dialects of Flink and Spark."""

from __future__ import annotations

from penstock.table.sql.grammar.cursor import Cursor
from penstock.table.sql.grammar.table_statements import CreateView, RenameView


def create_view(cursor: Cursor, *, replaced: bool) -> CreateView:
    """Read CREATE VIEW from its last word on."""
    cursor.expect("view")
    if replaced and cursor.word() == "if":
        cursor.fail("IF NOT EXISTS contradicts REPLACE")
    if_not_exists = cursor.skip("if", "not", "exists")
    name = cursor.names()
    columns = _columns(cursor) if cursor.skip("(") else ()
    comment, options = None, dict[str, str]()
    # In any order, as Spark does.
    while not cursor.skip("as"):
        match cursor.skip_any("comment", "tblproperties"):
            case "comment":
                comment = cursor.string()
            case "tblproperties":
                options |= cursor.options()
            case _:
                cursor.fail("COMMENT, TBLPROPERTIES or AS is expected", hint="CREATE VIEW db.v (a, b) AS SELECT ...")
    return CreateView(name, _query(cursor), columns, comment, options, if_not_exists, "any" if replaced else None)


def alter_view(cursor: Cursor) -> CreateView | RenameView:
    """Read ALTER VIEW from its name on."""
    if_exists = cursor.skip("if", "exists")
    name = cursor.names()
    if cursor.skip("rename", "to"):
        new_name = cursor.names()
        cursor.end()
        return RenameView(name, if_exists, new_name)
    if if_exists or not cursor.skip("as"):
        cursor.fail(
            "ALTER VIEW is followed by RENAME TO or AS", hint="CREATE OR REPLACE VIEW  changes columns and comments"
        )
    return CreateView(name, _query(cursor), replaces="existing")


def _columns(cursor: Cursor) -> tuple[tuple[str, str | None], ...]:
    columns = []
    while True:
        name = cursor.name()
        columns.append((name, cursor.string() if cursor.skip("comment") else None))
        if not cursor.skip(","):
            break
    cursor.expect(")")
    return tuple(columns)


def _query(cursor: Cursor) -> str:
    if cursor.word() not in {"select", "with", "values", "from", "("}:
        cursor.fail("a query is expected")
    return cursor.rest()
