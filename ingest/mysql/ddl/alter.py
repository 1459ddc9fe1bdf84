"""The parser of ALTER TABLE. It skips clauses that change neither columns nor key nor rows."""

from __future__ import annotations

from penstock.ingest.mysql.ddl.alter_changes import (
    AddColumnClause,
    Change,
    ChangeColumn,
    DropColumnClause,
    KeepHistory,
    Name,
    RenameColumnClause,
    RowsMoved,
    SetCharset,
    SetComment,
    SetPrimaryKey,
)
from penstock.ingest.mysql.ddl.column_definition import column_definition
from penstock.ingest.mysql.ddl.words import NotUnderstood, Words, parts, primary_key

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
        "SYSTEM",
    }
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
        changes: list[Change] = []
        for part in parts(words.brackets()):
            inner = _Clause(words.part(part), self.database, mariadb=self.mariadb)
            changes += inner.add() if inner.words.at_any(_NOT_A_COLUMN) else inner.added(inner.words)
        return changes

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
        changes: list[Change] = []
        if words.accept_any("TRUNCATE", "EXCHANGE", "IMPORT", "DISCARD") and words.accept_any(
            "PARTITION", "TABLESPACE"
        ):
            action = " ".join(token.word for token in words.tokens[:2])
            while not (words.done or words.accept("WITH", "TABLE")):
                words.next()
            return [RowsMoved(action, None if words.done else words.table_name(self.database))]
        while not words.done:
            if words.accept("CHARACTER", "SET") or words.accept("CHARSET"):
                words.accept("=")
                changes.append(SetCharset(words.next().text.lower()))
            elif words.accept("COMMENT"):
                words.accept("=")
                changes.append(SetComment(words.next().text or None))
            elif words.at("("):
                words.brackets()
            else:
                words.next()
        return changes
