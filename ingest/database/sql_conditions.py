"""Conditions on rows as SQL: the part of a condition that the server can evaluate."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import TypeAlias

from penstock.formats.demand import Comparison, Demand, Junction, NullTest, RowCondition

# Returns a test of one column as SQL that is true at least where the test is; None if the server has no such test.
Dialect: TypeAlias = Callable[[Comparison | NullTest], str | None]


def where(condition: RowCondition | None, dialect: Dialect) -> str | None:
    """Return SQL that is true for every row that meets the condition; None if that would be all rows."""
    if condition is None:
        return None
    if not isinstance(condition, Junction):
        return dialect(condition)
    found = [where(part, dialect) for part in condition.parts]
    known = [text for text in found if text is not None]
    # A part of OR that the server does not evaluate may be true for every row.
    if not known or (condition.word == "or" and len(known) < len(found)):
        return None
    return f"({f' {condition.word.upper()} '.join(known)})"


def time_text(value: date) -> str:
    """Return a date or a time as ISO text without zone, which all servers read in the same way."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ", "microseconds")
    return value.isoformat()


def described(demand: Demand, columns: int, where_: str | None) -> tuple[str, ...]:
    """Return sentences for people about the selected part of a table with this number of columns."""
    said = []
    if demand.columns is not None:
        said.append(f"selects {len(demand.columns)} of {columns} columns: {', '.join(sorted(demand.columns))}")
    if where_ is not None:
        said.append(f"selects rows where {where_}")
    return tuple(said)
