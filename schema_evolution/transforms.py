"""Transforms: filters, projections and masks on batches of changes, before they are routed to tables.

An update becomes a delete if its row no longer matches the filter, and an insert if only the new row matches. An update
that changes the key is split into a delete and an insert.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.formats.change import BadRecord, ChangeBatch, SourceField, SourceSchema
from penstock.formats.demand import Demand
from penstock.row_kinds import RowKinds, is_retract
from penstock.schema_evolution.expression_columns import ORIGINS, ExpressionColumns
from penstock.schema_evolution.expressions.nodes import Call, Dialect, Item, Node, children, columns_of
from penstock.schema_evolution.expressions.parse import parse_expression, parse_projection
from penstock.schema_evolution.fit import whole_messages
from penstock.schema_evolution.masks import Mask
from penstock.schema_evolution.source_conditions import SourceConditions
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.types.source import TYPED, paimon_type
from penstock.schema_evolution.update_images import Flags, follow_filter, key_only_deletes, split_key_changes
from penstock.table_pattern import TablePattern

_KIND = "__data_event_type__"
_CLOCKS = frozenset({"now", "current_timestamp", "localtimestamp", "localtime", "current_time", "current_date"})


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
    looked_up: frozenset[str] = frozenset()  # columns of dimensions, which are added first
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
        dialect: Dialect = "sql",
    ) -> Transform:
        return cls(
            TablePattern.of(tables),
            parse_projection(projection, dialect) if projection else (),
            parse_expression(filter_, dialect) if filter_ else None,
            {name: Mask.of(text) for name, text in (masks or {}).items()},
            primary_keys,
            partition_keys,
            tuple(sorted((options or {}).items())),
        )

    @property
    def looks_up(self) -> bool:
        """Return whether columns of dimensions are added."""
        return bool(self.looked_up)

    @property
    def needs_before(self) -> bool:
        """Return whether the transform needs the before image of every update."""
        return self.filters or bool(self.primary_keys or self.partition_keys)

    @property
    def filters(self) -> bool:
        """Return whether the transform leaves out rows."""
        return self.filter is not None or self.drops_misses

    @property
    def moving_columns(self) -> frozenset[str]:
        """Return the columns of the projection that depend on the time or the kind of a change."""
        return frozenset(
            item.name for item in self.projection if item.value is not None and depends_on_change(item.value)
        )

    @property
    def clear_uses(self) -> Mapping[str, tuple[str, ...]]:
        """Return the masked columns whose values a column of the projection has or uses without a mask."""
        masks = self.masks or {}
        used = {
            item.name: tuple(sorted(masks.keys() & columns_of(item.value)))
            for item in self.projection
            if item.value is not None and item.name not in masks
        }
        return {name: columns for name, columns in used.items() if columns}

    @property
    def filters_by_clock(self) -> bool:
        """Return whether the filter depends on the time at which a change is read.

        Not if it also depends on the kind of the change: such a filter decides what happens to deletes.
        """
        if self.filter is None:
            return False
        names = set(columns_of(self.filter))
        nodes = [
            self.filter,
            *(item.value for item in self.projection if item.value is not None and item.name in names),
        ]
        return any(map(_reads_clock, nodes)) and not any(_KIND in columns_of(node) for node in nodes)

    @property
    def filter_moves(self) -> bool:
        """Return whether the filter depends on lookups, or on the time or the kind of a change."""
        return self.filters and (self.looks_up or (self.filter is not None and depends_on_change(self.filter)))

    def demand(
        self,
        schema: SourceSchema,
        mapping: TypeMapping,
        besides: frozenset[str] = frozenset(),
        added: frozenset[str] = frozenset(),
    ) -> Demand:
        """Return the part of a source table that the transform needs.

        `besides` are columns that others need, `added` are columns that others add to the rows before.
        """
        types = {field.name: paimon_type(schema.dialect, field, mapping) for field in schema.fields}
        condition = None if self.filter is None else SourceConditions(types, self.projection).implied(self.filter)
        items = self.projection or (Item("*"),)
        made = {item.name for item in items}
        used = {*besides, *schema.primary_keys}
        used.update(name for item in items if item.value is not None for name in columns_of(item.value))
        filtering = set(columns_of(self.filter)) if self.filter is not None else set()
        lists = all(item.value is not None for item in items)
        # `*` leaves out the columns that another item computes under the same name.
        columns = {*used, *filtering, *(() if lists else types.keys() - made)} & types.keys()
        unknown = (used | filtering - made) - types.keys() - added - {*ORIGINS}
        return Demand(None if len(columns) == len(types) else frozenset(columns), condition, lists, frozenset(unknown))

    def applied(
        self, change: ChangeBatch, mapping: TypeMapping, now_millis: int, zone: str = "UTC"
    ) -> tuple[ChangeBatch, list[BadRecord]]:
        """Return the transformed batch, and the messages refused because an expression could not read a value.

        ConfigError for an expression that does not fit the columns.
        """
        try:
            return self._applied(change, mapping, now_millis, zone)
        except PenstockError as error:
            error.facts.setdefault("source", f"{change.schema.database}.{change.schema.table}")
            raise

    def _applied(
        self, change: ChangeBatch, mapping: TypeMapping, now_millis: int, zone: str
    ) -> tuple[ChangeBatch, list[BadRecord]]:
        work = ExpressionColumns(change, mapping, now_millis, zone)
        columns = list(work.projected(self.projection, self.masks or {}))
        kinds, kept = change.kinds.copy(), np.ones(len(change), np.bool_)
        if self.filter is not None:
            conditions = ExpressionColumns(change, mapping, now_millis, zone, wide=True)
            passes = conditions.flags(self.filter, self.projection)
            for row, reason in conditions.misfits.reasons.items():
                work.misfits.reasons.setdefault(row, reason)
            if self._filters_beside(change.schema.primary_keys):
                # Whether the row was in the table is unknown. Deleting a row that does not exist is harmless.
                passes = passes | key_only_deletes(change)
            if self.uses_lookups(columns_of(self.filter)) or self.filters_by_clock:
                # When the old row was written, the time was another one, and the dimension may have had other values.
                # The same holds for this one.
                passes = passes | is_retract(kinds)
            follow_filter(change, passes, kinds, kept)
        keys = [*(self.primary_keys or change.schema.primary_keys), *self.partition_keys]
        if self.primary_keys or self.partition_keys:
            moving = [column for field, column in columns if field.name in keys]
            split_key_changes(change, moving, kinds, kept)
        whole, bad = whole_messages(change, work.misfits)
        if whole is not None:
            kept &= whole
        return _taken(change, columns, kinds, kept, self.primary_keys), list(bad)

    def _filters_beside(self, keys: Sequence[str]) -> bool:
        """Return whether the filter uses other columns than the key and the origin of a row."""
        if self.filter is None:
            return False
        return not self._used_by(columns_of(self.filter)) <= {*keys, *ORIGINS}

    def uses_lookups(self, names: Iterable[str]) -> bool:
        """Return whether one of these columns, of the rows before or after the transform, depends on a dimension."""
        return bool(self.looked_up) and not self.looked_up.isdisjoint(self._used_by(names))

    def _used_by(self, names: Iterable[str]) -> set[str]:
        """Return the columns from which the projection makes these."""
        made = {item.name: item.value for item in self.projection if item.value is not None}
        used: set[str] = set()
        for name in names:
            used |= set(columns_of(made[name])) if name in made else {name}
        return used


def depends_on_change(node: Node) -> bool:
    """Return whether an expression depends on the time or the kind of a change."""
    return _reads_clock(node) or not {"op_ts", _KIND}.isdisjoint(columns_of(node))


def _reads_clock(node: Node) -> bool:
    match node:
        case Call("unix_timestamp", ()):
            return True
        case Call(name, _) if name in _CLOCKS:
            return True
    return any(map(_reads_clock, children(node)))


def with_constants(change: ChangeBatch, constants: tuple[tuple[str, str], ...]) -> ChangeBatch:
    """Return the batch with columns that contain one constant text each, such as the name of the shard."""
    if not constants:
        return change
    names = {name for name, _ in constants}
    kept = [place for place, field in enumerate(change.schema.fields) if field.name not in names]
    fields = [change.schema.fields[place] for place in kept]
    columns = [change.rows.column(place) for place in kept]
    for name, value in constants:
        fields.append(SourceField(name, f"{TYPED}STRING"))
        columns.append(pa.repeat(pa.scalar(value), len(change)))
    batch = pa.RecordBatch.from_arrays(columns, names=[field.name for field in fields])
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
