"""The grammar of ALTER TABLE, in the dialects of Flink and Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.table.schema.changes import (
    AddColumn,
    DropColumn,
    Name,
    RenameColumn,
    ResetOption,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
)
from penstock.table.schema.type_text import written
from penstock.table.sql.grammar.catalog_grammar import NOT_KEPT
from penstock.table.sql.grammar.column_grammar import (
    is_clause_of_others,
    read_column,
    read_column_type,
    read_default,
    read_watermark,
    refuse_clause,
)
from penstock.table.sql.grammar.cursor import Cursor
from penstock.table.sql.grammar.database_grammar import alter_database, comment_on_database
from penstock.table.sql.grammar.statements import AlterDatabase, Statement
from penstock.table.sql.grammar.table_statements import (
    AlterTable,
    DropPartitions,
    DropWatermark,
    ModifyColumn,
    RenameTable,
    SetWatermark,
    TableChange,
)
from penstock.table.sql.grammar.tag_grammar import alter_tag
from penstock.table.sql.grammar.view_grammar import alter_view

Changes = list[TableChange]
# What to write instead of clauses of other engines.
_INSTEAD = {
    "compact": "CALL sys.compact('db.t')",
    "cluster": "CALL sys.compact(table => 'db.t', order_strategy => 'zorder', order_by => 'a,b')",
    "create": "CREATE TAG 'x'; CALL sys.create_branch('db.t', 'b')",
    "recover": "leave the statement out: partitions are found without it",
    "partition": "INSERT OVERWRITE t PARTITION (...) writes the rows of a partition; CALL sys.compact compacts it",
    "replace": "REPLACE TAG 'x'; columns are changed by ADD, DROP, RENAME and MODIFY",
}
_RENAMED = "ALTER TABLE t RENAME a TO b, and ALTER TABLE t MODIFY b BIGINT"


def alter(cursor: Cursor) -> Statement:
    """Read ALTER."""
    cursor.expect("alter")
    if cursor.skip_any("database", "schema", "namespace"):
        return alter_database(cursor)
    if cursor.skip("view"):
        return alter_view(cursor)
    if not cursor.skip("table"):
        cursor.fail(
            f"ALTER {cursor.word().upper()} is not supported",
            hint=NOT_KEPT.get(cursor.word(), "ALTER TABLE, ALTER VIEW or ALTER DATABASE"),
        )
    if_exists = cursor.skip("if", "exists")
    name = cursor.names()
    if cursor.skip("rename", "to"):
        new_name = cursor.names()
        cursor.end()
        return RenameTable(name, if_exists, new_name)
    tag = alter_tag(cursor, name)
    if tag is not None:
        return tag
    # `DROP PARTITION (...)`, or `DROP IF EXISTS PARTITION (...)`.
    if cursor.word() == "drop" and "partition" in {cursor.word(1), cursor.word(3)}:
        return _drop_partitions(cursor, name)
    changes = _changes(cursor)
    cursor.end()
    return AlterTable(name, if_exists, tuple(changes))


def comment(cursor: Cursor) -> AlterTable | AlterDatabase:
    """Read COMMENT ON DATABASE d IS 'x', COMMENT ON TABLE t and COMMENT ON COLUMN t.c; NULL removes a comment."""
    cursor.expect("comment")
    kinds = ("table", "column", "database", "schema", "namespace")
    kind = cursor.skip_any(*kinds) if cursor.skip("on") else None
    if kind is None:
        cursor.fail("COMMENT ON DATABASE, TABLE or COLUMN is expected", hint="other objects have no comments")
    if kind not in kinds[:2]:
        return comment_on_database(cursor)
    names = cursor.names()
    if kind == "column" and len(names) == 1:
        cursor.fail("a column is expected after the name of its table", hint="COMMENT ON COLUMN t.c IS 'x'")
    cursor.expect("is")
    text = None if cursor.skip("null") else cursor.string()
    cursor.end()
    if kind == "table":
        return AlterTable(names, False, (UpdateComment(text),))  # noqa: FBT003 -- the table must exist
    return AlterTable(names[:-1], False, (UpdateColumnComment(names[-1], text),))  # noqa: FBT003


def _changes(cursor: Cursor) -> Changes:
    verb = cursor.skip_any("set", "reset", "unset", "rename", "add", "modify", "drop", "alter", "change", "comment")
    if verb in {"add", "modify", "drop"} and cursor.word() in {"partition", "constraint", "primary"}:
        hints = {"partition": "rows create their partition"}
        noun = cursor.word()
        cursor.fail(f"{str(verb).upper()} {noun.upper()} is not supported", hint=hints.get(noun, "create a new table"))
    if verb in {"add", "modify"} and cursor.word() in {"watermark", "("}:
        watermark = _set_watermark(cursor, adds=verb == "add")
        if watermark is not None:
            return [watermark]
    if verb == "drop" and cursor.skip("watermark"):
        return [DropWatermark()]
    match verb:
        case "set":
            return _set(cursor)
        case "reset" | "unset":
            return _reset(cursor)
        case "comment":
            return [UpdateComment(cursor.string())]
        case "rename":
            cursor.skip("column")
            column = _column_name(cursor)
            cursor.expect("to")
            return [RenameColumn(column, cursor.name())]
        case "add":
            return list(_listed(cursor, _added))
        case "modify":
            return list(_listed(cursor, _modified))
        case "drop":
            return list(_listed(cursor, lambda column: DropColumn(_column_name(column))))
        case "alter" | "change":
            cursor.skip("column")
            return _altered(cursor)
    hint = _INSTEAD.get(cursor.word())
    raise cursor.error("SET, RESET, ADD, DROP, RENAME, MODIFY or ALTER COLUMN is expected", hint)


def _set(cursor: Cursor) -> Changes:
    if cursor.skip("comment"):
        return [UpdateComment(cursor.string())]
    cursor.skip("tblproperties")
    if cursor.word() == "location":
        cursor.fail("the location of a table cannot be changed", hint="create another table, or  penstock clone")
    # In Flink and Spark the option `comment` is the comment of the table.
    return [
        UpdateComment(value) if key == "comment" else SetOption(key, value) for key, value in cursor.options().items()
    ]


def _reset(cursor: Cursor) -> Changes:
    if cursor.skip("comment"):
        return [UpdateComment(None)]
    cursor.skip("tblproperties")
    if_exists = cursor.skip("if", "exists")
    return [UpdateComment(None) if key == "comment" else ResetOption(key, if_exists) for key in cursor.key_list()]


def _listed(
    cursor: Cursor, read: Callable[[Cursor], SchemaChange | ModifyColumn]
) -> Iterator[SchemaChange | ModifyColumn]:
    """Yield the changes of `ADD COLUMN c INT`, `ADD (c INT, d INT)` and `DROP COLUMNS (c, d)`."""
    cursor.skip_any("column", "columns")
    if cursor.skip("if", "exists") or cursor.skip("if", "not", "exists"):
        cursor.fail(
            "IF EXISTS and IF NOT EXISTS of columns are not supported", hint="DESCRIBE shows the columns of the table"
        )
    brackets = cursor.skip("(")
    while True:
        yield read(cursor)
        if not cursor.skip(","):
            break
    if brackets:
        cursor.expect(")")


def _set_watermark(cursor: Cursor, *, adds: bool) -> SetWatermark | None:
    """Read `WATERMARK FOR ts AS ts`, in brackets or without; None if something else is next."""
    begin = cursor.mark
    brackets = cursor.skip("(")
    if (cursor.word(), cursor.word(1)) != ("watermark", "for"):
        cursor.back_to(begin)
        return None
    column, expression = read_watermark(cursor)
    if brackets:
        cursor.expect(")")
    return SetWatermark(column, expression, adds)


def _column_name(cursor: Cursor) -> Name:
    names = cursor.names()
    return names[0] if len(names) == 1 else names


def _added(cursor: Cursor) -> SchemaChange:
    added = read_column(cursor, nested=True)
    column, place = added.field, added.place
    if added.is_key or column.default is not None:
        addition = "a primary key" if added.is_key else "a default"
        cursor.fail(
            f"{addition} cannot be added with a column", hint="ALTER COLUMN c SET DEFAULT; or create a new table"
        )
    return AddColumn(column.name, written(column.type), column.description, place.first, place.after)


def _modified(cursor: Cursor) -> ModifyColumn:
    modified = read_column(cursor, nested=True)
    column, place = modified.field, modified.place
    if modified.is_key:
        cursor.fail("a primary key cannot be added to a table", hint="create a new table")
    name = tuple(column.name.split("."))
    return ModifyColumn(
        name, column.type, column.description, column.default, place.first, place.after, modified.says_null
    )


def _altered(cursor: Cursor) -> Changes:
    """Read Spark's `ALTER COLUMN c TYPE BIGINT`, `... COMMENT 'x'`, `... FIRST`, `... SET NOT NULL` and the like."""
    name = _column_name(cursor)
    changes: Changes = []
    while not cursor.at_end:
        changes.append(_altered_part(cursor, name))
    return changes or cursor.fail("TYPE, COMMENT, FIRST, AFTER, SET or DROP is expected")


def _altered_part(cursor: Cursor, name: Name) -> SchemaChange:
    if cursor.skip("type") or cursor.skip("set", "data", "type"):
        # Spark's TYPE clause does not state whether the column may be null.
        changed = UpdateColumnType(name, written(read_column_type(cursor)), keep_nullability=True)
        if is_clause_of_others(cursor):
            refuse_clause(cursor)
        return changed
    if cursor.skip("comment"):
        return UpdateColumnComment(name, cursor.string())
    if cursor.skip("set", "not", "null"):
        return UpdateColumnNullability(name, nullable=False)
    if cursor.skip("drop", "not", "null"):
        return UpdateColumnNullability(name, nullable=True)
    if cursor.skip("set", "default"):
        return UpdateColumnDefault(name, read_default(cursor))
    if cursor.skip("drop", "default"):
        return UpdateColumnDefault(name, None)
    if isinstance(name, str) and cursor.skip("first"):
        return UpdateColumnPosition(name, first=True)
    if isinstance(name, str) and cursor.skip("after"):
        return UpdateColumnPosition(name, after=cursor.name())
    raise cursor.error("TYPE, COMMENT, FIRST, AFTER, SET or DROP is expected", hint=_RENAMED)


def _drop_partitions(cursor: Cursor, name: tuple[str, ...]) -> DropPartitions:
    cursor.expect("drop")
    must_exist = not cursor.skip("if", "exists")
    partitions = []
    while True:
        cursor.expect("partition")
        partitions.append(cursor.partition())
        if not cursor.skip(","):
            break
    cursor.end()
    return DropPartitions(name, tuple(partitions), must_exist)
