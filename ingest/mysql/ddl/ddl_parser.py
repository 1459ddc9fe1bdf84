"""The parser of DDL statements: the text of a statement as its effects on tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.ingest.mysql.ddl.alter import parse_changes
from penstock.ingest.mysql.ddl.alter_changes import RowsMoved
from penstock.ingest.mysql.ddl.column_definition import ParsedColumn, column_definition
from penstock.ingest.mysql.ddl.statements import (
    SEQUENCE,
    SYSTEM_VERSIONED,
    AlterTableStatement,
    CreateTableStatement,
    DatabaseCharset,
    DropDatabaseStatement,
    DropTablesStatement,
    Name,
    RenameTablesStatement,
    Statement,
    TruncateTableStatement,
    Unclear,
    Unreadable,
)
from penstock.ingest.mysql.ddl.words import NotUnderstood, Words, parts, primary_key

if TYPE_CHECKING:
    from penstock.ingest.mysql.ddl.query import Query
    from penstock.ingest.mysql.ddl.tokens import DdlToken

_KEYS = frozenset(
    {"PRIMARY", "KEY", "INDEX", "UNIQUE", "FULLTEXT", "SPATIAL", "CONSTRAINT", "FOREIGN", "CHECK", "PERIOD", "VECTOR"}
)

# With these clauses, ALTER IGNORE TABLE of MariaDB may find rows with equal keys. It keeps one of them.
_MAKES_DUPLICATES = frozenset({"UNIQUE", "PRIMARY", "MODIFY", "CHANGE", "CONVERT"})


def parse_ddl(query: Query, *, mariadb: bool, lower_names: bool = False) -> list[Statement]:
    """Return the effects of a statement.

    Never fails: a table whose statement cannot be parsed yields `Unclear`, a statement whose names cannot be read
    `Unreadable`.
    """
    found = query.tokens
    words = Words(found, lower_names=lower_names)
    # MariaDB: settings for one statement, which follows FOR.
    if words.accept("SET", "STATEMENT"):
        while not words.done and not words.accept("FOR"):
            words.next()
    reader = _Reader(words, query.database, mariadb=mariadb, is_strict=query.is_strict)
    try:
        return reader.statement()
    except NotUnderstood as error:
        return [Unclear(reader.subject, str(error)) if reader.subject else Unreadable(str(error))]


class _Reader:
    def __init__(self, words: Words, database: str, *, mariadb: bool, is_strict: bool) -> None:
        self.words = words
        self.database = database
        self.mariadb = mariadb
        self.is_strict = is_strict
        self.subject: Name | None = None

    def statement(self) -> list[Statement]:
        words = self.words
        match words.accept_any("CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE"):
            case "CREATE":
                return self.create()
            case "ALTER":
                return self.alter()
            case "DROP":
                return self.drop()
            case "RENAME":
                return self.rename() if words.accept_any("TABLE", "TABLES") else []
            case "TRUNCATE":
                words.accept("TABLE")
                return [TruncateTableStatement(words.table_name(self.database))]
        return []

    def create(self) -> list[Statement]:
        words = self.words
        replaces = words.accept("OR", "REPLACE")
        if words.accept_any("DATABASE", "SCHEMA"):
            words.accept("IF", "NOT", "EXISTS")
            return self.database_charset(words.name())
        if words.accept("SEQUENCE"):
            keep_existing = words.accept("IF", "NOT", "EXISTS")
            name = words.table_name(self.database)
            return [CreateTableStatement(name, None, keep_existing=keep_existing, left_out=SEQUENCE)]
        if not words.accept("TABLE"):
            return []  # views, indexes, temporary tables, routines
        made = self.created()
        return [DropTablesStatement((made.name,)), made] if replaces else [made]

    def created(self) -> CreateTableStatement:
        words = self.words
        keep_existing = words.accept("IF", "NOT", "EXISTS")
        self.subject = name = words.table_name(self.database)
        if words.accept("LIKE"):
            return CreateTableStatement(name, None, like=words.table_name(self.database), keep_existing=keep_existing)
        if words.at("(", "LIKE"):
            words.accept("(", "LIKE")
            return CreateTableStatement(name, None, like=words.table_name(self.database), keep_existing=keep_existing)
        body = words.brackets() if words.at("(") and not words.at("(", "SELECT") else None
        options = self.words.part(self.words.tokens[self.words.place :])
        if options.contains("WITH", "SYSTEM", "VERSIONING"):
            return CreateTableStatement(name, None, keep_existing=keep_existing, left_out=SYSTEM_VERSIONED)
        charset, comment, selects = self.table_options()
        columns, key = self.columns(body or [])
        if selects or body is None:
            # The columns come from the SELECT; a row-based binlog never contains such a statement.
            return CreateTableStatement(name, None, keep_existing=keep_existing)
        return CreateTableStatement(name, columns, key, None, charset, comment, keep_existing)

    def table_options(self) -> tuple[str | None, str | None, bool]:
        """Return character set and comment after the columns, and whether a SELECT follows."""
        words, charset, comment = self.words, None, None
        while not words.done:
            # MySQL logs CREATE TABLE ... SELECT with these words at its end. The rows follow as row events.
            if words.accept("START", "TRANSACTION"):
                break
            if words.accept_any("SELECT", "WITH", "VALUES") or words.at("(", "SELECT"):
                return charset, comment, True
            if words.accept("CHARACTER", "SET") or words.accept("CHARSET"):
                words.accept("=")
                charset = words.next().text.lower()
            elif words.accept("COLLATE"):
                words.accept("=")
                # The name of a collation begins with the name of its character set.
                charset = charset or words.next().text.lower().partition("_")[0]
            elif words.accept("COMMENT"):
                words.accept("=")
                comment = words.next().text or None
            elif words.at("("):
                words.brackets()
            else:
                words.next()
        return charset, comment, False

    def columns(self, body: list[DdlToken]) -> tuple[tuple[ParsedColumn, ...], tuple[str, ...]]:
        columns: list[ParsedColumn] = []
        key: tuple[str, ...] = ()
        for part in parts(body):
            words = Words(part)
            # PERIOD FOR SYSTEM_TIME is not a column, but PERIOD is a valid name of one.
            if words.at_any(_KEYS) and not (words.at("PERIOD") and len(part) > 1 and part[1].word != "FOR"):
                key = primary_key(words) or key
            elif part:
                columns.append(column_definition(words, mariadb=self.mariadb))
        inline = tuple(parsed.column.name for parsed in columns if parsed.is_primary)
        return tuple(columns), key or inline

    def alter(self) -> list[Statement]:
        words = self.words
        if words.accept_any("DATABASE", "SCHEMA"):
            has_name = not words.done and words.tokens[words.place].is_name
            keyword = words.at_any(frozenset({"CHARACTER", "CHARSET", "DEFAULT", "COLLATE", "COMMENT", "READ"}))
            return self.database_charset(words.name() if has_name and not keyword else self.database)
        is_ignoring = False
        while word := words.accept_any("ONLINE", "OFFLINE", "IGNORE"):
            is_ignoring |= word == "IGNORE"
        if not words.accept("TABLE"):
            return []
        words.accept("IF", "EXISTS")
        self.subject = name = words.table_name(self.database)
        if words.accept("WAIT"):
            words.next()
        words.accept("NOWAIT")
        rest = words.rest()
        changes, renamed = parse_changes(rest, name, mariadb=self.mariadb)
        if is_ignoring:
            changes += [RowsMoved("ALTER IGNORE TABLE")] * any(token.word in _MAKES_DUPLICATES for token in rest.tokens)
        is_strict = self.is_strict and not is_ignoring
        found: list[Statement] = [AlterTableStatement(name, tuple(changes), is_strict)] if changes else []
        return [*found, RenameTablesStatement(((name, renamed),))] if renamed else found

    def drop(self) -> list[Statement]:
        words = self.words
        if words.accept_any("DATABASE", "SCHEMA"):
            words.accept("IF", "EXISTS")
            return [DropDatabaseStatement(words.name())]
        if not words.accept_any("TABLE", "TABLES"):
            return []
        words.accept("IF", "EXISTS")
        names = [words.table_name(self.database)]
        while words.accept(","):
            names.append(words.table_name(self.database))
        return [DropTablesStatement(tuple(names))]

    def rename(self) -> list[Statement]:
        words = self.words
        words.accept("IF", "EXISTS")
        # Kept in the order written: schema change tools swap a table and its copy by several pairs of one statement.
        pairs = []
        while not words.done:
            old = words.table_name(self.database)
            if words.accept("WAIT"):
                words.next()
            words.accept("NOWAIT")
            if not words.accept("TO"):
                raise NotUnderstood("TO was expected")
            pairs.append((old, words.table_name(self.database)))
            if not words.accept(","):
                break
        return [RenameTablesStatement(tuple(pairs))]

    def database_charset(self, database: str) -> list[Statement]:
        words = self.words
        while not words.done:
            if words.accept("CHARACTER", "SET") or words.accept("CHARSET"):
                words.accept("=")
                return [DatabaseCharset(database, words.next().text.lower())]
            if words.accept("COLLATE"):
                words.accept("=")
                return [DatabaseCharset(database, words.next().text.lower().partition("_")[0])]
            words.next()
        return []
