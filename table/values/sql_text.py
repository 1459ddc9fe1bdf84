"""Names and literals in the text of SQL: Spark and Flink quote names with backquotes, DuckDB with double quotes.

In a quoted name or text, two quotes stand for one.
"""

from __future__ import annotations

import re

# Hints come before comments, which would match them too. What no other group matches is a sign, so the tokens
# always make up the whole text; a quote that is a sign was not closed.
TOKEN = re.compile(
    r"""(?P<hint>/\*\+.*?\*/)|(?P<blank>\s+|--[^\n]*|/\*.*?\*/)|(?P<string>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)+`)|(?P<word>[^\W\d][\w$]*)|(?P<number>\d+)|(?P<sign>.)""",
    re.DOTALL | re.VERBOSE,
)
_PART = re.compile(r"`(?:[^`]|``)+`(?=\.|$)|[^.]+")


def unquoted(text: str) -> str:
    """Return the name in quotes of either kind."""
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote)


def quoted(name: str) -> str:
    """Return a name in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def backquoted(name: str) -> str:
    """Return a name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def name_parts(text: str) -> list[str]:
    """Return the names in a text such as "shop.orders" or "`shop`.`or``ders`"."""
    return [unquoted(part) if part[0] == "`" == part[-1] and len(part) > 1 else part for part in _PART.findall(text)]


def literal(text: str) -> str:
    """Return a text as SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def with_double_quotes(sql: str) -> str:
    """Return the text of SQL with double quotes around the names that have backquotes."""
    if "`" not in sql:
        return sql
    return "".join(_for_duckdb(match[0]) for match in TOKEN.finditer(sql))


def _for_duckdb(token: str) -> str:
    return quoted(unquoted(token)) if token.startswith("`") and len(token) > 1 else token
