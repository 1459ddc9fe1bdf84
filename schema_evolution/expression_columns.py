"""The columns of a batch of changes as its expressions use them: typed values, origins of rows, computed columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError, PenstockError
from penstock.formats.change import ChangeBatch, SourceField, SourceSchema
from penstock.row_kinds import kind_texts
from penstock.schema_evolution.expressions.evaluate import evaluated
from penstock.schema_evolution.expressions.nodes import ColumnReference, Item, Node, columns_of
from penstock.schema_evolution.expressions.time_functions import Moment
from penstock.schema_evolution.masks import Mask
from penstock.schema_evolution.text_casts import Misfits
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.types.source import TYPED, paimon_type, typed
from penstock.schema_evolution.update_images import Flags
from penstock.schema_evolution.value_casts import fit_column
from penstock.schema_evolution.wide_types import narrowed, wide_type, without_length
from penstock.table.values.arrow_types import from_arrow
from penstock.table.values.types import Field

# Names by which expressions refer to a row's origin: those of Flink CDC, and those of its `metadata.list`. A column of
# the source with one of the `metadata.list` names takes precedence.
_NAMED = ("__schema_name__", "__table_name__", "__namespace_name__", "__data_event_type__")
_LISTED = ("op_ts", "table_name", "database_name")
ORIGINS = (*_NAMED, *_LISTED)


class ExpressionColumns:
    """The columns of a batch that expressions use, in declared types, each computed when it is first used.

    With `wide`, numbers that the declared type cannot store are read in a wider one: a condition does not decide
    whether a value fits, the column of the table does. The types of computed columns follow from the declared ones.
    """

    def __init__(
        self, change: ChangeBatch, mapping: TypeMapping, now_millis: int, zone: str, *, wide: bool = False
    ) -> None:
        self._change, self._mapping, self._wide = change, mapping, wide
        self._moment = Moment(now_millis, len(change), zone)
        self._places = {field.name: place for place, field in enumerate(change.schema.fields)}
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

    def flags(self, condition: Node, made: tuple[Item, ...] = ()) -> Flags:
        """Return which rows match a condition. As in SQL, a condition that is null does not match."""
        values = self.value(condition, made)
        if not pa.types.is_boolean(values.type):
            raise ConfigError(
                f"a condition must be true or false, and this one is {values.type}",
                hint="compare the value: x > 0, x = 'paid' or x is not null",
            )
        flags: Flags = pc.fill_null(values, fill_value=False).to_numpy(zero_copy_only=False)
        return flags

    def projected(self, items: tuple[Item, ...], masks: Mapping[str, Mask]) -> Iterator[tuple[SourceField, pa.Array]]:
        """Return the columns of a projection; source columns without an expression and a mask are unchanged."""
        named = {item.name for item in items}
        for item in items or (Item("*"),):
            if item.value is None:
                # `*` leaves out the columns that another item computes under the same name.
                for source_field in self._change.schema.fields:
                    if source_field.name not in named:
                        yield self._masked(source_field, masks)
            elif isinstance(item.value, ColumnReference) and item.value.name in self._places:
                declared = self._change.schema.fields[self._places[item.value.name]]
                yield self._masked(replace(declared, name=item.name), masks, item.value.name)
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
        try:
            values = self.value(node)
        except PenstockError as error:
            error.facts.setdefault("computed_column", name)
            raise
        type_ = pa.string() if pa.types.is_null(values.type) else values.type
        declared = typed(from_arrow(type_, nullable=True))
        return SourceField(name, declared), pc.cast(values, type_)

    def _column(self, name: str) -> pa.Array:
        if name not in self._typed:
            self._typed[name] = self._made(name)
        return self._typed[name]

    def _made(self, name: str) -> pa.Array:
        change = self._change
        if name in _NAMED or (name in _LISTED and name not in self._places):
            return self._origin(name)
        if name not in self._places:
            check_columns([name], change.schema)
            # None of these rows has the column.
            return pa.nulls(len(change), pa.string())
        place = self._places[name]
        field = change.schema.fields[place]
        type_ = without_length(paimon_type(change.schema.dialect, field, self._mapping))
        given, misfits = change.rows.column(place), Misfits()
        values = fit_column(given, Field(-1, name, type_), self._mapping, misfits)
        if misfits.reasons and self._wide and (wider := wide_type(type_)) is not None:
            misfits = Misfits()
            values = narrowed(fit_column(given, Field(-1, name, wider), self._mapping, misfits))
        for row, reason in misfits.reasons.items():
            self.misfits.reasons.setdefault(row, reason)
        self.misfits.nulled += misfits.nulled
        return values

    def _origin(self, name: str) -> pa.Array:
        schema, rows = self._change.schema, len(self._change)
        match name:
            case "op_ts":
                # -1 means that the row has no time, as one that was copied. Flink CDC has 0 too.
                return pa.array(np.maximum(self._change.event_times, 0))
            case "__table_name__" | "table_name":
                return pa.repeat(pa.scalar(schema.table, pa.string()), rows)
            case "__data_event_type__":
                return kind_texts(pa.array(self._change.kinds))
        return pa.repeat(pa.scalar(schema.database, pa.string()), rows)


def may_lack_columns(schema: SourceSchema) -> bool:
    """Return whether rows may lack columns that others of their table have, because their source declares none."""
    return schema.dialect == "text"


def check_columns(names: Iterable[str], schema: SourceSchema, *, strictly: bool = False) -> None:
    """Raise ConfigError if an expression uses another name than a column of these rows.

    Rows of a source that declares no types may lack columns that others of their table have. They are then null, unless
    this is to be decided `strictly`: the schema is the schema of the whole table, if there is one.
    """
    if schema.is_partial or (not strictly and may_lack_columns(schema)):
        return
    known = [*(field.name for field in schema.fields), *ORIGINS]
    for name in names:
        if name not in known:
            table = f"{schema.database}.{schema.table}"
            raise ConfigError(
                f"an expression uses {name!r}, which is not a column of {table}",
                hint=f"the columns are {', '.join(known)}",
            )


def matching_rows(
    change: ChangeBatch, condition: Node, mapping: TypeMapping, now_millis: int, zone: str, misfits: Misfits
) -> Flags:
    """Return which rows match a condition. Rows with values that it cannot read are recorded in `misfits`."""
    work = ExpressionColumns(change, mapping, now_millis, zone, wide=True)
    flags = work.flags(condition)
    for row, reason in work.misfits.reasons.items():
        misfits.reasons.setdefault(row, reason)
    return flags


def typed_columns(change: ChangeBatch, names: Sequence[str], mapping: TypeMapping, zone: str) -> list[pa.Array]:
    """Return columns of the batch in the types that their source declares; null where a value cannot be read."""
    work = ExpressionColumns(change, mapping, 0, zone)
    return [work.value(ColumnReference(name)) for name in names]


def _with_mask(field: SourceField, values: pa.Array, mask: Mask) -> tuple[SourceField, pa.Array]:
    return replace(field, type=f"{TYPED}STRING"), mask.values(values)
