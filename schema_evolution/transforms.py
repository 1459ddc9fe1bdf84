"""Transforms: filters, projections and masks on batches of changes, before they are routed to tables.

An update whose row no longer matches the filter becomes a delete, and one whose row starts to match becomes an insert.
An update that changes the key is split into a delete and an insert.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.formats.change import BadRecord, ChangeBatch, SourceField
from penstock.row_kinds import RowKinds
from penstock.schema_evolution.expression_columns import ExpressionColumns
from penstock.schema_evolution.expressions.nodes import Item, Node
from penstock.schema_evolution.expressions.parse import parse_expression, parse_projection
from penstock.schema_evolution.fit import whole_messages
from penstock.schema_evolution.masks import Mask
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.types.source import TYPED
from penstock.schema_evolution.update_images import Flags, follow_filter, split_key_changes
from penstock.table_pattern import TablePattern


@dataclass(frozen=True, slots=True)
class Transform:
    """The transformation of the changes of all source tables that match `tables`."""

    tables: TablePattern
    projection: tuple[Item, ...] = ()
    filter: Node | None = None
    masks: Mapping[str, Mask] | None = None
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    constants: tuple[tuple[str, str], ...] = ()
    looks_up: bool = False  # columns of dimensions are added first
    drops_misses: bool = False  # rows without a row in a dimension are left out

    @classmethod
    def of(
        cls,
        tables: str,
        projection: str | None = None,
        filter_: str | None = None,
        masks: Mapping[str, str] | None = None,
        primary_keys: tuple[str, ...] = (),
        partition_keys: tuple[str, ...] = (),
        options: Mapping[str, str] | None = None,
    ) -> Transform:
        return cls(
            TablePattern.of(tables),
            parse_projection(projection) if projection else (),
            parse_expression(filter_) if filter_ else None,
            {name: Mask.of(text) for name, text in (masks or {}).items()},
            primary_keys,
            partition_keys,
            tuple(sorted((options or {}).items())),
        )

    @property
    def needs_before(self) -> bool:
        """Return whether the transform needs the before image of every update."""
        return self.filters or bool(self.primary_keys or self.partition_keys)

    @property
    def filters(self) -> bool:
        """Return whether the transform leaves out rows."""
        return self.filter is not None or self.drops_misses

    def applied(
        self, change: ChangeBatch, mapping: TypeMapping, now_millis: int, zone: str = "UTC"
    ) -> tuple[ChangeBatch, list[BadRecord]]:
        """Return the transformed batch, and the messages refused because an expression could not read a value.

        ConfigError for an expression that does not fit the columns.
        """
        work = ExpressionColumns(change, mapping, now_millis, zone)
        columns = list(work.projected(self.projection, self.masks or {}))
        kinds, kept = change.kinds.copy(), np.ones(len(change), np.bool_)
        if self.filter is not None:
            follow_filter(change, work.flags(self.filter, self.projection), kinds, kept)
        keys = [*(self.primary_keys or change.schema.primary_keys), *self.partition_keys]
        if self.primary_keys or self.partition_keys:
            moving = [column for field, column in columns if field.name in keys]
            split_key_changes(change, moving, kinds, kept)
        whole, bad = whole_messages(change, work.misfits)
        if whole is not None:
            kept &= whole
        return _taken(change, columns, kinds, kept, self.primary_keys), list(bad)


def with_constants(change: ChangeBatch, constants: tuple[tuple[str, str], ...]) -> ChangeBatch:
    """Return the batch with columns that contain one constant text each, such as the name of the shard."""
    if not constants:
        return change
    names = {name for name, _ in constants}
    kept = [place for place, one in enumerate(change.schema.fields) if one.name not in names]
    fields = [change.schema.fields[place] for place in kept]
    columns = [change.rows.column(place) for place in kept]
    for name, value in constants:
        fields.append(SourceField(name, f"{TYPED}STRING"))
        columns.append(pa.repeat(pa.scalar(value), len(change)))
    batch = pa.RecordBatch.from_arrays(columns, names=[one.name for one in fields])
    return replace(change, schema=replace(change.schema, fields=tuple(fields)), rows=batch)


def _taken(
    change: ChangeBatch,
    columns: list[tuple[SourceField, pa.Array]],
    kinds: RowKinds,
    kept: Flags,
    primary_keys: tuple[str, ...],
) -> ChangeBatch:
    fields = tuple(field for field, _ in columns)
    names = [field.name for field in fields]
    # A projection without a column of the key leaves no key: the remaining columns may be equal for distinct rows.
    own = change.schema.primary_keys if set(change.schema.primary_keys) <= set(names) else ()
    schema = replace(change.schema, fields=fields, primary_keys=primary_keys or own)
    batch = pa.RecordBatch.from_arrays([column for _, column in columns], names=names)
    transformed = replace(change, schema=schema, rows=batch, kinds=kinds)
    return transformed if kept.all() else transformed.filter(kept)
