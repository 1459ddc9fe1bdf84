"""A cursor over the tokens of one SQL statement, which knows the line and the column of each token."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from penstock.errors import ConfigError
from penstock.table.sql.grammar.mentions import table_options
from penstock.table.sql.grammar.tokens import SqlToken, tokens_of

T = TypeVar("T")
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


@dataclass(frozen=True, slots=True)
class TextPlace:
    """The place of a token in a script: its offset in the statement, its line and its column, both from 1."""

    offset: int
    line: int
    column: int


def places_of(tokens: Collection[SqlToken], line: int = 1, column: int = 1) -> Iterator[TextPlace]:
    """Yield the place of each token, and the place of the end."""
    offset = 0
    for token in tokens:
        yield TextPlace(offset, line, column)
        offset += len(token.text)
        breaks = token.text.count("\n")
        line += breaks
        column = len(token.text) - token.text.rfind("\n") if breaks else column + len(token.text)
    yield TextPlace(offset, line, column)


class Cursor:
    """The tokens of a statement without blanks and comments, and the place that reading has reached."""

    def __init__(self, sql: str, line: int = 1, column: int = 1) -> None:
        self.sql = sql
        tokens = tokens_of(sql)
        places = list(places_of(tokens, line, column))
        # There is one place more than tokens: the end, where errors of an incomplete statement are reported.
        solid = [(token, place) for token, place in zip(tokens, places, strict=False) if token.kind != "blank"]
        self._tokens = [token for token, _ in solid]
        self._places = [*(place for _, place in solid), places[-1]]
        self._at = 0
        for number, token in enumerate(self._tokens):
            self._refuse_quote(number, token)

    def _refuse_quote(self, number: int, token: SqlToken) -> None:
        if token.text in "‘’“”" or (token.kind == "sign" and token.text in "'\"`"):
            self._at = number
            # Statements that are copied from a web page often have these quotes.
            typographic = token.text in "‘’“”"
            why = f"{token.text} is a typographic quote" if typographic else f"the quote {token.text} is not closed"
            self.fail(why, hint="write ' instead" if typographic else None)

    @property
    def place(self) -> TextPlace:
        """Return the place of the next token."""
        return self._places[self._at]

    @property
    def at_end(self) -> bool:
        """Return whether all tokens are read."""
        return self._at == len(self._tokens)

    def word(self, ahead: int = 0) -> str:
        """Return a token in lower case, the next one by default; an empty text after the end."""
        number = self._at + ahead
        return self._tokens[number].text.lower() if number < len(self._tokens) else ""

    def kind(self) -> str:
        """Return the kind of the next token; an empty text at the end."""
        return "" if self.at_end else self._tokens[self._at].kind

    def skip(self, *words: str) -> bool:
        """Read the words if they are next, and return whether they were."""
        if any(self.word(ahead) != word for ahead, word in enumerate(words)):
            return False
        self._at += len(words)
        return True

    def skip_any(self, *words: str) -> str | None:
        """Read the next token if it is one of the words, and return it."""
        word = self.word()
        return word if word and word in words and self.skip(word) else None

    def expect(self, *words: str) -> None:
        """Read the words, which must be next."""
        if not self.skip(*words):
            self.fail(f"{' '.join(words).upper()} is expected")

    def fail(self, why: str, hint: str | None = None) -> NoReturn:
        """Raise ConfigError at the next token."""
        raise self.error(why, hint)

    def error(self, why: str, hint: str | None = None) -> ConfigError:
        """Return the error at the next token."""
        near = " ".join(token.text for token in self._tokens[self._at : self._at + 4]) or "the end of the statement"
        place = self.place
        return ConfigError(
            f"the SQL cannot be parsed: {why}", near=near, line=place.line, column=place.column, hint=hint
        )

    def end(self, hint: str | None = None) -> None:
        """Check that nothing follows."""
        if not self.at_end:
            self.fail("the statement should end here", hint)

    def name(self) -> str:
        """Read a name, in quotes or without."""
        name = None if self.at_end else self._tokens[self._at].name
        if name is None:
            self.fail("a name is expected")
        self._at += 1
        return name

    def names(self) -> tuple[str, ...]:
        """Read a name with its qualifiers."""
        names = [self.name()]
        while self.skip("."):
            names.append(self.name())
        return tuple(names)

    def name_list(self) -> tuple[str, ...]:
        """Read `(a, b)`."""
        self.expect("(")
        names = [self.name()]
        while self.skip(","):
            names.append(self.name())
        self.expect(")")
        return tuple(names)

    def string(self) -> str:
        """Read a text in single quotes."""
        if self.kind() != "string":
            self.fail("a text in single quotes is expected")
        self._at += 1
        return self._tokens[self._at - 1].text[1:-1].replace("''", "'")

    def key(self) -> str:
        """Read the key of an option: a text in single quotes, or words with dots and hyphens; `*` is any name."""
        if self.kind() == "string":
            return self.string()
        parts = [self.name()]
        while (sign := self.skip_any(".", "-")) is not None:
            parts += [sign, self.skip_any("*") or self.name()]
        return "".join(parts)

    def key_list(self) -> list[str]:
        """Read `('key', 'key2')`."""
        self.expect("(")
        keys = [self.key()]
        while self.skip(","):
            keys.append(self.key())
        self.expect(")")
        return keys

    def value(self) -> str:
        """Read the value of an option: a text in single quotes, a number or a word."""
        if self.kind() == "string":
            return self.string()
        text = self.until(",", ")")
        if not text:
            self.fail("a value is expected", hint="write options as 'key' = 'value'")
        return text

    def options(self) -> dict[str, str]:
        """Read `('key' = 'value', ...)`."""
        return self._pairs("option", self.value)

    def partition(self) -> dict[str, str | None]:
        """Read `(dt = DATE '2026-01-31', hour = 5, region = NULL)`: values of partition columns."""
        return self._pairs("column", self._partition_value)

    def _partition_value(self) -> str | None:
        if self.skip("null"):
            return None
        if self.word() in {"date", "timestamp"} and self.word(1).startswith("'"):
            self._at += 1
        return self.value()

    def _pairs(self, noun: str, value: Callable[[], T]) -> dict[str, T]:
        self.expect("(")
        pairs: dict[str, T] = {}
        while True:
            key = self.key()
            if key in pairs:
                self.fail(f"the {noun} {key!r} is set twice")
            self.expect("=")
            pairs[key] = value()
            if not self.skip(","):
                break
        self.expect(")")
        return pairs

    def hint(self) -> dict[str, str]:
        """Read `/*+ OPTIONS('key' = 'value') */` if it is next, and return its options."""
        if self.kind() != "hint":
            return {}
        self._at += 1
        return table_options(self._tokens[self._at - 1].text)

    def until(self, *ends: str) -> str:
        """Read up to one of the words, which must be outside of brackets and CASE, or to the end; return the text."""
        begin, depth = self._at, 0
        while not self.at_end:
            word = self.word()
            if depth == 0 and (word in ends or word in _CLOSING):
                break
            # END closes a CASE only; outside of one it may be a name.
            depth += (word in _OPENING or word == "case") - (word in _CLOSING or (word == "end" and depth > 0))
            self._at += 1
        return self.sql[self._places[begin].offset : self._end_of(self._at)]

    def rest(self) -> str:
        """Read to the end, and return the text."""
        begin = self.place.offset
        self._at = len(self._tokens)
        return self.sql[begin:].strip()

    def back_to(self, number: int) -> None:
        """Go back to a mark."""
        self._at = number

    @property
    def mark(self) -> int:
        """Return the number of tokens read, for `back_to`."""
        return self._at

    def _end_of(self, number: int) -> int:
        """Return the offset after the token before this one."""
        return self._places[number - 1].offset + len(self._tokens[number - 1].text) if number else 0
