"""Evaluation of expressions on whole columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.schema_evolution.expressions.functions import FUNCTIONS
from penstock.schema_evolution.expressions.nodes import Call, Case, Cast, ColumnReference, Literal, Node
from penstock.schema_evolution.expressions.operators import common, operate, texts
from penstock.schema_evolution.expressions.time_functions import Moment
from penstock.schema_evolution.text_casts import Misfits
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.value_casts import fit_column
from penstock.table.values.types import AtomicType, DataType, Field

Values = Any  # an Arrow array, or a scalar when the expression is constant


def evaluated(node: Node, columns: Mapping[str, pa.Array], moment: Moment, misfits: Misfits) -> pa.Array:
    """Return a value for every row.

    Texts that a cast cannot read become null, and their rows are recorded in `misfits`.
    """
    value = _Evaluation(columns, moment, misfits).of(node)
    if isinstance(value, pa.ChunkedArray):
        return value.combine_chunks()
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, moment.rows)
    return value


_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT"})


def _is_fractional(type_: pa.DataType) -> bool:
    return bool(pa.types.is_floating(type_) or pa.types.is_decimal(type_))


class _Evaluation:
    """The evaluation of an expression on the columns of one batch."""

    def __init__(self, columns: Mapping[str, pa.Array], moment: Moment, misfits: Misfits) -> None:
        self._columns, self._moment, self._misfits = columns, moment, misfits

    def of(self, node: Node) -> Values:
        match node:
            case Literal(value):
                return pa.scalar(value)
            case ColumnReference(name):
                return self._column(name)
            case Call(name, arguments):
                return self._call(name, [self.of(argument) for argument in arguments])
            case Cast(value, type_, tries):
                return self._cast(self.of(value), type_, Misfits() if tries else self._misfits)
            case Case(branches, default):
                return self._case(
                    [(self.of(condition), self.of(value)) for condition, value in branches], self.of(default)
                )

    def _column(self, name: str) -> pa.Array:
        found = self._columns.get(name)
        if found is None:
            raise ConfigError(f"column {name!r} does not exist", hint=f"the columns are {', '.join(self._columns)}")
        return found

    def _call(self, name: str, arguments: list[Values]) -> Values:
        try:
            value = operate(name, arguments)
            return FUNCTIONS[name].values(arguments, self._moment) if value is None else value
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as reason:
            types = ", ".join(str(values.type) for values in arguments)
            raise ConfigError(
                f"{name} does not accept {types}: {reason}", hint="convert the argument with CAST(x AS type)"
            ) from reason

    def _cast(self, value: Values, type_: DataType, misfits: Misfits) -> Values:
        if isinstance(type_, AtomicType) and type_.root == "VARCHAR" and not pa.types.is_binary(value.type):
            value = texts(value)
        if _is_fractional(value.type) and isinstance(type_, AtomicType) and type_.root in _INTEGERS:
            value = pc.trunc(value)  # as Flink and Spark do
        constant = isinstance(value, pa.Scalar)
        column = pa.repeat(value, 1) if constant else value
        fitted = fit_column(column, Field(-1, "cast", type_), TypeMapping(), misfits)
        return fitted[0] if constant else fitted

    def _case(self, branches: list[tuple[Values, Values]], default: Values) -> Values:
        values = common([*(value for _, value in branches), default])
        result = values[-1]
        # From the last branch to the first, so that the first true condition decides.
        for (condition, _), value in zip(reversed(branches), reversed(values[:-1]), strict=True):
            result = pc.if_else(pc.fill_null(condition, pa.scalar(value=False)), value, result)
        return result
