"""The tables that a logged INSERT, UPDATE, DELETE, REPLACE or LOAD statement writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.ingest.mysql.ddl.tokens import tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ingest.mysql.binlog.query import Query
    from penstock.ingest.mysql.ddl.tokens import DdlToken

_MODIFIERS = frozenset({"LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "QUICK", "IGNORE", "INTO", "FROM", "ONLY"})


def written_tables(query: Query) -> set[tuple[str, str]]:
    """Return every table that the statement may write; all tables of a join, because any of them may be written."""
    words = tokens(query.sql, ansi_quotes=query.ansi_quotes, backslashes=query.backslash_escapes)
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
