"""Transforms: filters, projections and masks on batches of changes, before they are routed to tables.

An update whose row no longer matches the filter becomes a delete, and one whose row starts to match becomes an insert.
An update that changes the key is split into a delete and an insert.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.formats.change import BadRecord, ChangeBatch, SourceField
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, RowKinds, kind_texts
from penstock.schema_evolution.expressions.evaluate import evaluated
from penstock.schema_evolution.expressions.nodes import ColumnReference, Item, Node, columns_of
from penstock.schema_evolution.expressions.parse import parse_expression, parse_projection
from penstock.schema_evolution.expressions.time_functions import Moment
from penstock.schema_evolution.fit import whole_messages
from penstock.schema_evolution.masks import Mask
from penstock.schema_evolution.text_casts import Misfits
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.types.source import TYPED, paimon_type, typed
from penstock.schema_evolution.value_casts import fit_column
from penstock.table.values.arrow_types import from_arrow
from penstock.table.values.types import Field
from penstock.table_pattern import TablePattern

Flags = npt.NDArray[np.bool_]
# Names by which expressions refer to a row's origin: those of Flink CDC, and those of its `metadata.list`. A column of
# the source with one of the `metadata.list` names takes precedence.
_ORIGINS = ("__schema_name__", "__table_name__", "__namespace_name__", "__data_event_type__")
_LISTED = ("op_ts", "table_name", "database_name")


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
        work = _Work(change, mapping, now_millis, zone)
        columns = list(work.projected(self.projection, self.masks or {}))
        kinds, kept = change.kinds.copy(), np.ones(len(change), np.bool_)
        if self.filter is not None:
            _follow_filter(change, _true(work.value(self.filter, self.projection)), kinds, kept)
        keys = [*(self.primary_keys or change.schema.primary_keys), *self.partition_keys]
        if self.primary_keys or self.partition_keys:
            moving = [column for field, column in columns if field.name in keys]
            _part_moved(change, moving, kinds, kept)
        whole, bad = whole_messages(change, work.misfits)
        if whole is not None:
            kept &= whole
        return _taken(change, columns, kinds, kept, self.primary_keys), list(bad)


def matching_rows(
    change: ChangeBatch, condition: Node, mapping: TypeMapping, now_millis: int, zone: str, misfits: Misfits
) -> Flags:
    """Return which rows match a condition. Rows with values that it cannot read are recorded in `misfits`."""
    work = _Work(change, mapping, now_millis, zone)
    flags = _true(work.value(condition))
    for row, reason in work.misfits.reasons.items():
        misfits.reasons.setdefault(row, reason)
    return flags


class _Work:
    """The typed columns of one batch, each computed when it is first used."""

    def __init__(self, change: ChangeBatch, mapping: TypeMapping, now_millis: int, zone: str) -> None:
        self._change, self._mapping = change, mapping
        self._moment = Moment(now_millis, len(change), zone)
        self._places = {one.name: place for place, one in enumerate(change.schema.fields)}
        self._typed: dict[str, pa.Array] = {}
        self.misfits = Misfits()

    def value(self, node: Node, made: tuple[Item, ...] = ()) -> pa.Array:
        """Evaluate an expression.

        Names in the projection `made` refer to its expressions, unless the source has a column of that name.
        """
        computed = {item.name: item.value for item in made if item.value is not None and item.name not in self._places}
        columns = {
            name: self._column(name) if (expression := computed.get(name)) is None else self.value(expression)
            for name in columns_of(node)
        }
        return evaluated(node, columns, self._moment, self.misfits)

    def projected(self, items: tuple[Item, ...], masks: Mapping[str, Mask]) -> Iterator[tuple[SourceField, pa.Array]]:
        named = {item.name for item in items}
        for item in items or (Item("*"),):
            if item.value is None:
                # `*` leaves out the columns that another item computes under the same name.
                for one in self._change.schema.fields:
                    if one.name not in named:
                        yield self._masked(one, masks)
            elif isinstance(item.value, ColumnReference) and item.value.name in self._places:
                one = self._change.schema.fields[self._places[item.value.name]]
                yield self._masked(replace(one, name=item.name), masks, item.value.name)
            else:
                field, values = self._computed(item.name, item.value)
                yield _with_mask(field, values, masks[item.name]) if item.name in masks else (field, values)

    def _masked(
        self, field: SourceField, masks: Mapping[str, Mask], source: str | None = None
    ) -> tuple[SourceField, pa.Array]:
        """Return a column unchanged, unless it has a mask."""
        name = source or field.name
        if field.name in masks:
            return _with_mask(field, self._column(name), masks[field.name])
        return field, self._change.rows.column(self._places[name])

    def _computed(self, name: str, node: Node) -> tuple[SourceField, pa.Array]:
        values = self.value(node)
        type_ = pa.string() if pa.types.is_null(values.type) else values.type
        declared = typed(from_arrow(type_, True))  # noqa: FBT003 -- nullable
        return SourceField(name, declared), pc.cast(values, type_)

    def _column(self, name: str) -> pa.Array:
        if name not in self._typed:
            self._typed[name] = self._made(name)
        return self._typed[name]

    def _made(self, name: str) -> pa.Array:
        change = self._change
        if name in _ORIGINS or (name in _LISTED and name not in self._places):
            return self._origin(name)
        if name not in self._places:
            known = ", ".join((*self._places, *_ORIGINS, *_LISTED))
            table = f"{change.schema.database}.{change.schema.table}"
            raise ConfigError(
                f"an expression uses {name!r}, which is not a column of {table}", hint=f"the columns are {known}"
            )
        place = self._places[name]
        field = change.schema.fields[place]
        type_ = paimon_type(change.schema.dialect, field, self._mapping)
        return fit_column(change.rows.column(place), Field(-1, name, type_), self._mapping, self.misfits)

    def _origin(self, name: str) -> pa.Array:
        schema, rows = self._change.schema, len(self._change)
        match name:
            case "op_ts":
                times = self._change.event_times
                # -1 means that the message has no time.
                return pa.array(times, mask=times < 0)
            case "__table_name__" | "table_name":
                return pa.repeat(pa.scalar(schema.table, pa.string()), rows)
            case "__data_event_type__":
                return kind_texts(pa.array(self._change.kinds))
        return pa.repeat(pa.scalar(schema.database, pa.string()), rows)


def typed_columns(change: ChangeBatch, names: Sequence[str], mapping: TypeMapping, zone: str) -> list[pa.Array]:
    """Return columns of the batch in the types that their source declares; null where a value cannot be read."""
    work = _Work(change, mapping, 0, zone)
    return [work.value(ColumnReference(name)) for name in names]


def filtered_by(change: ChangeBatch, passes: Flags) -> ChangeBatch:
    """Return the changes of the rows that pass a filter."""
    kinds, kept = change.kinds.copy(), np.ones(len(change), np.bool_)
    _follow_filter(change, passes, kinds, kept)
    return replace(change, kinds=kinds).filter(kept)


def _with_mask(field: SourceField, values: pa.Array, mask: Mask) -> tuple[SourceField, pa.Array]:
    return replace(field, type=f"{TYPED}STRING"), mask.values(values)


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


def _true(values: pa.Array) -> Flags:
    if not pa.types.is_boolean(values.type):
        raise ConfigError(f"a condition must be true or false, and this one is {values.type}")
    # As in SQL, a condition that is null does not match.
    flags: Flags = pc.fill_null(values, fill_value=False).to_numpy(zero_copy_only=False)
    return flags


def image_pairs(change: ChangeBatch) -> npt.NDArray[np.int64]:
    """Return the positions of before images that are directly followed by their after images."""
    kinds = change.kinds
    if len(kinds) < 2:
        return np.zeros(0, np.int64)
    starts = (
        (kinds[:-1] == UPDATE_BEFORE) & (kinds[1:] == UPDATE_AFTER) & (change.positions[:-1] == change.positions[1:])
    )
    return np.flatnonzero(starts)


def _follow_filter(change: ChangeBatch, passes: Flags, kinds: RowKinds, kept: Flags) -> None:
    """Apply the filter by changing `kinds` and `kept` in place."""
    kept &= passes
    before = image_pairs(change)
    after = before + 1
    kinds[before[passes[before] & ~passes[after]]] = DELETE
    kinds[after[~passes[before] & passes[after]]] = INSERT
    alone = kinds == UPDATE_AFTER
    alone[after] = False
    # Without its before image it is unknown whether the row matched before. Deleting a row that does not exist is
    # harmless.
    left = alone & ~passes
    kinds[left] = DELETE
    kept |= left


def _part_moved(change: ChangeBatch, keys: list[pa.Array], kinds: RowKinds, kept: Flags) -> None:
    before = image_pairs(change)
    # Only updates whose two images are both left: the filter has already turned the others into deletes and
    # inserts.
    both = kept[before] & kept[before + 1] & (kinds[before] == UPDATE_BEFORE)
    before = before[both]
    if not len(before):
        return
    moved = np.zeros(len(before), np.bool_)
    for column in keys:
        old, new = column.take(pa.array(before)), column.take(pa.array(before + 1))
        same = pc.fill_null(pc.equal(old, new), fill_value=False)
        both_null = pc.and_(pc.is_null(old), pc.is_null(new))
        moved |= ~pc.or_(same, both_null).to_numpy(zero_copy_only=False)
    kinds[before[moved]] = DELETE
    kinds[before[moved] + 1] = INSERT


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
