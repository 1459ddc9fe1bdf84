"""The columns and the key of a table after ALTER TABLE."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.ingest.mysql.ddl import alter_changes
from penstock.ingest.mysql.ddl.column_definition import in_charset
from penstock.ingest.mysql.definition import TEXTS, MySqlColumn, MySqlType, TableDefinition
from penstock.ingest.mysql.server.charsets import charset_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.ingest.mysql.ddl.column_definition import ParsedColumn


def altered_columns(
    table: TableDefinition, changes: Sequence[alter_changes.Change], charset: str | None
) -> list[MySqlColumn]:
    """Return the columns after the statement, with the server's rules for clauses that refer to each other.

    All clauses refer to the columns before the statement, but positions to those after it. So two columns may swap
    their names in one statement, and AFTER may name a column added by the same statement.
    """
    known = {column.name.lower() for column in table.columns}
    dropped = {change.name.lower() for change in changes if isinstance(change, alter_changes.DropColumnClause)}
    renamed = {
        change.old.lower(): change.new for change in changes if isinstance(change, alter_changes.RenameColumnClause)
    }
    changed = {change.old.lower(): change for change in changes if isinstance(change, alter_changes.ChangeColumn)}
    optional = {old for old, change in changed.items() if change.if_exists}
    for name in (renamed.keys() | changed.keys()) - known - optional:
        raise KeyError(name)
    conversions = [change for change in changes if isinstance(change, alter_changes.SetCharset) and change.convert]
    columns: list[MySqlColumn] = []
    for column in table.columns:
        name = column.name.lower()
        if name in changed:
            # Columns with a position are inserted below, when all other columns have their final names.
            if changed[name].parsed.after is None:
                columns.append(column_in_table(changed[name].parsed, charset))
        elif name not in dropped:
            column = converted_column(column, conversions[-1].charset or charset) if conversions else column
            columns.append(replace(column, name=renamed.get(name, column.name)))
    for change in changes:
        match change:
            case alter_changes.AddColumnClause(parsed) if (
                # The server accepts the name of an existing column only with IF NOT EXISTS, and then adds nothing.
                parsed.column.name.lower() not in known - dropped - renamed.keys() - changed.keys()
            ):
                insert_column(columns, column_in_table(parsed, charset), parsed.after)
            case alter_changes.ChangeColumn(old, parsed) if parsed.after is not None and old.lower() in known:
                insert_column(columns, column_in_table(parsed, charset), parsed.after)
    return columns


def kept_key(table: TableDefinition, changes: Iterable[alter_changes.Change]) -> tuple[str, ...]:
    """Return the columns of the primary key under their new names, without dropped columns."""
    names = {part.lower(): part for part in table.primary_key}
    for change in changes:
        match change:
            case alter_changes.ChangeColumn(old, parsed) if old.lower() in names:
                names[old.lower()] = parsed.column.name
            case alter_changes.RenameColumnClause(old, new) if old.lower() in names:
                names[old.lower()] = new
            case alter_changes.DropColumnClause(name):
                names.pop(name.lower(), None)
    return tuple(names.values())


def column_in_table(parsed: ParsedColumn, charset: str | None) -> MySqlColumn:
    column = parsed.column
    return column if column.charset is not None else in_charset(column, charset)


def not_null(column: MySqlColumn, key: Iterable[str]) -> MySqlColumn:
    in_key = column.nullable and any(column.name.lower() == part.lower() for part in key)
    return replace(column, nullable=False) if in_key else column


def insert_column(columns: list[MySqlColumn], column: MySqlColumn, after: str | None) -> None:
    if after is None:
        columns.append(column)
        return
    names = [other.name.lower() for other in columns]
    if after and after.lower() not in names:
        raise KeyError(after)
    # An empty name is FIRST.
    columns.insert(names.index(after.lower()) + 1 if after else 0, column)


def renamed_column(change: alter_changes.Change, names: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the old and the new name if the clause renames a column, be it only in its letters' case.

    `names` are the table's column names by their lower-case form: a clause may write the old name in another case.
    """
    match change:
        case alter_changes.ChangeColumn(old, parsed) if old != parsed.column.name:
            return names.get(old.lower(), old), parsed.column.name
        case alter_changes.RenameColumnClause(old, new) if old != new:
            return names.get(old.lower(), old), new
    return None


def converted_column(column: MySqlColumn, charset: str | None) -> MySqlColumn:
    """Apply CONVERT TO CHARACTER SET: a TEXT type becomes the next larger one if its characters may need more bytes."""
    if column.charset is None:
        return column
    changed = in_charset(column, charset)
    old, new = charset_named(column.charset), charset_named(changed.charset or "")
    grows = old is not None and new is not None and new.bytes_per_character > old.bytes_per_character
    # As the server does: a text whose characters may need more bytes becomes the next larger type.
    if grows and column.type.base in TEXTS[:-1]:
        changed = replace(changed, type=MySqlType(TEXTS[TEXTS.index(column.type.base) + 1]))
    return changed
