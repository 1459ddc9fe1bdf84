"""The grammar of tags, as Paimon's extension of Spark has it: `ALTER TABLE t CREATE TAG 'x' AS OF VERSION 3`."""

from __future__ import annotations

from typing import TypeVar

from penstock.table.sql.grammar.cursor import Cursor
from penstock.table.sql.grammar.row_statements import Names
from penstock.table.sql.grammar.table_statements import CreateTag, DeleteTag, RenameTag

_UNITS = ("day", "days", "hour", "hours", "minute", "minutes")
_Statement = TypeVar("_Statement", CreateTag, DeleteTag, RenameTag)


def alter_tag(cursor: Cursor, table: Names) -> CreateTag | DeleteTag | RenameTag | None:
    """Read what follows the name of the table if it is about a tag; else read nothing."""
    if cursor.skip("create", "or", "replace", "tag"):
        return _create(cursor, table, creates=True, replaces=True)
    if cursor.skip("replace", "tag"):
        return _create(cursor, table, creates=False, replaces=True)
    if cursor.skip("create", "tag"):
        return _create(cursor, table, creates=True, replaces=False)
    if cursor.skip("delete", "tag"):
        if_exists = cursor.skip("if", "exists")
        return _ended(cursor, DeleteTag(table, _tag(cursor), if_exists))
    if cursor.word() in {"drop", "delete"} and cursor.word(1) == "branch" and cursor.word(2) not in {"", ","}:
        cursor.fail("branches are not dropped by ALTER TABLE", hint="CALL sys.delete_branch('db.t', 'b')")
    # `DROP tag` drops a column of this name, and `RENAME tag TO x` renames it.
    if cursor.word() == "drop" and cursor.word(1) == "tag" and cursor.word(2) not in {"", ","}:
        cursor.fail("DROP TAG is not supported", hint="ALTER TABLE t DELETE TAG 'x'")
    if (cursor.word(2) != "to" or cursor.word(3) == "to") and cursor.skip("rename", "tag"):
        tag = _tag(cursor)
        cursor.expect("to")
        return _ended(cursor, RenameTag(table, tag, _tag(cursor)))
    return None


def _create(cursor: Cursor, table: Names, *, creates: bool, replaces: bool) -> CreateTag:
    if_not_exists = not replaces and cursor.skip("if", "not", "exists")
    tag = _tag(cursor)
    snapshot = int(_number(cursor)) if cursor.skip("as", "of", "version") else None
    retained = f"{_number(cursor)} {_unit(cursor)}" if cursor.skip("retain") else None
    return _ended(cursor, CreateTag(table, tag, snapshot, retained, creates, replaces, if_not_exists))


def _ended(cursor: Cursor, statement: _Statement) -> _Statement:
    cursor.end()
    return statement


def _tag(cursor: Cursor) -> str:
    if cursor.kind() == "string":
        return cursor.string()
    return _number(cursor) if cursor.word()[:1].isdecimal() else cursor.name()


def _number(cursor: Cursor) -> str:
    text = cursor.word()
    if not text.isdecimal():
        cursor.fail("a whole number is expected")
    cursor.skip(text)
    return text


def _unit(cursor: Cursor) -> str:
    unit = cursor.skip_any(*_UNITS)
    if unit is None:
        cursor.fail("a unit is expected", hint="RETAIN 7 DAYS, HOURS or MINUTES")
    return unit.removesuffix("s")
