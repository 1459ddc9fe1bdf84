"""The statements of a SQL script, and where each begins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.errors import PenstockError
from penstock.table.sql.grammar.cursor import Cursor, TextPlace, places_of
from penstock.table.sql.grammar.tokens import tokens_of


@dataclass(frozen=True, slots=True)
class ScriptPart:
    """One statement of a script, and where it begins."""

    text: str
    place: TextPlace

    def locate(self, error: PenstockError) -> None:
        """Add the place of the statement to the facts of an error that does not know its place."""
        if "line" not in error.facts:
            # The fact `column` may already be the name of a column of the table.
            column = "column of the line" if "column" in error.facts else "column"
            error.facts |= {"line": self.place.line, column: self.place.column}


def script_parts(script: str) -> Iterator[ScriptPart]:
    """Yield the statements of a script, which end with semicolons outside of quotes and comments."""
    tokens = tokens_of(script)
    places = list(places_of(tokens))
    begin: TextPlace | None = None
    for token, place in zip(tokens, places, strict=False):
        if token.text == ";":
            if begin is not None:
                yield ScriptPart(script[begin.offset : place.offset].rstrip(), begin)
            begin = None
        elif begin is None and token.kind != "blank":
            begin = place
    if begin is not None:
        yield ScriptPart(script[begin.offset :].rstrip(), begin)


def first_word(query: str) -> str:
    """Return the first word of a query."""
    return Cursor(query).word()
