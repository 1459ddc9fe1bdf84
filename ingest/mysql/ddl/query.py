"""A statement of the binlog as text, its verb, and the tables that it may write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ingest.mysql.ddl.tokens import first_word, tokens

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.ingest.mysql.ddl.tokens import DdlToken

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
