"""The tokens of an expression, and the errors that say where one cannot be parsed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import ConfigError

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+)|(?P<text>'(?:[^']|'')*')"
    r"|(?P<quoted>`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\")|(?P<word>[A-Za-z_]\w*)|(?P<sign><=>|<>|!=|<=|>=|\|\||[-+*/%=<>(),.]))"
)


@dataclass(frozen=True, slots=True)
class Token:
    """A token; `kind` is number, text, quoted, word, sign or end.

    Words and signs are in lower case in `value`, and unchanged in `written`.
    """

    kind: str
    value: str
    written: str
    place: int


def tokens_of(text: str) -> list[Token]:
    tokens, place = [], 0
    while place < len(text.rstrip()):
        found = _TOKEN.match(text, place)
        if found is None:
            raise ConfigError(
                f"the expression cannot be parsed: {text[place:].strip()[:10]!r} is unexpected",
                expression=text,
                at=place,
            )
        kind = found.lastgroup or ""
        written = found[kind]
        value = written.lower() if kind in {"word", "sign"} else written
        tokens.append(Token(kind, value, written, found.start(kind)))
        place = found.end()
    return [*tokens, Token("end", "", "", len(text))]


def unquoted(written: str) -> str:
    quote = written[0]
    return written[1:-1].replace(quote * 2, quote)


class TokenReader:
    """The tokens of an expression, read one after the other; the base of its parser."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._at = 0

    def expect_end(self) -> None:
        if self.now.kind != "end":
            raise self.wrong(f"{self.now.written!r} is unexpected")

    def took(self, value: str) -> bool:
        """Consume the word or sign `value` if it is next, and return whether it was."""
        if self.now.kind in {"word", "sign"} and self.now.value == value:
            self._at += 1
            return True
        return False

    @property
    def now(self) -> Token:
        return self._tokens[self._at]

    def next(self) -> Token:
        token = self.now
        self._at += token.kind != "end"
        return token

    def need(self, value: str) -> None:
        if not self.took(value):
            raise self.wrong(f"{value!r} is missing")

    def name(self) -> str:
        token = self.next()
        if token.kind == "quoted":
            return unquoted(token.written)
        if token.kind != "word":
            raise self.wrong("a name is missing")
        return token.written

    def wrong(self, message: str, hint: str | None = None) -> ConfigError:
        return ConfigError(
            f"the expression cannot be parsed: {message}", expression=self._text, at=self.now.place, hint=hint
        )
