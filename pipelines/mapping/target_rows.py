"""Rows with the row kinds that their target table's options need, and the sources that a table can store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from penstock.errors import ConfigError, SchemaConflict
from penstock.formats.change import ChangeBatch, RowBatch, SourceSchema
from penstock.pipelines.mapping.target_images import needs_before
from penstock.row_kinds import INSERT, is_retract
from penstock.schema_evolution.drift import ColumnRules, drift_of
from penstock.schema_evolution.expectations import Expectation
from penstock.schema_evolution.row_versions import check_history
from penstock.schema_evolution.soft_deletes import check_marks
from penstock.schema_evolution.transforms import Transform
from penstock.table.merge.engines.aggregation import AGGREGATION
from penstock.table.merge.engines.registry import merge_engine, merge_spec
from penstock.table.merge.incoming_kinds import RetractRefused, check_retracts, kept_rows, row_kinds
from penstock.table.merge.spec import MergeSpec
from penstock.table.schema.table_schema import TableSchema

_SCHEMAS_KEPT = 4096


def as_append(batch: RowBatch) -> RowBatch:
    """Return the rows for a table without keys: only new rows. Deletes and the old images of updates are dropped."""
    retracts = is_retract(batch.kinds)
    kept = batch.filter(~retracts) if retracts.any() else batch
    return replace(kept, kinds=np.full(len(kept), INSERT, np.int8))


def as_upsert(batch: RowBatch, table: TableSchema, *, marks: bool) -> RowBatch:
    """Return the rows for a table with keys, with the kinds that its options ask for.

    With `marks`, deletes came as updates: the old rows of updates that the table would refuse are left out.
    """
    merge = _merge(table)
    # The kinds may come from a column of the rows. Rows that the table ignores are removed before the others are
    # checked.
    batch = replace(batch, kinds=row_kinds(merge, pa.Table.from_batches([batch.rows]), batch.kinds))
    kept = kept_rows(merge, batch.kinds)
    if kept is not None:
        batch = batch.filter(kept)
    try:
        check_retracts(merge, batch.kinds)
    except RetractRefused:
        if not marks:
            raise
        return batch.filter(~is_retract(batch.kinds))
    return batch


@lru_cache(maxsize=_SCHEMAS_KEPT)
def _merge(table: TableSchema) -> MergeSpec:
    return merge_spec(table)


@lru_cache(maxsize=_SCHEMAS_KEPT)
def check_marks_of(source: str, table: TableSchema) -> None:
    """Raise ConfigError if a table lacks the columns of soft deletes. Cached per table schema."""
    check_marks(f"of {source}", table)


@lru_cache(maxsize=_SCHEMAS_KEPT)
def check_history_of(source: str, table: TableSchema) -> None:
    """Raise ConfigError if a table lacks the columns of row versions. Cached per table schema."""
    check_history(f"of {source}", table)


def check_masked_key(transform: Transform | None, source: SourceSchema, table: TableSchema, rules: ColumnRules) -> None:
    """Raise ConfigError if a mask gives different rows of a source table the same key.

    An aggregate is meant to make one row of many. Columns beside the whole key of the source tell no rows apart.
    """
    masks = {} if transform is None else transform.masks or {}
    merging = {rules.name(name): name for name, mask in masks.items() if not mask.keeps_distinct}
    alike = next((merging[key] for key in table.primary_keys if key in merging), None)
    if alike is None or merge_engine(table.typed) is AGGREGATION:
        return
    own = {rules.name(name) for name in source.primary_keys}
    if not own or not own <= set(table.primary_keys) - merging.keys():
        raise ConfigError(
            f"the mask {masks[alike]} on {alike!r}, a column of the table's key, makes one row of different rows",
            source=f"{source.database}.{source.table}",
            key=", ".join(table.primary_keys),
            hint=f"mask it by sha256, which keeps different values different, or choose primary-keys without {alike}",
        )


def check_retracts_of_dropped(
    batch: RowBatch, table: TableSchema, source: str, expectations: Sequence[Expectation]
) -> None:
    """Raise ConfigError if old rows would undo values that a quality rule kept out of an aggregate.

    A message does not say whether its old row was added: its rule may have left it out, or an update before it.
    """
    if not _undoes_old_rows(table):
        return
    rule = next((expectation for expectation in expectations if expectation.action in {"drop", "dead-letter"}), None)
    if rule is not None and is_retract(batch.kinds).any():
        raise ConfigError(
            "the target table undoes old rows in its aggregates, and a quality rule may have left these rows out",
            source=source,
            rule=rule.name,
            hint="write the condition as the filter of a transform, which is applied to old rows too; or write the rows"
            " to a table with  changelog-producer: lookup,  and aggregate that one",
        )


def check_retracts_by_clock(change: ChangeBatch, table: TableSchema) -> None:
    """Raise ConfigError if old rows would undo values that a filter by the time may have kept out of an aggregate."""
    if _undoes_old_rows(table) and is_retract(change.kinds).any():
        raise ConfigError(
            "the target table undoes old rows in its aggregates, and its filter depends on the time at which a row is"
            " read, so that it does not say whether an old row was added",
            source=f"{change.schema.database}.{change.schema.table}",
            hint="filter by columns and constants; or write the rows to a table with  changelog-producer: lookup,  and"
            " aggregate that one",
        )


def _undoes_old_rows(table: TableSchema) -> bool:
    if not (table.primary_keys and merge_engine(table.typed).needs_before_images):
        return False
    return not all(aggregate.ignore_retract for aggregate in _merge(table).aggregates.values())


def check_retracts_with_lookups(
    change: ChangeBatch, table: TableSchema, transform: Transform, keys: Collection[str]
) -> None:
    """Raise ConfigError if old rows would undo other values than were added, as lookups find values of today.

    `keys` are the columns of the source that the primary key of the table depends on.
    """
    source = f"{change.schema.database}.{change.schema.table}"
    if is_retract(change.kinds).any() and needs_before(table):
        raise ConfigError(
            "the target table needs the old rows of updates as they were, and a lookup finds today's columns",
            source=source,
            hint="write the rows with these columns to a table with  changelog-producer: lookup,  and fill this one"
            " from there",
        )
    if transform.uses_lookups(keys) and (change.kinds != INSERT).any():
        raise ConfigError(
            "the key of the target table has columns of a lookup, and an update or a delete finds today's columns:"
            " the row that it changes may be under another key",
            table_key=", ".join(table.primary_keys),
            source=source,
            hint="let  primary-keys  be columns of the source; a partition column need not be one of them if"
            " bucket is -1",
        )


# A task compares the same few pairs of schemas for each chunk. Schemas are frozen, so they can be keys of a cache.
@lru_cache(maxsize=_SCHEMAS_KEPT)
def can_store(source: SourceSchema, table: TableSchema, rules: ColumnRules) -> bool:
    """Return whether the table can store all that the source declares. Cached per pair of schemas."""
    try:
        return drift_of(source, "", table, rules).is_none
    except SchemaConflict:  # the driver reports the conflict, or leaves the table out
        return False
