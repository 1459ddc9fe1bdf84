"""QUERY events: the statements that the binlog contains as text, and the tables that they write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ingest.mysql.ddl.tokens import first_word, tokens
from penstock.ingest.mysql.server.charsets import charset_of_collation

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.ingest.mysql.ddl.tokens import DdlToken

_HEADER = 13
# The number of the loaded file, the place of its name in the statement, and what is done with doubled keys.
_LOAD_FIELDS = 13
_ANSI_QUOTES, _NO_BACKSLASH_ESCAPES = 0x4, 0x100000
_MSSQL = 0x400  # of MariaDB: names may be in brackets
_STRICT = 0x600000  # STRICT_TRANS_TABLES or STRICT_ALL_TABLES
# Bytes of the status variables of a QUERY event by their codes. 1 is the SQL mode, 4 the client's character set.
_FIXED_VARS = {0: 4, 1: 8, 3: 4, 4: 6, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, 16: 1, 17: 8, 18: 2, 19: 1, 20: 1}
# SELECT is logged if a function that it calls changes rows.
CHANGES = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "SELECT"})
_AFTER_WITH = CHANGES | {"TABLE", "VALUES"}


@dataclass(frozen=True, slots=True)
class Query:
    """A statement, its default database, and the quoting rules of the session.

    `is_strict`: the session got errors for values that do not fit, instead of other values.
    """

    sql: str
    database: str
    ansi_quotes: bool
    backslash_escapes: bool
    is_strict: bool = False
    brackets: bool = False

    @property
    def verb(self) -> str:
        """The first word of the statement in upper case, after comments, SET STATEMENT ... FOR and WITH ... AS."""
        word = first_word(self.sql)
        if word in {"SET", "WITH"}:
            words = self.words
            return words[0].word if words else ""
        return word

    @property
    def tokens(self) -> list[DdlToken]:
        """The tokens by the quoting rules of the session."""
        return tokens(
            self.sql, ansi_quotes=self.ansi_quotes, backslashes=self.backslash_escapes, brackets=self.brackets
        )

    @property
    def words(self) -> list[DdlToken]:
        """The tokens from the verb on."""
        words = self.tokens
        if [word.word for word in words[:2]] == ["SET", "STATEMENT"]:
            words = words[_place(words, "FOR", len(words)) + 1 :]
        if words and words[0].word == "WITH":
            words = words[_place_outside(words, _AFTER_WITH) :]
        return words


def parse_load(body: bytes) -> Query:
    """Parse the body of a LOAD DATA event: the body of a QUERY event, with more fields in its header."""
    return parse_query(body[:_HEADER] + body[_HEADER + _LOAD_FIELDS :])


def parse_query(body: bytes) -> Query:
    """Parse the body of a QUERY event; ValueError if it is cut short."""
    database_length = body[8]
    variables_length = int.from_bytes(body[11:13], "little")
    at = _HEADER + variables_length
    sql_mode, collation = _session(body[_HEADER:at])
    database = body[at : at + database_length].decode("utf-8", "replace")
    if len(body) < at + database_length + 1:
        raise ValueError("the statement ends within its header")
    text = body[at + database_length + 1 :]
    charset = charset_of_collation(collation) if collation else None
    # The text is in the client's character set; the usual ones are UTF-8.
    sql = charset.decode(text) if charset and not charset.is_utf8 else text.decode("utf-8", "replace")
    ansi_quotes, backslashes = bool(sql_mode & _ANSI_QUOTES), not sql_mode & _NO_BACKSLASH_ESCAPES
    return Query(sql, database, ansi_quotes, backslashes, bool(sql_mode & _STRICT), bool(sql_mode & _MSSQL))


def _session(raw: bytes) -> tuple[int, int | None]:
    """Return SQL mode and client collation from the status variables; stop at a variable of unknown length."""
    sql_mode, collation, at = 0, None, 0
    while at < len(raw):
        code = raw[at]
        at += 1
        if code == 1:
            sql_mode = int.from_bytes(raw[at : at + 8], "little")
        elif code == 4:
            collation = int.from_bytes(raw[at : at + 2], "little")
        length = _variable_length(code, raw, at)
        if length is None:
            break
        at += length
    return sql_mode, collation


def _variable_length(code: int, raw: bytes, at: int) -> int | None:
    if code in _FIXED_VARS:
        return _FIXED_VARS[code]
    rest = raw[at:]
    match code:
        case 2:  # catalog, followed by a zero
            return 1 + rest[0] + 1
        case 5 | 6:  # time zone, catalog
            return 1 + rest[0]
        case 11:  # user and host
            return 1 + rest[0] + 1 + rest[1 + rest[0]]
        case 12:  # names of databases
            return None
    return None


_MODIFIERS = frozenset({"LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "QUICK", "IGNORE", "INTO", "FROM", "ONLY"})


def written_tables(query: Query) -> set[tuple[str, str]]:
    """Return every table that the statement may write; all tables of a join, because any of them may be written."""
    words = query.words
    verb = words[0].word if words else ""
    match verb:
        case "INSERT" | "REPLACE":
            part = _first_name(words[1:])
        case "LOAD":
            part = _first_name(words[_place(words, "TABLE", 0) + 1 :])
        case "UPDATE":
            part = words[1 : _place(words, "SET", len(words))]
        case "DELETE":
            part = words[1 : _place(words, "WHERE", len(words))]
        case _:
            return set()
    return _names(part, query.database)


def _place(words: Sequence[DdlToken], word: str, otherwise: int) -> int:
    return next((place for place, token in enumerate(words) if token.word == word), otherwise)


def _place_outside(words: Sequence[DdlToken], wanted: Collection[str]) -> int:
    """Return the place of the first of these words that is not in brackets."""
    depth = 0
    for place, token in enumerate(words):
        depth += (token.word == "(") - (token.word == ")")
        if depth == 0 and token.word in wanted:
            return place
    return len(words)


def _first_name(words: Sequence[DdlToken]) -> Sequence[DdlToken]:
    start = next((place for place, token in enumerate(words) if token.word not in _MODIFIERS), len(words))
    stop = start + 3 if len(words) > start + 1 and words[start + 1].text == "." else start + 1
    return words[start:stop]


def _names(words: Sequence[DdlToken], database: str) -> set[tuple[str, str]]:
    names, place = set(), 0
    while place < len(words):
        if not words[place].is_name:
            place += 1
        elif place + 2 < len(words) and words[place + 1].text == ".":
            names.add((words[place].text, words[place + 2].text))
            place += 3
        else:
            names.add((database, words[place].text))
            place += 1
    return names
