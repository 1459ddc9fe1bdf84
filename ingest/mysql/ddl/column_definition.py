"""Column definitions of CREATE TABLE and ALTER TABLE: name, type, character set, attributes and position."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.ingest.mysql.ddl.words import NotUnderstood, Words
from penstock.ingest.mysql.definition import BLOBS, TEXTS, MySqlColumn, MySqlType, normal_type
from penstock.ingest.mysql.server.charsets import charset_named

_CHARACTER_BASES = frozenset({"char", "varchar", "enum", "set", *TEXTS})
_MAX_VARCHAR = 65_535
_UNSIGNED = frozenset({"UNSIGNED", "ZEROFILL"})


@dataclass(frozen=True, slots=True)
class ParsedColumn:
    """A column definition; `after` is the name of a column, '' for FIRST, None if no position is given.

    The column's character set is None if the text names none: then it is the table's, see `in_charset`. `is_filled`:
    added to a table, the column has a value in rows that exist. `is_generated`: the server computes it from others.
    `is_unsigned` and `has_digits`: the text declares a number without a sign, or its digits, which the type need not
    show.
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
