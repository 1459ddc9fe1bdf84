"""Table definitions updated by DDL, statement by statement, with the same result as on the server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from penstock.ingest.mysql.ddl import alter_changes
from penstock.ingest.mysql.ddl import statements as ddl
from penstock.ingest.mysql.ddl.column_changes import (
    altered_columns,
    column_in_table,
    kept_key,
    not_null,
    renamed_column,
)
from penstock.ingest.mysql.ddl.kept_values import rewritten_columns
from penstock.ingest.mysql.definition import TableDefinition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


Name = tuple[str, str]
Kind = Literal["create", "alter", "rename", "swap", "drop", "truncate", "rows-moved", "unclear", "left-out"]


@dataclass(frozen=True, slots=True)
class TableChange:
    """The effect of a statement on one table. `definition` is valid from here on; None if dropped or unknown.

    `rename`: `old_name` became `name`. `swap`: `name` is now another table, prepared under `old_name` (as online schema
    change tools do). `rows-moved`: rows were added or removed without being logged, `detail` says how, `brings_rows`
    that some were added, and `removes_rows` that some were removed. `unclear`: the text was not understood, `detail`
    says why, and the definition has to be looked up. `left-out`: `detail` says why the table's rows cannot be captured.
    `filled_columns` were added with a value in rows that existed, and the values of `rewritten_columns` in these rows
    may be others than before.
    """

    kind: Kind
    name: Name
    definition: TableDefinition | None = None
    old_name: Name | None = None
    renamed_columns: tuple[tuple[str, str], ...] = ()
    detail: str = ""
    brings_rows: bool = False
    removes_rows: bool = False
    filled_columns: tuple[str, ...] = ()
    rewritten_columns: tuple[str, ...] = ()

    @property
    def rewrites_key(self) -> bool:
        """Return whether rows may have other keys than before."""
        return self.definition is not None and any(map(self.definition.has_in_key, self.rewritten_columns))


class Tables:
    """The definitions by table name, at one position of the binlog."""

    def __init__(
        self,
        charsets: Mapping[str, str] | None = None,
        spelled: Collection[str] = (),
    ) -> None:
        """Create the definitions; `charsets` are the default character sets of the databases.

        Values of the types `spelled` are texts with the digits of their type.
        """
        self.spelled = spelled
        self.known: dict[Name, TableDefinition] = {}
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
            case ddl.Unreadable():
                return []

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
        columns = tuple(not_null(column_in_table(parsed, charset), key) for parsed in statement.columns)
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
        # The names before the statement: each pair changes `known` for the pairs after it.
        before = set(self.known)
        changes: list[TableChange] = []
        for old, new in statement.pairs:
            definition = self.known.pop(old, None)
            self.known.pop(new, None)
            if definition is not None:
                definition = self.known[new] = replace(definition, database=new[0], table=new[1])
            # RENAME TABLE t TO t_old, t_new TO t: the name exists before and after, and has other rows.
            swapped = new in before and old != new
            changes.append(TableChange("swap" if swapped else "rename", new, definition, old))
        return changes

    def _alter(self, statement: ddl.AlterTableStatement) -> list[TableChange]:
        table = self.known.get(statement.name)
        moves = [change for change in statement.changes if isinstance(change, alter_changes.RowsMoved)]
        moved = [change for move in moves for change in self._moved(statement.name, move)]
        if len(moves) == len(statement.changes):
            return moved
        versioning = [change.kept for change in statement.changes if isinstance(change, alter_changes.KeepHistory)]
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
        renamed = tuple(renamed_column(change, names) for change in statement.changes)
        pairs = tuple(pair for pair in renamed if pair is not None)
        added = [change.parsed for change in statement.changes if isinstance(change, alter_changes.AddColumnClause)]
        filled = tuple(parsed.column.name for parsed in added if parsed.is_filled)
        rewritten = rewritten_columns(
            table, altered, statement.changes, is_strict=statement.is_strict, spelled=self.spelled
        )
        return [
            *moved,
            TableChange(
                "alter",
                statement.name,
                altered,
                renamed_columns=pairs,
                filled_columns=filled,
                rewritten_columns=rewritten,
            ),
        ]

    def rewrites_key(self, statement: ddl.AlterTableStatement) -> bool:
        """Return whether the statement, which is not applied yet, may give rows other keys."""
        table = self.known.get(statement.name)
        if table is None or not table.primary_key:
            return False
        try:
            altered = self._altered(table, statement.changes)
        except KeyError:  # the definition is unclear from there on
            return False
        columns = rewritten_columns(
            table, altered, statement.changes, is_strict=statement.is_strict, spelled=self.spelled
        )
        return any(map(altered.has_in_key, columns))

    def _moved(self, name: Name, move: alter_changes.RowsMoved) -> list[TableChange]:
        table, other = self.known.get(name), move.other
        changes = [
            TableChange(
                "rows-moved",
                name,
                table,
                detail=move.action,
                brings_rows=move.brings_rows,
                removes_rows=move.removes_rows,
            )
        ]
        if other is None:
            return changes
        if move.becomes == "gone":
            return [*changes, self._drop(other)]
        if move.becomes == "made":
            if table is not None:
                self.known[other] = replace(table, database=other[0], table=other[1])
            made = self.known.get(other)
            changes.append(
                TableChange("create" if made else "unclear", other, made, detail="" if made else move.action)
            )
        is_exchanged = move.becomes == "exchanged"
        there = self.known.get(other)
        return [
            *changes,
            TableChange("rows-moved", other, there, detail=move.action, brings_rows=True, removes_rows=is_exchanged),
        ]

    def _altered(self, table: TableDefinition, changes: Sequence[alter_changes.Change]) -> TableDefinition:
        charset, comment, key = table.default_charset, table.comment, kept_key(table, changes)
        for change in changes:
            match change:
                case alter_changes.SetPrimaryKey(names):
                    key = names
                case alter_changes.SetCharset(name):
                    charset = name or self.charsets.get(table.database)
                case alter_changes.SetComment(text):
                    comment = text
        columns = altered_columns(table, changes, charset)
        spelled = {column.name.lower(): column.name for column in columns}
        # A clause may name a key column in another case than the column has.
        key = tuple(spelled.get(part.lower(), part) for part in key)
        whole = tuple(not_null(column, key) for column in columns)
        return replace(table, columns=whole, primary_key=key, comment=comment, default_charset=charset)
