"""The grammar of CREATE DATABASE, ALTER DATABASE and COMMENT ON DATABASE; SCHEMA and NAMESPACE are the same."""

from __future__ import annotations

from penstock.table.sql.grammar.cursor import Cursor
from penstock.table.sql.grammar.statements import AlterDatabase, CreateDatabase

_PROPERTIES = ("dbproperties", "properties")


def create_database(cursor: Cursor) -> CreateDatabase:
    """Read CREATE DATABASE."""
    cursor.skip_any("database", "schema")
    if_not_exists = cursor.skip("if", "not", "exists")
    name = cursor.name()
    properties: dict[str, str] = {}
    while not cursor.at_end:
        if cursor.skip("comment"):
            properties["comment"] = cursor.string()
        elif cursor.skip("with") or cursor.skip_any("dbproperties") or cursor.skip("properties"):
            cursor.skip_any("dbproperties")
            properties |= cursor.options()
        else:
            cursor.fail("COMMENT or WITH is expected", hint="the catalog chooses the location of a database")
    return CreateDatabase(name, if_not_exists, properties)


def alter_database(cursor: Cursor) -> AlterDatabase:
    """Read what follows ALTER DATABASE: `d SET ('a' = 'x')` of Flink, `d SET DBPROPERTIES (...)` of Spark, UNSET."""
    name = _database(cursor)
    verb = cursor.skip_any("set", "unset", "reset")
    if verb is None:
        cursor.fail("SET or UNSET is expected", hint="ALTER DATABASE d SET ('key' = 'value')")
    if cursor.word() in {"location", "managedlocation", "owner"}:
        hint = "create another database, and  ALTER TABLE ... RENAME TO  moves tables to it"
        cursor.fail(f"the {cursor.word()} of a database cannot be changed", hint=hint)
    cursor.skip_any(*_PROPERTIES)
    changes: dict[str, str | None] = {}
    if verb == "set":
        changes |= cursor.options()
    else:
        cursor.skip("if", "exists")
        changes |= dict.fromkeys(cursor.key_list())
    cursor.end()
    return AlterDatabase(name, changes)


def comment_on_database(cursor: Cursor) -> AlterDatabase:
    """Read what follows COMMENT ON DATABASE: `d IS 'x'`; NULL removes the comment."""
    name = _database(cursor)
    cursor.expect("is")
    text = None if cursor.skip("null") else cursor.string()
    cursor.end()
    return AlterDatabase(name, {"comment": text})


def _database(cursor: Cursor) -> str:
    (name, *more) = cursor.names()
    if more:
        cursor.fail("a database of the current catalog is expected", hint=f"USE CATALOG {name} first")
    return name
