"""Conditions that a server can evaluate, derived from the filter of a transform.

The condition is met by every row that the filter lets pass, and possibly by others: the filter itself is applied to
the rows that the server returns. Parts of the filter that no condition expresses are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import cast

from penstock.formats.demand import Comparison, Constant, Junction, NullTest, RowCondition, Sign, joined
from penstock.schema_evolution.expressions.nodes import Call, Cast, ColumnReference, Item, Literal, Node
from penstock.table.values.types import AtomicType, DataType

_NEGATED: Mapping[str, Sign] = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_TURNED: Mapping[str, Sign] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "INT", "BIGINT"})
_SMALL_INTEGERS = _INTEGERS - {"BIGINT"}
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_EXACT_DIGITS = 14  # Decimals of this many digits stay distinct as doubles, in which they are compared.
_EXACT_INTEGER = 1 << 53
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?")


@dataclass(frozen=True, slots=True)
class SourceConditions:
    """Finds conditions of a source table. `types` are the types of its columns as expressions see them.

    `made` is the projection, whose names a filter may use.
    """

    types: Mapping[str, DataType]
    made: tuple[Item, ...] = ()

    def implied(self, node: Node, *, negated: bool = False) -> RowCondition | None:
        """Return a condition met by all rows for which the expression is true, or with `negated` false.

        None if nothing is known of them.
        """
        match node:
            case Call("not", (inner,)):
                return self.implied(inner, negated=not negated)
            case Call("and" | "or" as word, parts):
                turned = word if not negated else {"and": "or", "or": "and"}[word]
                found = [self.implied(part, negated=negated) for part in parts]
                return joined("and" if turned == "and" else "or", found)
            case Call("is null" | "is not null" as name, (inner,)):
                column = self._column(inner)
                return None if column is None else NullTest(column, negated=negated != (name == "is not null"))
            case Call("coalesce", (inner, Literal(value=False))):  # a condition that is not null
                return None if negated else self.implied(inner)
            case Call("in", (left, *values)):
                found = [self._comparison(left, "=", value, negated=negated) for value in values]
                return joined("and" if negated else "or", found)
            case Call(name, (left, right)) if name in _NEGATED:
                return self._comparison(left, cast("Sign", name), right, negated=negated)
            case ColumnReference():
                return self._comparison(node, "=", Literal(value=True), negated=negated)
        return None

    def _comparison(self, left: Node, sign: Sign, right: Node, *, negated: bool) -> RowCondition | None:
        if self._column(left) is None:
            left, right, sign = right, left, _TURNED[sign]
        column, value = self._column(left), _constant(right)
        if column is None or value is None:
            return None
        type_ = self.types[column]
        if not isinstance(type_, AtomicType):
            return None
        # NaN is neither less nor greater than a number here, and greater than all for a server.
        if negated and type_.root in _FLOATS and sign not in {"=", "<>"}:
            return None
        return _of_type(column, _NEGATED[sign] if negated else sign, value, type_)

    def _column(self, node: Node) -> str | None:
        """Return the source column that an expression is, None for any other expression."""
        if not isinstance(node, ColumnReference):
            return None
        if node.name in self.types:
            return node.name
        item = next((column.value for column in self.made if column.name == node.name), None)
        return item.name if isinstance(item, ColumnReference) and item.name in self.types else None


def _constant(node: Node) -> str | int | float | bool | None:
    match node:
        case Literal(value):
            return value
        case Cast(Literal(str(value)), AtomicType("DATE")) if _DAY.fullmatch(value):
            return value
    return None


def _of_type(column: str, sign: Sign, value: str | int | float | bool, type_: AtomicType) -> RowCondition | None:
    """Return the comparison with a constant as the column's type compares it, None where a server may differ."""
    root = type_.root
    if root == "BOOLEAN":
        return _boolean(column, sign, value)
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        found: Constant | None = value if root in {"VARCHAR", "CHAR"} else _time(value, root)
        return None if found is None else Comparison(column, sign, found)
    if root in _FLOATS:
        exact = isinstance(value, float) or abs(value) <= _EXACT_INTEGER
        return Comparison(column, sign, float(value)) if exact else None
    if isinstance(value, float):
        return _fraction(column, sign, value, type_)
    return Comparison(column, sign, value) if root in _INTEGERS or root == "DECIMAL" else None


def _boolean(column: str, sign: Sign, value: str | int | float | bool) -> RowCondition | None:
    if sign not in {"=", "<>"} or isinstance(value, str) or value not in {0, 1}:
        return None
    return Comparison(column, "=", bool(value) == (sign == "="))


def _fraction(column: str, sign: Sign, value: float, type_: AtomicType) -> RowCondition | None:
    """Return the comparison of an exact number with a double: as doubles, equal numbers may seem to differ a little."""
    exact = Decimal(repr(value)).normalize()
    digits, exponent = exact.as_tuple().digits, exact.as_tuple().exponent
    if not isinstance(exponent, int):
        return None
    if type_.root in _SMALL_INTEGERS:
        return Comparison(column, sign, exact) if len(digits) + abs(exponent) <= _EXACT_DIGITS else None
    if type_.root != "DECIMAL" or sign == "<>":
        return None
    whole = max((type_.precision or 38) - (type_.scale or 0), len(digits) + exponent)
    if whole + max(type_.scale or 0, -exponent) > _EXACT_DIGITS:
        return None
    wide: Mapping[Sign, Sign] = {"<": "<=", ">": ">="}
    return Comparison(column, wide.get(sign, sign), exact)


def _time(text: str, root: str) -> datetime | date | None:
    try:
        if root == "DATE":
            return date.fromisoformat(text) if _DAY.fullmatch(text) else None
        if root not in {"TIMESTAMP", "TIMESTAMP_LTZ"} or not (_DAY.fullmatch(text) or _TIME.fullmatch(text)):
            return None
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if root == "TIMESTAMP_LTZ" else found


def columns_in(condition: RowCondition) -> frozenset[str]:
    """Return the columns of a condition."""
    if isinstance(condition, Junction):
        return frozenset().union(*(columns_in(part) for part in condition.parts))
    return frozenset({condition.column})
