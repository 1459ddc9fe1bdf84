"""Conditions on rows as MySQL evaluates them.

Values are compared as the pipeline does, or a condition lets more rows pass: collations of MySQL ignore case and blanks
at the end, dates may be zero or have a zero month, and TIMESTAMP values are instants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from penstock.formats.demand import Comparison, NullTest
from penstock.ingest.database.sql_conditions import time_text
from penstock.ingest.mysql.definition import BYTES, CHARACTER, INTEGER_BYTES
from penstock.ingest.mysql.server.catalog import quoted

if TYPE_CHECKING:
    from penstock.formats.demand import Sign
    from penstock.ingest.mysql.definition import MySqlType

_EXACT = frozenset({*INTEGER_BYTES, "decimal"})
_FLOATING = frozenset({"float", "double"})
# A null of these types is stored as null. Of the other types, odd values also become null when they are decoded.
_PLAIN_NULLS = _EXACT | _FLOATING | CHARACTER | BYTES
# Local time differs from UTC by less.
_ZONES = timedelta(days=1)
_INSTANT_YEARS = range(1972, 2037)
_FIRST_YEAR = 1000


@dataclass(frozen=True, slots=True)
class MySqlConditions:
    """Writes tests of the columns with these types. TIMESTAMP columns are compared in the pipeline's zone."""

    types: Mapping[str, MySqlType]
    zone: str

    def __call__(self, test: Comparison | NullTest) -> str | None:
        kind = self.types.get(test.column)
        if kind is None:
            return None
        name = quoted(test.column)
        if isinstance(test, NullTest):
            return f"{name} IS NOT NULL" if test.negated else _is_null(name, kind)
        value, sign = test.value, test.sign
        if isinstance(value, bool):
            return _truth(name, kind, value=value)
        if isinstance(value, str):
            return _text(name, kind, sign, value)
        if isinstance(value, date):
            return self._time(name, kind, sign, value)
        if isinstance(value, float) and math.isfinite(value) and kind.base in _FLOATING:
            # In the notation of a double: a decimal would be rounded in another way.
            return f"{name} * 1e0 {sign} {value!r}{'' if 'e' in repr(value) else 'e0'}"
        return f"{name} {sign} {Decimal(value):f}" if kind.base in _EXACT and not isinstance(value, float) else None

    def _time(self, name: str, kind: MySqlType, sign: Sign, value: date) -> str | None:
        if value.year < _FIRST_YEAR:
            return None
        if not isinstance(value, datetime):
            return f"{name} {sign} DATE'{time_text(value)}'" if kind.base == "date" else None
        if kind.base == "datetime":
            return f"{name} {sign} TIMESTAMP'{time_text(value)}'"
        if kind.base != "timestamp" or value.year not in _INSTANT_YEARS:
            return None
        if self.zone == "UTC":
            return f"{name} {sign} TIMESTAMP'{time_text(value)}'"
        low, high = time_text(value - _ZONES), time_text(value + _ZONES)
        match sign:
            case ">" | ">=":
                return f"{name} >= TIMESTAMP'{low}'"
            case "<" | "<=":
                return f"{name} <= TIMESTAMP'{high}'"
            case "=":
                return f"{name} BETWEEN TIMESTAMP'{low}' AND TIMESTAMP'{high}'"
        return None


def _truth(name: str, kind: MySqlType, *, value: bool) -> str | None:
    is_truth = (kind.base == "tinyint" and not kind.unsigned) or (kind.base == "bit" and (kind.size or 1) == 1)
    return f"{name} {'<>' if value else '='} 0" if is_truth else None


def _text(name: str, kind: MySqlType, sign: Sign, value: str) -> str | None:
    if kind.base not in CHARACTER and kind.base != "enum":
        return None
    digits = value.encode().hex().upper()
    if sign == "=" and value.isascii():
        # By the collation of the column, which uses its index. Equal texts are equal in every collation.
        return f"{name} = _utf8mb4 X'{digits}'"
    return f"CAST(CONVERT({name} USING utf8mb4) AS BINARY) {sign} X'{digits}'"


def _is_null(name: str, kind: MySqlType) -> str | None:
    if kind.base in _PLAIN_NULLS:
        return f"{name} IS NULL"
    if kind.base == "timestamp":
        return f"({name} IS NULL OR {name} < TIMESTAMP'1971-01-01 00:00:00')"
    if kind.base in {"date", "datetime"}:
        # Dates that do not exist are null in the table.
        odd = f"{name} < DATE'1000-01-01' OR LAST_DAY({name}) IS NULL OR DAYOFMONTH({name}) = 0"
        return f"({name} IS NULL OR {odd} OR MONTH({name}) = 0)"
    return None
