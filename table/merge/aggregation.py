"""The merge engine `aggregation`: every column is merged by its aggregate function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.row_kinds import DELETE
from penstock.table.merge.aggregate_functions import Aggregate
from penstock.table.merge.aggregates.bitmaps import unions
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
from penstock.table.merge.inputs import Inputs, Result
from penstock.table.merge.key_groups import Ints, Work
from penstock.table.merge.outcome import Merged
from penstock.table.merge.spec import MergeSpec
from penstock.table.values.types import DataType


def merge_aggregation(spec: MergeSpec, work: Work) -> Merged:
    """Merge every column by its function.

    Keys and columns without a function have the value of the last row. So do the sequence fields, unless the last row
    is a retraction.
    """
    merged = Merged(np.zeros(len(work.starts), np.int8))
    if spec.remove_on_delete:
        merged.kinds[work.kinds[work.ends - 1] == DELETE] = DELETE
    removed = work.last(work.kinds == DELETE) if spec.remove_on_delete else np.full(len(work.starts), -1)
    last_row = work.ends - 1
    for name in spec.sequence_fields:
        merged.picks[name] = np.where(work.retract[last_row], -1, last_row)
    types = {field.name: field.type for field in spec.fields}
    for name, aggregate in spec.aggregates.items():
        if name in work.table.column_names:
            inputs = _inputs(work, name, types[name], aggregate, removed)
            put(merged, name, aggregate_column(inputs))
    return merged


def _inputs(work: Work, name: str, type_: DataType, aggregate: Aggregate, removed: Ints) -> Inputs:
    """Return the inputs of a column's function: only rows after the last one that removed the key count.

    A NOT NULL column starts with the value of the row that removed the key.
    """
    adds, retracts = ~work.retract, work.retract
    if not (removed >= 0).any():
        return Inputs(work, name, type_, aggregate, adds, retracts)
    since = np.arange(work.size) > work.per_row(removed)
    return Inputs(
        work,
        name,
        type_,
        aggregate,
        adds & since,
        retracts & since,
        forgotten=adds & ~since,
        restart=None if type_.nullable else removed,
    )


def put(merged: Merged, name: str, result: Result) -> None:
    """Add a column's result to the merged rows."""
    if isinstance(result, pa.Array):
        merged.made[name] = result
    else:
        merged.picks[name] = result


def aggregate_column(inputs: Inputs) -> Result:
    """Return a column merged by its function.

    RetractRefused when a row is retracted and the function does not support it.
    """
    if inputs.aggregate.ignore_retract:
        inputs = replace(inputs, retracts=np.zeros(inputs.work.size, np.bool_))
    elif inputs.retracts.any():
        check_retractable(inputs.name, inputs.aggregate)
    match inputs.aggregate.function:
        case "first_value":
            return first_value(inputs)
        case "first_non_null_value":
            return first_non_null_value(inputs)
        case function:
            return _MERGES[function](_with_restart(inputs))


def _with_restart(inputs: Inputs) -> Inputs:
    if inputs.restart is None:
        return inputs
    adds = inputs.adds.copy()
    adds[inputs.restart[inputs.restart >= 0]] = True
    return replace(inputs, adds=adds)


_MERGES: dict[str, Callable[[Inputs], Result]] = {
    "sum": total,
    "product": product,
    "max": greatest,
    "min": least,
    "last_value": last_value,
    "last_non_null_value": last_non_null_value,
    "bool_and": every,
    "bool_or": some,
    "listagg": listagg,
    "collect": collect,
    "merge_map": merge_map,
    "nested_update": nested_update,
    "rbm32": unions,
    "rbm64": unions,
    "hll_sketch": unions,
    "theta_sketch": unions,
}
