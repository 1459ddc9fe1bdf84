"""A cursor over tokens, and the elements that many statements share: names, brackets, keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ingest.mysql.ddl.tokens import DdlToken


class NotUnderstood(Exception):
    """The text contains something this parser does not know; the definition of the affected table becomes unclear."""


class Words:
    """The tokens of a statement, or of a part of it: `accept` methods advance the cursor, `at` methods look ahead."""

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


def primary_key(words: Words) -> tuple[str, ...]:
    """Return the columns of `[CONSTRAINT [name]] PRIMARY KEY [name] [USING x] (a, b(10) DESC)`; () for other keys."""
    if words.accept("CONSTRAINT") and not words.at("PRIMARY"):
        words.next()
    if not words.accept("PRIMARY", "KEY"):
        return ()
    while not words.done and not words.at("("):
        words.next()
    return tuple(part[0].text for part in parts(words.brackets()) if part)
