r"""Patterns of source table names: `shop.*`, `crm_([0-9]+).customer`, and Flink CDC's `app_\.*.\.*`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import ConfigError

# A star after a name character matches any text, as in a shell; after a bracket or a dot it is a quantifier.
_STAR = re.compile(r"(?<![\])}.\\*])\*")
_ESCAPED_DOT = "\\."
_ESCAPED = re.compile(r"\\.")
_QUANTIFIERS = {"*", "+", "?"}
# Flink CDC writes `\.*` for the regular expression's `.*`.
_LITERAL_DOT = re.compile(r"\\\.(?![*+?])")


@dataclass(frozen=True, slots=True)
class TablePattern:
    """A pattern that matches `database.table` as a whole.

    The first dot that is not a wildcard separates the two parts.
    """

    text: str
    regex: re.Pattern[str]

    @classmethod
    def of(cls, text: str) -> TablePattern:
        """Parse a pattern; ConfigError when it is invalid."""
        database, table = _parted(text)
        try:
            return cls(text, re.compile(f"{_as_regex(database)}\\.{_as_regex(table)}"))
        except re.error as reason:
            raise ConfigError(
                f"{text!r} is not a valid pattern of table names: {reason}",
                hint="escape  . * + ? ( ) [ ] { }  with a backslash where they mean themselves",
            ) from reason

    @property
    def is_one_table(self) -> bool:
        """Return whether the pattern is a plain name, without wildcards."""
        return re.fullmatch(r"[\w$-]+\\?\.[\w$-]+", self.text) is not None

    def match(self, database: str | None, table: str | None) -> re.Match[str] | None:
        """Return the match of a table's name, None when it does not match."""
        return self.regex.fullmatch(f"{database or ''}.{table or ''}")


def _parted(text: str) -> tuple[str, str]:
    """Split at the first bare dot, or, if that is missing or a wildcard, at the first escaped dot before no quantifier.

    So `shop.orders`, `shop.*`, the regular expression `shop\\..*` and Flink CDC's `shop.\\.*` all name a database.
    """
    place = _bare_dot(text)
    escaped = next((dot for dot in _LITERAL_DOT.finditer(text) if _is_outside(text[: dot.start()])), None)
    if escaped is not None and (place is None or text[place + 1 : place + 2] in _QUANTIFIERS):
        return text[: escaped.start()], text[escaped.end() :]
    if place is not None:
        return text[:place], text[place + 1 :]
    if _ESCAPED_DOT in text:
        database, _, table = text.partition(_ESCAPED_DOT)
        return database, table
    raise ConfigError(f"{text!r} does not name a table", hint="write database.table; both may be regular expressions")


def _is_outside(before: str) -> bool:
    """Return whether no bracket is open after this text."""
    plain = _ESCAPED.sub("", before)
    return sum((letter in "([{") - (letter in ")]}") for letter in plain) == 0


def _bare_dot(text: str) -> int | None:
    """Return the place of the first dot outside of brackets that is neither escaped nor a wildcard before another."""
    depth, place = 0, 0
    while place < len(text):
        letter = text[place]
        if letter == "\\":
            place += 2
            continue
        depth += (letter in "([{") - (letter in ")]}")
        quantified = text[place + 1 : place + 2] in _QUANTIFIERS and "." in text[place + 1 :]
        if letter == "." and depth == 0 and not quantified:
            return place
        place += 1
    return None


def _as_regex(part: str) -> str:
    r"""Return the part as a regular expression. Flink CDC writes `\.` for the regular expression's `.`."""
    return _STAR.sub(".*", part.replace(_ESCAPED_DOT, "."))
