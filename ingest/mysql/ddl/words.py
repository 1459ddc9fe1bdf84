"""A cursor over tokens, and the elements that many statements share: names, brackets, column definitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.ingest.mysql.definition import BLOBS, TEXTS, MySqlColumn, MySqlType, normal_type
from penstock.ingest.mysql.server.charsets import charset_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ingest.mysql.ddl.tokens import DdlToken

_CHARACTER_BASES = frozenset({"char", "varchar", "enum", "set", *TEXTS})
_MAX_VARCHAR = 65_535
_UNSIGNED = frozenset({"UNSIGNED", "ZEROFILL"})


class NotUnderstood(Exception):
    """The text contains something this parser does not know; the definition of the affected table becomes unclear."""


class Words:
    """The tokens of a statement or of a part of it; `take` methods advance the cursor, `at` methods only look ahead."""

    def __init__(self, tokens: Sequence[DdlToken], *, lower_names: bool = False) -> None:
        """Create a cursor.

        With `lower_names` table names are lower-cased, as on servers with lower_case_table_names.
        """
        self.tokens = tokens
        self.place = 0
        self._lower_names = lower_names

    def rest(self) -> Words:
        return self.part(self.tokens[self.place :])

    def part(self, tokens: Sequence[DdlToken]) -> Words:
        """Return a cursor over these tokens, with the same settings."""
        return Words(tokens, lower_names=self._lower_names)

    @property
    def done(self) -> bool:
        return self.place >= len(self.tokens)

    def at(self, *words: str) -> bool:
        """Return whether these words come next."""
        found = self.tokens[self.place : self.place + len(words)]
        return len(found) == len(words) and all(token.word == word for token, word in zip(found, words, strict=True))

    def contains(self, *words: str) -> bool:
        """Return whether these words occur consecutively anywhere in the rest."""
        places = range(self.place, len(self.tokens))
        return any(Words(self.tokens[place:]).at(*words) for place in places if self.tokens[place].word == words[0])

    def at_any(self, words: frozenset[str]) -> bool:
        return not self.done and self.tokens[self.place].word in words

    def accept(self, *words: str) -> bool:
        """Skip these words if they come next; return whether they did."""
        found = self.at(*words)
        self.place += len(words) if found else 0
        return found

    def accept_any(self, *words: str) -> str:
        """Skip any one of these words if it comes next; return the word, or an empty text."""
        if not self.done and self.tokens[self.place].word in words:
            self.place += 1
            return self.tokens[self.place - 1].word
        return ""

    def next(self) -> DdlToken:
        if self.done:
            raise NotUnderstood("the statement is incomplete")
        self.place += 1
        return self.tokens[self.place - 1]

    def name(self) -> str:
        token = self.next()
        if not token.is_name:
            raise NotUnderstood(f"a name was expected, found {token.text!r}")
        return token.text

    def table_name(self, database: str) -> tuple[str, str]:
        # MariaDB: a table of the default database may be written with a dot before it.
        first = database if self.at(".") else self.name()
        name = (first, self.name()) if self.accept(".") else (database, first)
        return (name[0].lower(), name[1].lower()) if self._lower_names else name

    def brackets(self) -> list[DdlToken]:
        """Return the tokens between the bracket at the cursor and its closing bracket."""
        if not self.accept("("):
            raise NotUnderstood("a parenthesis was expected")
        start, depth = self.place, 1
        while depth:
            word = self.next().word
            depth += (word == "(") - (word == ")")
        return list(self.tokens[start : self.place - 1])


def parts(tokens: Sequence[DdlToken]) -> list[list[DdlToken]]:
    """Return the pieces between commas outside of brackets."""
    found: list[list[DdlToken]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.word == "(") - (token.word == ")")
        if token.word == "," and depth == 0:
            found.append([])
        else:
            found[-1].append(token)
    return found


@dataclass(frozen=True, slots=True)
class ParsedColumn:
    """A column definition; `after` is the name of a column, '' for FIRST, None if no position is given.

    The column's character set is None if the text names none: then it is the table's, see `in_charset`. `is_filled`:
    added to a table, the column has a value in rows that exist. `is_generated`: the server computes it from others.
    `is_unsigned`: a number without a sign, and `has_digits`: one with so many digits, also where the type does not say
    so.
    """

    column: MySqlColumn
    is_primary: bool = False
    after: str | None = None
    is_filled: bool = False
    is_generated: bool = False
    is_unsigned: bool = False
    has_digits: bool = False


def column_definition(words: Words, *, mariadb: bool) -> ParsedColumn:
    """Parse `name type attributes... [FIRST | AFTER other]`, up to the end of the tokens."""
    name, start = words.name(), words.place
    kind, charset = _type(words, mariadb=mariadb)
    of_type = words.tokens[start : words.place]
    is_unsigned = any(token.word in _UNSIGNED for token in of_type)
    has_digits = any(token.word == "(" for token in of_type)
    nullable, comment, is_primary, after, is_filled, is_generated = True, None, False, None, False, False
    while not words.done:
        if words.accept("CHARACTER", "SET") or words.accept("CHARSET"):
            words.accept("=")
            charset = words.next().text.lower()
        elif words.accept("COLLATE"):
            words.accept("=")
            charset = _charset_of_collation_name(words.next().text) or charset
        elif words.accept("NOT", "NULL"):
            nullable = False
        elif words.accept("PRIMARY"):
            words.accept("KEY")
            is_primary, nullable = True, False
        elif words.accept("UNIQUE"):
            words.accept("KEY")
        elif words.accept("KEY"):
            # In a column definition, KEY alone means PRIMARY KEY.
            is_primary, nullable = True, False
        elif words.accept("COMMENT"):
            comment = words.next().text or None
        elif words.accept("DEFAULT"):
            is_filled |= not words.accept("NULL")
        elif words.accept("AS"):
            is_filled = is_generated = True
        elif words.accept_any("AUTO_INCREMENT", "SERIAL"):
            is_filled = True
        elif words.accept("FIRST"):
            after = ""
        elif words.accept("AFTER"):
            after = words.name()
        elif words.at("("):
            words.brackets()
        else:
            words.next()
    column = MySqlColumn(name, kind, nullable, None, comment, is_generated)
    column = in_charset(column, charset) if charset else column
    return ParsedColumn(column, is_primary, after, is_filled or not nullable, is_generated, is_unsigned, has_digits)


def _type(words: Words, *, mariadb: bool) -> tuple[MySqlType, str | None]:
    """Return the type in its canonical spelling, and the character set if the type's own words name one."""
    base, charset = _base(words)
    inside = words.brackets() if words.at("(") else []
    sizes = tuple(int(token.text) for token in inside if token.kind == "number" and token.text.isdecimal())
    if base in {"enum", "set"} and any(token.kind == "bytes" for token in inside):
        raise NotUnderstood("a label is written as bytes, in a character set that the statement need not name")
    # The server removes blanks at the end of labels.
    labels = (
        tuple(token.text.rstrip(" ") for token in inside if token.kind == "text") if base in {"enum", "set"} else ()
    )
    unsigned = False
    while word := words.accept_any("UNSIGNED", "SIGNED", "ZEROFILL", "BINARY", "ASCII", "UNICODE", "BYTE"):
        unsigned |= word in _UNSIGNED
        # Short forms of CHARACTER SET after a type.
        charset = {"ASCII": "latin1", "UNICODE": "ucs2", "BYTE": "binary"}.get(word, charset)
    # MariaDB's JSON is another name for LONGTEXT in utf8mb4.
    if base == "json" and mariadb:
        return normal_type("longtext"), "utf8mb4"
    # Outside of the strict SQL mode, the server makes a TEXT of a VARCHAR that is too long.
    if base in {"varchar", "nvarchar"} and sizes and sizes[0] > _MAX_VARCHAR:
        return normal_type("text", sizes), charset
    return normal_type(base, sizes, unsigned=unsigned, labels=labels), charset


def _base(words: Words) -> tuple[str, str | None]:
    token = words.next()
    base = token.word.lower()
    if not base or not base[0].isalpha():
        raise NotUnderstood(f"a type was expected, found {token.text!r}")
    charset = None
    if base == "national":
        base, charset = words.next().word.lower(), "utf8mb3"
    if base in {"nchar", "nvarchar"}:
        charset = "utf8mb3"
    if base == "double":
        words.accept("PRECISION")
    elif base in {"char", "character", "nchar"}:
        base = "varchar" if words.accept_any("VARYING", "VARCHAR") else base
    elif base == "long":
        if words.accept("VARBINARY"):
            return "mediumblob", None
        if words.accept_any("CHAR", "CHARACTER"):
            words.accept("VARYING")
        words.accept("VARCHAR")
        return "mediumtext", None
    return base, charset


def _charset_of_collation_name(collation: str) -> str | None:
    name = collation.lower().partition("_")[0]
    return name if charset_named(name) else None


def in_charset(column: MySqlColumn, charset: str | None) -> MySqlColumn:
    """Return a character column in this character set (utf8mb4 if unknown); in `binary` it becomes a binary type."""
    if column.type.base not in _CHARACTER_BASES:
        return column
    known = charset_named(charset or "utf8mb4")
    name = known.name if known else "utf8mb4"
    if name == "binary" and column.type.base not in {"enum", "set"}:
        return replace(column, type=_as_bytes(column.type), charset=None)
    return replace(column, charset=name)


def _as_bytes(kind: MySqlType) -> MySqlType:
    base = {"char": "binary", "varchar": "varbinary", **dict(zip(TEXTS, BLOBS, strict=True))}[kind.base]
    return MySqlType(base, kind.size)


def primary_key(words: Words) -> tuple[str, ...]:
    """Return the columns of `[CONSTRAINT [name]] PRIMARY KEY [name] [USING x] (a, b(10) DESC)`; () for other keys."""
    if words.accept("CONSTRAINT") and not words.at("PRIMARY"):
        words.next()
    if not words.accept("PRIMARY", "KEY"):
        return ()
    while not words.done and not words.at("("):
        words.next()
    return tuple(part[0].text for part in parts(words.brackets()) if part)
