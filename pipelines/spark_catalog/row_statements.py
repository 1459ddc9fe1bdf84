"""UPDATE, DELETE and MERGE of Spark: which tables support them, and DELETE from tables without a key."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.pipelines.spark_catalog.request import Request
from penstock.pipelines.spark_source.table_read import OLD
from penstock.table.handle import Table
from penstock.table.operations.delete import check_deletable
from penstock.table.options.buckets import BUCKET
from penstock.table.options.writers import ROW_TRACKING_ENABLED
from penstock.table.sql.dml.update_rules import check_newest_rows, check_updatable
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.types import Field

_COMPARED: Mapping[str, Callable[[Any, Any], Any]] = {
    "EqualTo": operator.eq,
    # Never null, so that its negation is not null either.
    "EqualNullSafe": lambda column, value: (column == value) & column.is_valid(),
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
}


def check_row_changes(request: Request) -> None:
    """Raise ConfigError unless a statement can change rows of the table, by the rules of SQL without Spark."""
    table, command = request.table(), str(request.given["command"])
    hidden = [field.name for field in table.definition.fields if field.name.startswith(OLD)]
    if hidden:
        raise ConfigError(
            f"{command} is not possible in Spark with a column named {hidden[0]!r}",
            table=table.name,
            hint=f"rename the column: names that begin with {OLD} are those of old values",
        )
    if not table.primary_keys:
        _check_replaceable(table, command)
    elif command == "DELETE":
        check_deletable(table.definition, table.name)
        check_newest_rows(table, command)
    else:
        assigned = [str(request.given["sets"])] if "sets" in request.given else []
        check_updatable(table, "MERGE INTO" if command == "MERGE" else command, assigned)


def _check_replaceable(table: Table, command: str) -> None:
    """Raise ConfigError unless all rows of a table without a key can be written again."""
    check_newest_rows(table, command)
    if table.definition.typed[ROW_TRACKING_ENABLED]:
        raise ConfigError(
            f"{command} is not possible in Spark with row-tracking.enabled: the rows would lose their ids",
            table=table.name,
            hint="DELETE by comparisons of columns with literals is possible; or use penstock.sql(...)",
        )
    if table.definition.typed[BUCKET] > 0:
        raise ConfigError(
            f"{command} is not possible in Spark on a table with buckets and without a key",
            table=table.name,
            hint="DELETE by comparisons of columns with literals is possible; or INSERT OVERWRITE t SELECT ...",
        )


def can_delete(request: Request) -> bool:
    """Return whether the conditions of a DELETE can be evaluated on the files of the table."""
    return _condition(request.table(), request.given["filters"]) is not None


def delete(request: Request) -> None:
    """Run DELETE on a table without a key, with conditions that `can_delete` has accepted."""
    table = request.table()
    condition = _condition(table, request.given["filters"])
    if condition is None:
        raise ConfigError(
            "the condition of the DELETE cannot be evaluated on files",
            table=table.name,
            hint="INSERT OVERWRITE t SELECT * FROM t WHERE NOT ...",
        )
    table.delete(condition, request.executor)


def _condition(table: Table, filters: list[Mapping[str, Any]]) -> pc.Expression | None:
    fields = {field.name: field for field in table.definition.fields}
    parts = [_expression(filter_, fields) for filter_ in filters]
    # One part that cannot be translated makes the whole condition unusable: deleting by the others would delete too
    # much.
    made: pc.Expression | None = pc.scalar(value=True)
    for part in parts:
        made = None if part is None or made is None else made & part
    return made


def _expression(given: Mapping[str, Any], fields: Mapping[str, Field]) -> pc.Expression | None:
    match given:
        case {"kind": "AlwaysTrue"}:
            return pc.scalar(value=True)
        case {"kind": "And" | "Or" as kind, "left": left, "right": right}:
            left_part, right_part = _expression(left, fields), _expression(right, fields)
            if left_part is None or right_part is None:
                return None
            return left_part & right_part if kind == "And" else left_part | right_part
        case {"kind": "Not", "child": child}:
            inner = _expression(child, fields)
            return None if inner is None else ~inner
        case {"kind": "IsNull", "column": name} if name in fields:
            return pc.field(name).is_null()
        case {"kind": "IsNotNull", "column": name} if name in fields:
            return pc.field(name).is_valid()
        case {"kind": "In", "column": name, "values": [*texts]} if name in fields:
            values = [_value(text, fields[name]) for text in texts]
            if None in values or not values:
                return None
            # Unlike `isin`, a comparison with null is null, so that NOT IN does not return nulls.
            found = pc.field(name) == values[0]
            for value in values[1:]:
                found |= pc.field(name) == value
            return found
        case {"kind": kind, "column": name, "value": str(text)} if name in fields and kind in _COMPARED:
            value = _value(text, fields[name])
            return None if value is None else _COMPARED[kind](pc.field(name), value)
    return None


def _value(text: str | None, field: Field) -> pa.Scalar | None:
    """Return the text of a value in Java as a value of the column; None for null, and where the two may differ.

    A day is the number of days since 1970.
    """
    type_ = to_arrow(field.type)
    if text is None:
        return None
    if pa.types.is_boolean(type_):
        return pa.scalar(text == "true")
    if pa.types.is_date(type_):
        return pa.scalar(int(text), pa.int32()).cast(type_)
    if pa.types.is_decimal(type_):
        return pa.scalar(Decimal(text), type_)
    if pa.types.is_integer(type_):
        return pa.scalar(int(text), type_)
    # For other types, such as floats and timestamps, the text of Java may mean another value in Arrow.
    return pa.scalar(text, type_) if pa.types.is_string(type_) else None
