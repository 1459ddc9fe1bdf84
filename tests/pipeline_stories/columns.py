"""The columns of source tables: their types follow from their names, so that a row of texts says all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

BIGINT, INT, DECIMAL, DATETIME, TEXT = "bigint", "int", "decimal(12,2)", "datetime(3)", "varchar(100)"
UNREADABLE = "oops"  # no number
_BY_LETTER = {"i": BIGINT, "b": BIGINT, "n": INT, "x": INT, "d": DECIMAL, "t": DATETIME}
_VALUE: Mapping[str, Callable[[str], Any]] = {
    BIGINT: int,
    INT: int,
    DECIMAL: Decimal,
    DATETIME: datetime.fromisoformat,
    TEXT: str,
}


def type_of(column: str) -> str:
    """Return the MySQL type of a column."""
    return _BY_LETTER.get(column[0], TEXT)


def is_number(column: str) -> bool:
    return type_of(column) in {BIGINT, INT, DECIMAL}


def value_of(column: str, text: str | None) -> Any:
    """Return the value that a typed target column has for the text of a source."""
    return None if text is None else _VALUE[type_of(column)](text)
