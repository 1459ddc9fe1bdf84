"""Conditions on rows as PostgreSQL evaluates them.

Values are compared as the pipeline does, or a condition lets more rows pass: NaN and infinite times are null in tables,
and collations may treat different texts as equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from penstock.formats.demand import Comparison, NullTest
from penstock.ingest.database.sql_conditions import time_text
from penstock.ingest.postgres.server.catalog import quoted

if TYPE_CHECKING:
    from penstock.formats.demand import Sign
    from penstock.ingest.postgres.relation import PgType

_INTEGERS = frozenset({"int2", "int4", "int8"})
_FLOATING = frozenset({"float4", "float8"})
_TEXTS = frozenset({"text", "varchar"})
_TIMES = frozenset({"date", "timestamp", "timestamptz"})
_PLAIN_NULLS = _INTEGERS | _FLOATING | _TEXTS | {"bool", "uuid", "bytea", "char", "enum"}


@dataclass(frozen=True, slots=True)
class PgConditions:
    """Writes tests of the columns with these types."""

    types: Mapping[str, PgType]

    def __call__(self, test: Comparison | NullTest) -> str | None:
        kind = self.types.get(test.column)
        if kind is None or kind.element is not None:
            return None
        name = quoted(test.column)
        if isinstance(test, NullTest):
            return f"{name} IS NOT NULL" if test.negated else _is_null(name, kind)
        value, sign = test.value, test.sign
        if isinstance(value, bool):
            return f"{name} = {'true' if value else 'false'}" if kind.name == "bool" else None
        if isinstance(value, str):
            return _text(name, kind, sign, value)
        if isinstance(value, date):
            return _time(name, kind, sign, value)
        if isinstance(value, float):
            usable = math.isfinite(value) and kind.name in _FLOATING
            return f"{name}::float8 {sign} '{value!r}'::float8" if usable else None
        exact = kind.name in _INTEGERS or (kind.name == "numeric" and kind.decimal is not None)
        return f"{name} {sign} {Decimal(value):f}" if exact else None


def _text(name: str, kind: PgType, sign: Sign, value: str) -> str | None:
    if "\0" in value:
        return None
    # As a text with escapes, with quotation marks and backslashes doubled, so that the session's settings do not
    # matter.
    literal = "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    if sign == "=" and kind.name in _TEXTS | {"char"}:
        return f"{name} = {literal}"
    if sign in {"=", "<>"} and kind.name in _TEXTS | {"enum"}:
        return f'{name}::text COLLATE "C" {sign} {literal}'
    return None


def _time(name: str, kind: PgType, sign: Sign, value: date) -> str | None:
    if not isinstance(value, datetime):
        return f"{name} {sign} '{time_text(value)}'::date" if kind.name == "date" else None
    if kind.name == "timestamptz" and value.tzinfo is not None:
        return f"{name} {sign} '{time_text(value)}+00'::timestamptz"
    if kind.name == "timestamp" and value.tzinfo is None:
        return f"{name} {sign} '{time_text(value)}'::timestamp"
    return None


def _is_null(name: str, kind: PgType) -> str | None:
    if kind.name in _PLAIN_NULLS:
        return f"{name} IS NULL"
    if kind.name == "numeric" and kind.size is not None and kind.decimal is not None:
        return f"({name} IS NULL OR {name} = 'NaN')"
    if kind.name in _TIMES:
        return f"({name} IS NULL OR {name} < '0002-01-01' OR {name} > '9998-12-31')"
    return None
