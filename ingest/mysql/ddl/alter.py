"""The clauses of ALTER TABLE that change columns, key or rows; all other clauses are skipped up to their comma."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.ingest.mysql.ddl.words import NotUnderstood, ParsedColumn, Words, column_definition, parts, primary_key

Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class AddColumnClause:
    parsed: ParsedColumn


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """MODIFY and CHANGE: `old` is replaced by the parsed column, at the same place unless a position is given."""

    old: str
    parsed: ParsedColumn
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumnClause:
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class DropColumnClause:
    name: str


@dataclass(frozen=True, slots=True)
class SetPrimaryKey:
    """A new primary key; empty if the key is dropped."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetCharset:
    """The table's default charset; with `convert` also the charset of its columns. None is the database's default."""

    charset: str | None
    convert: bool = False


@dataclass(frozen=True, slots=True)
class SetComment:
    comment: str | None


@dataclass(frozen=True, slots=True)
class RowsMoved:
    """Rows move without being logged: partitions dropped, truncated, exchanged; tablespaces imported; duplicates lost.

    `other` is the table on the other side: rows are `exchanged` with it, it is `made` from them, or is `gone` because
    its rows moved into this table.
    """

    what: str
    other: Name | None = None
    becomes: Literal["exchanged", "made", "gone"] = "exchanged"

    @property
    def brings_rows(self) -> bool:
        return self.what.startswith(("EXCHANGE", "IMPORT", "CONVERT TABLE"))

    @property
    def removes_rows(self) -> bool:
        """Return whether rows leave this table, or may be others than before."""
        return self.what != "CONVERT TABLE"


@dataclass(frozen=True, slots=True)
class KeepHistory:
    """ADD SYSTEM VERSIONING, or DROP SYSTEM VERSIONING."""

    kept: bool


Change = (
    KeepHistory
    | AddColumnClause
    | ChangeColumn
    | RenameColumnClause
    | DropColumnClause
    | SetPrimaryKey
    | SetCharset
    | SetComment
    | RowsMoved
)
# Words that begin something other than a column after ADD or DROP.
_NOT_A_COLUMN = frozenset(
    {
        "INDEX",
        "KEY",
        "UNIQUE",
        "FULLTEXT",
        "SPATIAL",
        "CONSTRAINT",
        "PRIMARY",
        "FOREIGN",
        "CHECK",
        "PERIOD",
        "PARTITION",
    }
    | {"SYSTEM"}
)


def parse_changes(words: Words, table: Name, *, mariadb: bool) -> tuple[list[Change], Name | None]:
    """Return the changes in the order written, and the new table name if there is one."""
    changes: list[Change] = []
    renamed: Name | None = None
    for part in parts(words.tokens):
        clause = _Clause(words.part(part), table[0], mariadb=mariadb)
        changes += clause.changes()
        renamed = clause.new_name() or renamed
    return changes, renamed


class _Clause:
    def __init__(self, words: Words, database: str, *, mariadb: bool) -> None:
        self.words = words
        self.database = database
        self.mariadb = mariadb

    def changes(self) -> list[Change]:
        words = self.words
        match words.accept_any("ADD", "MODIFY", "CHANGE", "DROP", "RENAME", "CONVERT"):
            case "ADD":
                return self.add()
            case "MODIFY":
                return self.modify()
            case "CHANGE":
                return self.change()
            case "DROP":
                return self.drop()
            case "RENAME":
                return self.rename()
            case "CONVERT":
                return self.convert()
        return self.option()

    def add(self) -> list[Change]:
        words = self.words
        if words.at("SYSTEM", "VERSIONING"):
            return [KeepHistory(kept=True)]
        # VECTOR is also a valid name of a column.
        if words.at("VECTOR") and len(words.tokens) > 2 and words.tokens[2].word in {"INDEX", "KEY"}:
            return []
        if words.at_any(_NOT_A_COLUMN):
            key = primary_key(words)
            return [SetPrimaryKey(key)] if key else []
        words.accept("COLUMN")
        words.accept("IF", "NOT", "EXISTS")
        if not words.at("("):
            return self.added(words)
        found: list[Change] = []
        for part in parts(words.brackets()):
            inner = _Clause(words.part(part), self.database, mariadb=self.mariadb)
            found += inner.add() if inner.words.at_any(_NOT_A_COLUMN) else inner.added(inner.words)
        return found

    def added(self, words: Words) -> list[Change]:
        parsed = column_definition(words, mariadb=self.mariadb)
        key: list[Change] = [SetPrimaryKey((parsed.column.name,))] if parsed.is_primary else []
        return [AddColumnClause(parsed), *key]

    def modify(self) -> list[Change]:
        words = self.words
        words.accept("COLUMN")
        if_exists = words.accept("IF", "EXISTS")
        # Not consumed: the definition that follows begins with the same name.
        old = words.tokens[words.place].text if not words.done else ""
        return self.changed(old, if_exists=if_exists)

    def change(self) -> list[Change]:
        words = self.words
        words.accept("COLUMN")
        if_exists = words.accept("IF", "EXISTS")
        return self.changed(words.name(), if_exists=if_exists)

    def changed(self, old: str, *, if_exists: bool) -> list[Change]:
        parsed = column_definition(self.words, mariadb=self.mariadb)
        key: list[Change] = [SetPrimaryKey((parsed.column.name,))] if parsed.is_primary else []
        return [ChangeColumn(old, parsed, if_exists), *key]

    def drop(self) -> list[Change]:
        words = self.words
        if words.accept("PRIMARY", "KEY"):
            return [SetPrimaryKey(())]
        if words.at("PARTITION"):
            return [RowsMoved("DROP PARTITION")]
        if words.at("SYSTEM", "VERSIONING"):
            return [KeepHistory(kept=False)]
        # If nothing follows it, the word is the name of a column.
        if words.at_any(_NOT_A_COLUMN) and len(words.tokens) > 2:
            return []
        words.accept("COLUMN")
        words.accept("IF", "EXISTS")
        return [DropColumnClause(words.name())]

    def rename(self) -> list[Change]:
        words = self.words
        if not words.accept("COLUMN"):
            return []
        words.accept("IF", "EXISTS")
        old = words.name()
        if not words.accept("TO"):
            raise NotUnderstood("TO was expected")
        return [RenameColumnClause(old, words.name())]

    def new_name(self) -> Name | None:
        """Return the table's new name if this clause renames the table."""
        words = self.words.part(self.words.tokens)
        if not words.accept("RENAME") or words.at_any(frozenset({"COLUMN", "INDEX", "KEY"})):
            return None
        words.accept_any("TO", "AS", "=")
        return words.table_name(self.database)

    def convert(self) -> list[Change]:
        words = self.words
        if words.accept("PARTITION"):
            words.name()
            words.accept("TO", "TABLE")
            return [RowsMoved("CONVERT PARTITION", words.table_name(self.database), "made")]
        if words.accept("TABLE"):
            return [RowsMoved("CONVERT TABLE", words.table_name(self.database), "gone")]
        words.accept("TO")
        if not (words.accept("CHARACTER", "SET") or words.accept("CHARSET")):
            return []
        if words.accept("DEFAULT"):
            return [SetCharset(None, convert=True)]
        return [SetCharset(words.next().text.lower(), convert=True)]

    def option(self) -> list[Change]:
        """Parse table options, which may follow one another without commas."""
        words = self.words
        found: list[Change] = []
        if words.accept_any("TRUNCATE", "EXCHANGE", "IMPORT", "DISCARD") and words.accept_any(
            "PARTITION", "TABLESPACE"
        ):
            what = " ".join(token.word for token in words.tokens[:2])
            while not (words.done or words.accept("WITH", "TABLE")):
                words.next()
            return [RowsMoved(what, None if words.done else words.table_name(self.database))]
        while not words.done:
            if words.accept("CHARACTER", "SET") or words.accept("CHARSET"):
                words.accept("=")
                found.append(SetCharset(words.next().text.lower()))
            elif words.accept("COMMENT"):
                words.accept("=")
                found.append(SetComment(words.next().text or None))
            elif words.at("("):
                words.brackets()
            else:
                words.next()
        return found
