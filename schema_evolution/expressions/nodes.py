"""The tokens of an expression's text, and the nodes of its tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as PythonLiteral
from typing import TypeAlias

from penstock.errors import ConfigError
from penstock.table.values.types import DataType


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class ColumnReference:
    """A reference to a column."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function call. Operators are calls too, named by their sign: `+`, `=`, `and`, `is null`."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion to a type. With `tries`, as of TRY_CAST, a value that cannot be converted becomes null."""

    value: Node
    type: DataType
    tries: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A CASE expression: pairs of condition and value, and the value of ELSE."""

    branches: tuple[tuple[Node, Node], ...]
    default: Node


# `flink-cdc` is the language of the expressions in Flink CDC's files. It differs where condition_parser.py says so,
# in the division of integers, and in TRIM.
Dialect: TypeAlias = PythonLiteral["sql", "flink-cdc"]
Node: TypeAlias = Literal | ColumnReference | Call | Cast | Case


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a projection: all columns when `value` is None, else an expression with its name."""

    name: str
    value: Node | None = None


def columns_of(node: Node) -> Iterator[str]:
    """Yield the column names in an expression, as written."""
    match node:
        case ColumnReference(name):
            yield name
        case Call(_, arguments):
            for argument in arguments:
                yield from columns_of(argument)
        case Cast(value=value):
            yield from columns_of(value)
        case Case(branches, default):
            for condition, value in branches:
                yield from columns_of(condition)
                yield from columns_of(value)
            yield from columns_of(default)


def children(node: Node) -> tuple[Node, ...]:
    """Return the direct children of a node."""
    match node:
        case Call(_, arguments):
            return arguments
        case Cast(value=value):
            return (value,)
        case Case(branches, default):
            return (*(node for branch in branches for node in branch), default)
    return ()


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
    # The pattern accepts blanks only before a token.
    while place < len(text.rstrip()):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ConfigError(
                f"the expression cannot be parsed: {text[place:].strip()[:10]!r} is unexpected",
                expression=text,
                at=place,
                hint="docs/transforms.md describes expressions; texts are in single quotes",
            )
        kind = match.lastgroup or ""
        written = match[kind]
        value = written.lower() if kind in {"word", "sign"} else written
        tokens.append(Token(kind, value, written, match.start(kind)))
        place = match.end()
    return [*tokens, Token("end", "", "", len(text))]


def unquoted(written: str) -> str:
    quote = written[0]
    return written[1:-1].replace(quote * 2, quote)


class TokenReader:
    """The tokens of an expression, read one after the other; the base of its parser."""

    def __init__(self, text: str, dialect: Dialect = "sql") -> None:
        self._text, self._dialect = text, dialect
        self._tokens = tokens_of(text)
        self._at = 0

    def expect_end(self) -> None:
        if self.now.kind != "end":
            raise self.wrong(f"{self.now.written!r} is unexpected")

    def accept(self, value: str) -> bool:
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
        if not self.accept(value):
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
