"""The tokens of SQL, and their text in DuckDB's dialect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.table.values.sql_text import TOKEN, unquoted, with_double_quotes


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
        return unquoted(self.text) if self.kind == "quoted" else None


def tokens_of(sql: str) -> list[SqlToken]:
    """Return the tokens of a statement; joined, they are the statement again."""
    return [SqlToken(match.lastgroup or "sign", match[0]) for match in TOKEN.finditer(sql)]


def duck_text(tokens: Sequence[SqlToken]) -> str:
    """Return the text of tokens, with names in backquotes changed to double quotes."""
    return with_double_quotes("".join(token.text for token in tokens))


def set_once(pairs: Iterable[tuple[str, str]], where: str) -> dict[str, str]:
    """Return the options that a text such as a hint sets. An option that is set twice is a ConfigError."""
    found: dict[str, str] = {}
    for key, value in pairs:
        if key in found:
            raise ConfigError(f"{where} sets the option {key!r} twice", hint="keep one of the two")
        found[key] = value
    return found
