"""LIKE on a whole column, with a backslash as the escape character of the pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError

Values = Any  # an Arrow array, or a scalar when the expression is constant
_WILDCARDS = {"%": ".*", "_": "."}
ESCAPABLE = "%_\\"  # what may follow a backslash


def like(value: Values, pattern: Values) -> Values:
    """Return which texts have the form of the pattern; null for a null pattern."""
    if not isinstance(pattern, pa.Scalar):
        raise ConfigError(
            "LIKE needs a constant pattern, not a column", hint="write the pattern as a text: name like 'a%'"
        )
    if not pattern.is_valid:
        return pc.and_(pc.is_valid(value), pa.scalar(None, pa.bool_()))
    text = str(pattern.as_py())
    if "\\" not in text:
        return pc.match_like(value, text)
    # Arrow compares a pattern that has a % only at its ends with its backslashes as they are.
    return pc.match_substring_regex(value, f"(?s)^{''.join(_as_regex(text))}$")


def ordinary_escaped(pattern: str, escaped: str) -> ConfigError:
    """Return the error for an escape character before a character that needs none, which Spark refuses too."""
    return ConfigError(
        "the escape character of a pattern of LIKE is followed by neither %, _ nor itself",
        hint="write the escape character twice for the character itself; other characters need none",
        pattern=pattern,
        followed_by=escaped,
    )


def _as_regex(pattern: str) -> Iterator[str]:
    letters = iter(pattern)
    for letter in letters:
        if letter != "\\":
            yield _WILDCARDS.get(letter) or re.escape(letter)
            continue
        escaped = next(letters, None)
        if escaped is None:
            raise ConfigError(
                "a pattern of LIKE ends with its escape character",
                hint="write the escape character twice for the character itself",
                pattern=pattern,
            )
        if escaped not in ESCAPABLE:
            raise ordinary_escaped(pattern, escaped)
        yield re.escape(escaped)
