"""Table definitions updated by DDL, statement by statement, with the same result as on the server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from penstock.ingest.mysql.ddl import alter
from penstock.ingest.mysql.ddl import statements as ddl
from penstock.ingest.mysql.ddl.words import in_charset
from penstock.ingest.mysql.definition import TEXTS, MySqlColumn, MySqlType, TableDefinition
from penstock.ingest.mysql.server.charsets import charset_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.ingest.mysql.ddl.words import ParsedColumn

Name = tuple[str, str]
Kind = Literal["create", "alter", "rename", "swap", "drop", "truncate", "rows-moved", "unclear", "left-out"]


@dataclass(frozen=True, slots=True)
class TableChange:
    """The effect of a statement on one table. `definition` is valid from here on; None if dropped or unknown.

    `rename`: `old_name` became `name`. `swap`: `name` is now another table, prepared under `old_name` (as online schema
    change tools do). `rows-moved`: rows were added or removed without being logged, `detail` says how, and
    `brings_rows` that some were added. `unclear`: the text was not understood, `detail` says why, and the definition
    has to be looked up. `left-out`: `detail` says why the table's rows cannot be captured.
    """

    kind: Kind
    name: Name
    definition: TableDefinition | None = None
    old_name: Name | None = None
    renamed_columns: tuple[tuple[str, str], ...] = ()
    detail: str = ""
    brings_rows: bool = False


class Tables:
    """The definitions by table name, at one position of the binlog."""

    def __init__(self, known: Iterable[TableDefinition] = (), charsets: Mapping[str, str] | None = None) -> None:
        """Create the definitions; `charsets` are the default character sets of the databases."""
        self.known: dict[Name, TableDefinition] = {table.name: table for table in known}
        self.charsets = dict(charsets or {})

    def apply(self, statement: ddl.Statement) -> list[TableChange]:
        """Apply a statement to the definitions and return its effects on tables."""
        match statement:
            case ddl.CreateTableStatement():
                return self._create(statement)
            case ddl.AlterTableStatement():
                return self._alter(statement)
            case ddl.RenameTablesStatement():
                return self._rename(statement)
            case ddl.DropTablesStatement(names):
                return [self._drop(name) for name in names]
            case ddl.TruncateTableStatement(name):
                return [TableChange("truncate", name, self.known.get(name))]
            case ddl.DropDatabaseStatement(database):
                gone = [name for name in self.known if name[0] == database]
                self.charsets.pop(database, None)
                return [self._drop(name) for name in gone]
            case ddl.DatabaseCharset(database, charset):
                self.charsets[database] = charset
                return []
            case ddl.Unclear(name, reason):
                self.known.pop(name, None)
                return [TableChange("unclear", name, detail=reason)]

    def _create(self, statement: ddl.CreateTableStatement) -> list[TableChange]:
        name = statement.name
        if statement.keep_existing and name in self.known:
            return []
        if statement.left_out:
            self.known.pop(name, None)
            return [TableChange("left-out", name, detail=statement.left_out)]
        if statement.like is not None:
            model = self.known.get(statement.like)
            if model is None:
                return self._lost(name, f"created like {'.'.join(statement.like)}, which is unknown")
            self.known[name] = replace(model, database=name[0], table=name[1])
            return [TableChange("create", name, self.known[name])]
        if statement.columns is None:
            return self._lost(name, "its columns are not in the statement")
        charset = statement.charset or self.charsets.get(name[0])
        key = statement.primary_key
        columns = tuple(_not_null(_in_table(parsed, charset), key) for parsed in statement.columns)
        names = {column.name.lower(): column.name for column in columns}
        key = tuple(names.get(part.lower(), part) for part in key)
        self.known[name] = TableDefinition(name[0], name[1], columns, key, statement.comment, charset)
        return [TableChange("create", name, self.known[name])]

    def _lost(self, name: Name, reason: str) -> list[TableChange]:
        self.known.pop(name, None)
        return [TableChange("unclear", name, detail=reason)]

    def _drop(self, name: Name) -> TableChange:
        self.known.pop(name, None)
        return TableChange("drop", name)

    def _rename(self, statement: ddl.RenameTablesStatement) -> list[TableChange]:
        before = set(self.known)
        changes: list[TableChange] = []
        for old, new in statement.pairs:
            definition = self.known.pop(old, None)
            self.known.pop(new, None)
            if definition is not None:
                definition = self.known[new] = replace(definition, database=new[0], table=new[1])
            swapped = new in before and old != new
            changes.append(TableChange("swap" if swapped else "rename", new, definition, old))
        return changes

    def _alter(self, statement: ddl.AlterTableStatement) -> list[TableChange]:
        table = self.known.get(statement.name)
        moves = [change for change in statement.changes if isinstance(change, alter.RowsMoved)]
        moved = [change for move in moves for change in self._moved(statement.name, move)]
        if len(moves) == len(statement.changes):
            return moved
        versioning = [change.kept for change in statement.changes if isinstance(change, alter.KeepHistory)]
        if versioning:
            self.known.pop(statement.name, None)
            reason = "its system versioning was dropped"
            return [
                TableChange("left-out", statement.name, table, detail=ddl.SYSTEM_VERSIONED)
                if versioning[-1]
                else TableChange("unclear", statement.name, detail=reason)
            ]
        if table is None:
            return [*moved, TableChange("unclear", statement.name, detail="altered while its definition is unknown")]
        try:
            altered = self._altered(table, statement.changes)
        except KeyError as missing:
            return [*moved, *self._lost(statement.name, f"the table has no column {missing}")]
        self.known[statement.name] = altered
        names = {column.name.lower(): column.name for column in table.columns}
        renamed = tuple(_renamed(change, names) for change in statement.changes)
        pairs = tuple(pair for pair in renamed if pair is not None)
        return [*moved, TableChange("alter", statement.name, altered, renamed_columns=pairs)]

    def _moved(self, name: Name, move: alter.RowsMoved) -> list[TableChange]:
        table, other = self.known.get(name), move.other
        found = [TableChange("rows-moved", name, table, detail=move.what, brings_rows=move.brings_rows)]
        if other is None:
            return found
        if move.becomes == "gone":
            return [*found, self._drop(other)]
        if move.becomes == "made":
            if table is not None:
                self.known[other] = replace(table, database=other[0], table=other[1])
            made = self.known.get(other)
            found.append(TableChange("create" if made else "unclear", other, made, detail="" if made else move.what))
        return [*found, TableChange("rows-moved", other, self.known.get(other), detail=move.what, brings_rows=True)]

    def _altered(self, table: TableDefinition, changes: Sequence[alter.Change]) -> TableDefinition:
        charset, comment, key = table.default_charset, table.comment, _kept_key(table, changes)
        for change in changes:
            match change:
                case alter.SetPrimaryKey(names):
                    key = names
                case alter.SetCharset(name):
                    charset = name or self.charsets.get(table.database)
                case alter.SetComment(text):
                    comment = text
        columns = _altered_columns(table, changes, charset)
        spelled = {column.name.lower(): column.name for column in columns}
        key = tuple(spelled.get(part.lower(), part) for part in key)
        whole = tuple(_not_null(column, key) for column in columns)
        return replace(table, columns=whole, primary_key=key, comment=comment, default_charset=charset)


def _altered_columns(table: TableDefinition, changes: Sequence[alter.Change], charset: str | None) -> list[MySqlColumn]:
    """Return the columns after the statement, with the server's rules for clauses that refer to each other.

    All clauses refer to the columns before the statement, but positions to those after it. So two columns may swap
    their names in one statement, and AFTER may name a column added by the same statement.
    """
    known = {column.name.lower() for column in table.columns}
    dropped = {change.name.lower() for change in changes if isinstance(change, alter.DropColumnClause)}
    renamed = {change.old.lower(): change.new for change in changes if isinstance(change, alter.RenameColumnClause)}
    changed = {change.old.lower(): change for change in changes if isinstance(change, alter.ChangeColumn)}
    optional = {old for old, change in changed.items() if change.if_exists}
    for name in (renamed.keys() | changed.keys()) - known - optional:
        raise KeyError(name)
    conversions = [change for change in changes if isinstance(change, alter.SetCharset) and change.convert]
    columns: list[MySqlColumn] = []
    for column in table.columns:
        name = column.name.lower()
        if name in changed:
            if changed[name].parsed.after is None:
                columns.append(_in_table(changed[name].parsed, charset))
        elif name not in dropped:
            column = _converted(column, conversions[-1].charset or charset) if conversions else column
            columns.append(replace(column, name=renamed.get(name, column.name)))
    for change in changes:
        match change:
            case alter.AddColumnClause(parsed) if (
                parsed.column.name.lower() not in known - dropped - renamed.keys() - changed.keys()
            ):
                _insert(columns, _in_table(parsed, charset), parsed.after)
            case alter.ChangeColumn(old, parsed) if parsed.after is not None and old.lower() in known:
                _insert(columns, _in_table(parsed, charset), parsed.after)
    return columns


def _kept_key(table: TableDefinition, changes: Iterable[alter.Change]) -> tuple[str, ...]:
    """Return the columns of the primary key under their new names, without dropped columns."""
    names = {part.lower(): part for part in table.primary_key}
    for change in changes:
        match change:
            case alter.ChangeColumn(old, parsed) if old.lower() in names:
                names[old.lower()] = parsed.column.name
            case alter.RenameColumnClause(old, new) if old.lower() in names:
                names[old.lower()] = new
            case alter.DropColumnClause(name):
                names.pop(name.lower(), None)
    return tuple(names.values())


def _in_table(parsed: ParsedColumn, charset: str | None) -> MySqlColumn:
    column = parsed.column
    return column if column.charset is not None else in_charset(column, charset)


def _not_null(column: MySqlColumn, key: Iterable[str]) -> MySqlColumn:
    in_key = column.nullable and any(column.name.lower() == part.lower() for part in key)
    return replace(column, nullable=False) if in_key else column


def _insert(columns: list[MySqlColumn], column: MySqlColumn, after: str | None) -> None:
    if after is None:
        columns.append(column)
        return
    names = [other.name.lower() for other in columns]
    if after and after.lower() not in names:
        raise KeyError(after)
    columns.insert(names.index(after.lower()) + 1 if after else 0, column)


def _renamed(change: alter.Change, names: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the old and the new name if the clause renames a column, be it only in its letters' case.

    `names` are the table's column names by their lower-case form: a clause may write the old name in another case.
    """
    match change:
        case alter.ChangeColumn(old, parsed) if old != parsed.column.name:
            return names.get(old.lower(), old), parsed.column.name
        case alter.RenameColumnClause(old, new) if old != new:
            return names.get(old.lower(), old), new
    return None


def _converted(column: MySqlColumn, charset: str | None) -> MySqlColumn:
    """Apply CONVERT TO CHARACTER SET: a TEXT type becomes the next larger one if its characters may need more bytes."""
    if column.charset is None:
        return column
    changed = in_charset(column, charset)
    old, new = charset_named(column.charset), charset_named(changed.charset or "")
    grows = old is not None and new is not None and new.bytes_per_character > old.bytes_per_character
    if grows and column.type.base in TEXTS[:-1]:
        changed = replace(changed, type=MySqlType(TEXTS[TEXTS.index(column.type.base) + 1]))
    return changed
