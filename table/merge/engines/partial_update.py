"""The merge engine `partial-update`: a null never overwrites a value, and groups of columns have their own sequence."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from penstock.errors import ConfigError
from penstock.row_kinds import DELETE, RowKinds
from penstock.table.merge.aggregates.function import Aggregate
from penstock.table.merge.aggregates.registry import LAST_NON_NULL
from penstock.table.merge.engine_rows import EngineRows
from penstock.table.merge.engines.column_options import column_aggregates, named_columns
from penstock.table.merge.engines.sequence_groups import merge_sequence_groups, plain_picks, result_kinds
from penstock.table.merge.incoming_kinds import RetractRefused, check_retractable, check_retracts
from penstock.table.merge.key_groups import KIND, KeyGroups
from penstock.table.merge.outcome import MergeOutcome, Outcome
from penstock.table.merge.spec import MergeEngine, MergeSpec, MovedKey, SequenceGroup
from penstock.table.options.merge_engines import (
    AGGREGATE_OPTIONS,
    FIELD_SEQUENCE_GROUP,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP,
)
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.buffers import Flags


def _merge(spec: MergeSpec, groups: KeyGroups, chosen: Flags) -> Outcome:
    return Outcome.by_column(groups, chosen, partial(_merge_columns, spec))


def _merge_columns(spec: MergeSpec, work: EngineRows) -> MergeOutcome:
    """Merge rows so that a null never overwrites a value.

    A -D row removes the key if the table's options say so. A following -U row makes it visible again, as in Java.
    """
    if spec.groups:
        return merge_sequence_groups(spec, work)
    check_retracts(spec, work.kinds)
    adds = ~work.retract
    removed = work.last(work.kinds == DELETE)
    counted = adds & (np.arange(work.size) > work.per_row(removed))
    kinds = result_kinds(work, adds, work.kinds[work.ends - 1] == DELETE)
    # A NOT NULL column needs a value even if no counted row has one. Java uses the row that removed the key,
    # otherwise the first row of the key.
    base = np.where(removed >= 0, removed, work.starts)
    names = [name for name in work.table.column_names if name != KIND]
    return MergeOutcome(kinds, plain_picks(spec, work, counted, base, names))


def _configure(spec: MergeSpec, schema: TableSchema) -> MergeSpec:
    groups = _groups(schema)
    sequences = {name for group in groups for name in group.fields}
    aggregates = column_aggregates(spec, schema, sequences, None)
    _check_aggregates(groups, aggregates)
    _check_removal(spec, groups)
    return replace(spec, groups=groups, aggregates=aggregates)


def _groups(schema: TableSchema) -> tuple[SequenceGroup, ...]:
    options, removal = schema.typed, PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP
    removing = set(named_columns(schema, removal.key, options[removal]))
    groups = []
    for names, group in options.matching(FIELD_SEQUENCE_GROUP):
        fields = named_columns(schema, group.key, tuple(names.split(",")))
        columns = tuple(name for name in named_columns(schema, group.key, options[group]) if name not in fields)
        groups.append(SequenceGroup(fields, columns, bool(removing & set(fields))))
    _check_groups(schema, groups)
    stray = removing - {name for group in groups for name in group.fields}
    if stray:
        raise ConfigError(
            f"{removal.key} names a column that is not the sequence field of a group",
            column=min(stray),
            hint="name a column before .sequence-group of an option fields.<column>.sequence-group",
        )
    return tuple(groups)


def _check_groups(schema: TableSchema, groups: list[SequenceGroup]) -> None:
    taken: set[str] = set()
    for group in groups:
        for name in (*group.fields, *group.columns):
            if name in taken:
                raise ConfigError(
                    "a column belongs to two sequence groups",
                    column=name,
                    hint="leave it out of one of the two options",
                )
            if name in schema.primary_keys:
                raise ConfigError(
                    "a primary key column cannot be in a sequence group",
                    column=name,
                    hint="leave it out of the group: the key of a row does not change",
                )
            taken.add(name)


def _check_aggregates(groups: tuple[SequenceGroup, ...], aggregates: dict[str, Aggregate]) -> None:
    grouped = {name for group in groups for name in group.columns}
    for column, aggregate in aggregates.items():
        # Naming last_non_null_value is allowed, because the engine treats a column without a function in the same way.
        if column not in grouped and aggregate.function != LAST_NON_NULL:
            raise ConfigError(
                "a column of a partial-update table has an aggregate function, but no sequence group",
                paimon_message="Must use sequence group for aggregation functions",
                column=column,
                function=aggregate.function.name,
                hint=f"name {column} in a fields.<sequence>.sequence-group option",
            )


def _check_removal(spec: MergeSpec, groups: tuple[SequenceGroup, ...]) -> None:
    on_delete = PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE.key
    on_group = PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP.key
    removes_on_group = any(group.removes for group in groups)
    for clash, first, second in (
        (spec.remove_on_delete and groups, "sequence groups", on_delete),
        (spec.remove_on_delete and spec.ignore_delete, "ignore-delete", on_delete),
        (removes_on_group and spec.ignore_delete, "ignore-delete", on_group),
    ):
        if clash:
            raise ConfigError(f"{first} contradicts {second}", hint="leave one of the two out")


def _check_retracts(spec: MergeSpec, _kinds: RowKinds) -> None:
    if not (spec.remove_on_delete or spec.groups):
        raise RetractRefused(
            "a table with merge-engine = partial-update cannot apply -U and -D rows",
            hint="set ignore-delete, partial-update.remove-record-on-delete, or define sequence groups",
        )
    for column, aggregate in spec.aggregates.items():
        check_retractable(column, aggregate)


def _check_options(_options: TableOptions) -> None:
    """Accept all."""


PARTIAL_UPDATE = MergeEngine(
    name="partial-update",
    merge=_merge,
    configure=_configure,
    check_retracts=_check_retracts,
    check_options=_check_options,
    moved_key=MovedKey.STAYS,
    removes_by=PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE,
    null_means_unchanged=True,
    own_options=(
        *AGGREGATE_OPTIONS,
        FIELD_SEQUENCE_GROUP,
        PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE,
        PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP,
    ),
    needs_changelog_as="Partial update",
)
