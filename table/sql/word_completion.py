"""Completion of statements that are being typed: keywords, and names of databases, tables and columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.errors import PenstockError
from penstock.table.catalog.base import split_name
from penstock.table.sql.grammar.mentions import mentions
from penstock.table.sql.grammar.tokens import tokens_of
from penstock.table.sql.queries.context import SqlContext

_WORD = re.compile(r"[\w$]*$")
_QUALIFIER = re.compile(r"([\w$]+|`[^`]+`|\"[^\"]+\")\s*\.\s*$")
_KEYWORDS = re.findall(
    r"\w+",
    """
    ADD AFTER ALTER ANALYZE AND AS BEGIN BETWEEN BY CALL CASE CATALOG CATALOGS COLUMN COLUMNS COMMENT COMPUTE
    CREATE CROSS CURRENT DATABASE DATABASES DEFAULT DELETE DESC DESCRIBE DISTINCT DROP ELSE END ENFORCED EXECUTE
    EXISTS EXPLAIN FALSE FIRST FOR FROM FULL GROUP HAVING IF IN INNER INSERT INTO IS JOIN KEY LEFT LIKE LIMIT
    MATCHED MERGE MODIFY NOT NULL ON OPTIONS OR ORDER OVERWRITE PARTITION PARTITIONED PARTITIONS PRIMARY
    PROCEDURES RENAME RESET RIGHT SELECT SET SHOW STATEMENT STATISTICS SYSTEM_TIME TABLE TABLES TBLPROPERTIES
    TEMPORARY THEN TIMESTAMP TO TRUE TRUNCATE UNION UNSET UPDATE USE USING VALUES VERSION VIEW WHEN WHERE WITH
    """,
)


@dataclass(frozen=True, slots=True)
class Completions:
    """The words that the unfinished word before the cursor may become; `length` is the number of characters typed."""

    length: int
    words: tuple[str, ...]


def completions(context: SqlContext, text: str) -> Completions:
    """Return the completions of a statement up to the cursor."""
    found = _WORD.search(text)
    typed = "" if found is None else found[0]
    before = text[: len(text) - len(typed)]
    if any(token.kind == "sign" and token.text in "'\"`" for token in tokens_of(before)):  # within quotes
        return Completions(0, ())
    qualifier = _QUALIFIER.search(before)
    if qualifier is not None:
        names = list(_qualified(context, qualifier[1].strip('`"'), text))
    elif typed:
        # In the letters that the user types, as the names of Java and SQL differ in nothing else.
        keywords = [word.lower() if typed[0].islower() else word for word in _KEYWORDS]
        names = [*_names(context, text), *keywords]
    else:
        names = []
    fitting = (name for name in dict.fromkeys(names) if name.lower().startswith(typed.lower()) and name != typed)
    return Completions(len(typed), tuple(fitting))


def _names(context: SqlContext, text: str) -> Iterator[str]:
    if not context.has_catalog:
        return
    yield from _columns(context, text)
    if context.database is not None:
        yield from sorted(context.catalog.tables(context.database))
    yield from sorted(context.catalog.databases())


def _qualified(context: SqlContext, name: str, text: str) -> Iterator[str]:
    """Yield what may follow `name.`: the tables of a database, or the columns of a table or an alias."""
    if not context.has_catalog:
        return
    if context.catalog.backend.has_database(name):
        yield from sorted(context.catalog.tables(name))
    else:
        yield from _columns(context, text)


def _columns(context: SqlContext, text: str) -> Iterator[str]:
    for mention in mentions(tokens_of(text)):
        if (name := _existing(context, mention.names)) is not None:
            yield from (field.name for field in context.catalog.table(name).definition.fields)


def _existing(context: SqlContext, names: Sequence[str]) -> str | None:
    """Return the full name of a table that exists and has columns, None for another name."""
    try:
        name = context.full_name(names)
    except PenstockError:  # `from nowhere.a.b`: a name that is still being typed
        return None
    return name if "$" not in split_name(name)[1] and context.catalog.table_exists(name) else None
