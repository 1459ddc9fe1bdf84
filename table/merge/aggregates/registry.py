"""The aggregate functions by their names: one line adds a function to the options of tables and to the engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from penstock.errors import ConfigError, did_you_mean
from penstock.table.merge.aggregates.bitmaps import unions
from penstock.table.merge.aggregates.function import AggregateFunction, Inputs, Result
from penstock.table.merge.aggregates.lists import collect, listagg, merge_map, nested_update
from penstock.table.merge.aggregates.numbers import every, product, some, total
from penstock.table.merge.aggregates.picks import (
    first_non_null_value,
    first_value,
    greatest,
    last_non_null_value,
    last_value,
    least,
)
from penstock.table.merge.incoming_kinds import check_retractable
from penstock.table.schema.type_text import written
from penstock.table.values.types import ArrayType, AtomicType, DataType, MapType, RowType

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_NUMBERS = _INTEGERS | {"FLOAT", "DOUBLE", "DECIMAL"}
_TIMES = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"})
_TEXTS = frozenset({"CHAR", "VARCHAR"})


def _any(_type: DataType) -> bool:
    return True


def _atoms(*roots: str) -> Callable[[DataType], bool]:
    def accepts(type_: DataType) -> bool:
        return isinstance(type_, AtomicType) and type_.root in roots

    return accepts


def _arrays(type_: DataType) -> bool:
    return isinstance(type_, ArrayType)


def _maps(type_: DataType) -> bool:
    return isinstance(type_, MapType)


def _arrays_of_rows(type_: DataType) -> bool:
    return isinstance(type_, ArrayType) and isinstance(type_.element, RowType)


_numbers, _ordered = _atoms(*_NUMBERS), _atoms(*_NUMBERS, *_TIMES, *_TEXTS)
_booleans, _texts, _bytes = _atoms("BOOLEAN"), _atoms("VARCHAR"), _atoms("VARBINARY")

LAST_NON_NULL = AggregateFunction("last_non_null_value", last_non_null_value, _any, retractable=True)
FUNCTIONS: Mapping[str, AggregateFunction] = {
    function.name: function
    for function in (
        AggregateFunction("sum", total, _numbers, retractable=True),
        AggregateFunction("product", product, _numbers, retractable=True),
        AggregateFunction("max", greatest, _ordered),
        AggregateFunction("min", least, _ordered),
        AggregateFunction("last_value", last_value, _any, retractable=True),
        LAST_NON_NULL,
        AggregateFunction("first_value", first_value, _any, restarts=False),
        AggregateFunction("first_non_null_value", first_non_null_value, _any, restarts=False),
        AggregateFunction("bool_and", every, _booleans),
        AggregateFunction("bool_or", some, _booleans),
        AggregateFunction("listagg", listagg, _texts),
        AggregateFunction("collect", collect, _arrays, retractable=True),
        AggregateFunction("merge_map", merge_map, _maps, retractable=True),
        AggregateFunction("nested_update", nested_update, _arrays_of_rows, retractable=True),
        AggregateFunction("rbm32", unions, _bytes),
        AggregateFunction("rbm64", unions, _bytes),
        AggregateFunction("hll_sketch", unions, _bytes),
        AggregateFunction("theta_sketch", unions, _bytes),
    )
}
_ALIASES = {"first_not_null_value": "first_non_null_value"}


def aggregate_function(name: str, type_: DataType, column: str) -> AggregateFunction:
    """Return the function with this name; ConfigError if it is unknown or does not accept the column's type."""
    function = FUNCTIONS.get(_ALIASES.get(name, name))
    if function is None:
        hint = did_you_mean(name, FUNCTIONS, f"choices are {', '.join(sorted(FUNCTIONS))}")
        raise ConfigError(f"{name!r} is not an aggregate function", column=column, hint=hint)
    if not function.accepts(type_):
        raise ConfigError(
            f"the aggregate function {function.name} does not support the type of this column",
            column=column,
            type=written(type_),
            hint="choose another function for the column, or change its type",
        )
    return function


def aggregate_column(inputs: Inputs) -> Result:
    """Return a column merged by its function.

    RetractRefused when a row is retracted and the function does not support it.
    """
    if inputs.aggregate.ignore_retract:
        inputs = replace(inputs, retracts=np.zeros(inputs.work.size, np.bool_))
    elif inputs.retracts.any():
        check_retractable(inputs.name, inputs.aggregate)
    function = inputs.aggregate.function
    return function.merge(_with_restart(inputs) if function.restarts else inputs)


def _with_restart(inputs: Inputs) -> Inputs:
    if inputs.restart is None:
        return inputs
    adds = inputs.adds.copy()
    adds[inputs.restart[inputs.restart >= 0]] = True
    return replace(inputs, adds=adds)
