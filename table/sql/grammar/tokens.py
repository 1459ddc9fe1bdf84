"""The tokens of SQL, and their text in DuckDB's dialect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# Hints come before comments, which would match them too. What no other group matches is a sign, so the tokens
# always make up the whole text; a quote that is a sign was not closed.
_TOKEN = re.compile(
    r"""(?P<hint>/\*\+.*?\*/)|(?P<blank>\s+|--[^\n]*|/\*.*?\*/)|(?P<string>'(?:[^']|'')*')|(?P<quoted>"(?:[^"]|"")*"|`[^`]+`)
    |(?P<word>[^\W\d][\w$]*)|(?P<number>\d+)|(?P<sign>.)""",
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class SqlToken:
    """A token of a statement; `kind` is the name of the matching group."""

    kind: str
    text: str

    @property
    def name(self) -> str | None:
        """Return the name in a word or a quoted name, None for other tokens."""
        if self.kind == "word":
            return self.text
        return self.text[1:-1].replace('""', '"') if self.kind == "quoted" else None


def tokens_of(sql: str) -> list[SqlToken]:
    """Return the tokens of a statement; joined, they are the statement again."""
    return [SqlToken(match.lastgroup or "sign", match[0]) for match in _TOKEN.finditer(sql)]


def duck_text(tokens: Sequence[SqlToken]) -> str:
    """Return the text of tokens, with names in backquotes changed to double quotes."""
    return "".join(quoted(token.text[1:-1]) if token.text.startswith("`") else token.text for token in tokens)


def quoted(name: str) -> str:
    """Return a name in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as SQL literal."""
    return "'" + text.replace("'", "''") + "'"
