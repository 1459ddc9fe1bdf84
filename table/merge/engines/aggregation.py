"""The merge engine `aggregation`: every column is merged by its aggregate function."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from penstock.errors import ConfigError
from penstock.row_kinds import DELETE, UPDATE_BEFORE, RowKinds
from penstock.table.merge.aggregates.function import Aggregate, Inputs
from penstock.table.merge.aggregates.registry import LAST_NON_NULL, aggregate_column
from penstock.table.merge.engine_rows import EngineRows
from penstock.table.merge.engines.column_options import column_aggregates
from penstock.table.merge.incoming_kinds import check_retractable
from penstock.table.merge.key_groups import KeyGroups
from penstock.table.merge.outcome import MergeOutcome, Outcome
from penstock.table.merge.spec import MergeEngine, MergeSpec, MovedKey
from penstock.table.options.merge_engines import AGGREGATE_OPTIONS, AGGREGATION_REMOVE_RECORD_ON_DELETE
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.buffers import Flags, Ints
from penstock.table.values.types import DataType


def _merge(spec: MergeSpec, groups: KeyGroups, chosen: Flags) -> Outcome:
    return Outcome.by_column(groups, chosen, partial(_merge_columns, spec))


def _merge_columns(spec: MergeSpec, work: EngineRows) -> MergeOutcome:
    """Merge every column by its function.

    Keys and columns without a function have the value of the last row. The sequence fields have it too, unless the last
    row is a retraction.
    """
    merged = MergeOutcome(np.zeros(len(work.starts), np.int8))
    if spec.remove_on_delete:
        merged.kinds[work.kinds[work.ends - 1] == DELETE] = DELETE
    # -1 is before the first row, so that all rows of a key count that no -D row removed.
    removed = work.last(work.kinds == DELETE) if spec.remove_on_delete else np.full(len(work.starts), -1)
    last_row = work.ends - 1
    for name in spec.sequence_fields:
        merged.picks[name] = np.where(work.retract[last_row], -1, last_row)
    types = {field.name: field.type for field in spec.fields}
    for name, aggregate in spec.aggregates.items():
        if name in work.table.column_names:
            inputs = _inputs(work, name, types[name], aggregate, removed)
            merged.put(name, aggregate_column(inputs))
    return merged


def _inputs(work: EngineRows, name: str, type_: DataType, aggregate: Aggregate, removed: Ints) -> Inputs:
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


def _configure(spec: MergeSpec, schema: TableSchema) -> MergeSpec:
    aggregates = column_aggregates(spec, schema, (), LAST_NON_NULL.name)
    for column, aggregate in aggregates.items():
        if spec.remove_on_delete and aggregate.ignore_retract:
            raise ConfigError(
                "ignore-retract contradicts aggregation.remove-record-on-delete",
                column=column,
                hint="remove one of the two options",
            )
    return replace(spec, aggregates=aggregates)


def _check_retracts(spec: MergeSpec, kinds: RowKinds) -> None:
    # -D rows remove their key then, and no function has to undo them. -U rows are still retracted column by column.
    if spec.remove_on_delete and not (kinds == UPDATE_BEFORE).any():
        return
    for column, aggregate in spec.aggregates.items():
        check_retractable(column, aggregate)


def _check_options(_options: TableOptions) -> None:
    """Accept all."""


AGGREGATION = MergeEngine(
    name="aggregation",
    merge=_merge,
    configure=_configure,
    check_retracts=_check_retracts,
    check_options=_check_options,
    moved_key=MovedKey.STAYS,
    removes_by=AGGREGATION_REMOVE_RECORD_ON_DELETE,
    needs_before_images=True,
    own_options=(*AGGREGATE_OPTIONS, AGGREGATION_REMOVE_RECORD_ON_DELETE),
    needs_changelog_as="Pre-aggregate",
)
