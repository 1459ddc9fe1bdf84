"""Fitting batches of changes to a table: columns by name, values by type, plus computed and metadata columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.formats.change import BAD_VALUE, BadRecord, ChangeBatch, RowBatch, SourceSchema
from penstock.schema_evolution.computed_arguments import Columns
from penstock.schema_evolution.computed_columns import ComputedColumn
from penstock.schema_evolution.drift import ColumnRules
from penstock.schema_evolution.text_casts import Misfits, instants_of
from penstock.schema_evolution.types.source import holds_bits, holds_instants
from penstock.schema_evolution.value_casts import fit_column
from penstock.schema_evolution.value_texts import bit_texts
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.partition_text import no_folder
from penstock.table.values.types import AtomicType, Field

Extra = Callable[[ChangeBatch], pa.Array]


@dataclass(frozen=True, slots=True)
class FittedRows:
    """Rows in the table's columns and types, in message order.

    A message with a value that does not fit is in `bad`, and its rows are not in `batch`.
    """

    batch: RowBatch
    bad: tuple[BadRecord, ...] = ()
    nulled: int = 0  # values that no type can store (such as zero dates) and that became null
    inexact: int = 0  # values that a column cannot hold exactly, such as those with more digits
    dropped: int = 0  # -U and -D rows that an append table does not accept


@dataclass(frozen=True, slots=True)
class Fit:
    """The conversion of batches to rows of one version of a table.

    `extras` compute metadata columns; `computed` is sorted by dependency.

    `now_millis` is the result of now(): the same for a whole batch and for its replay. A partition value that is longer
    than `longest_name` bytes, or contains a NUL, is refused because it cannot be a folder name.
    """

    schema: TableSchema
    rules: ColumnRules
    extras: Mapping[str, Extra] = field(default_factory=dict)
    computed: tuple[ComputedColumn, ...] = ()
    now_millis: int = 0
    longest_name: int = 255
    zone: str = "UTC"  # time zone of times that have none

    def rows(self, batch: ChangeBatch) -> FittedRows:
        """Return the rows of a batch that fit, and the messages that do not."""
        misfits = Misfits()
        columns = self._columns(batch, misfits)
        self._refuse_nulls(columns, misfits)
        self._refuse_folders(columns, misfits)
        # Misfits are null until their messages are removed, so NOT NULL is only declared after that.
        arrow, nullable = _arrow_schemas(self.schema)
        rows = pa.RecordBatch.from_arrays(columns, schema=nullable)
        kept, bad = whole_messages(batch, misfits)
        fitted = RowBatch(rows, batch.kinds, batch.positions, batch.subs)
        if kept is not None:
            fitted = fitted.filter(kept)
        rows = pa.RecordBatch.from_arrays(fitted.rows.columns, schema=arrow)
        return FittedRows(replace(fitted, rows=rows), bad, misfits.nulled, misfits.inexact)

    def _columns(self, batch: ChangeBatch, misfits: Misfits) -> list[pa.Array]:
        fields = {field.name: field for field in self.schema.fields}
        computed = {column.name for column in self.computed}
        names = [self.rules.name(field.name) for field in batch.schema.fields]
        given = dict(zip(names, self._given(batch), strict=True))
        for name, column in given.items():
            if not name.strip():
                rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
                misfits.add(rows, f"a value has no valid column name: {name!r}")
        done: dict[str, pa.Array] = {}
        for wanted in self.schema.fields:
            if wanted.name not in computed:
                done[wanted.name] = self._column(wanted, batch, given.get(wanted.name), misfits)
        types, inexact = {name: field.type for name, field in fields.items()}, misfits.inexact
        # On fitted values, and in an order in which each column follows the columns that it refers to.
        for column in self.computed:
            target = fields.get(column.name)
            if target is not None:
                values = column.values(Columns(done, types, self.now_millis, misfits), len(batch))
                done[column.name] = fit_column(values, target, self.rules.mapping, misfits)
        misfits.inexact = inexact  # an expression that cuts off digits does so on purpose
        return [done[field.name] for field in self.schema.fields]

    def _given(self, batch: ChangeBatch) -> list[pa.Array]:
        columns: list[pa.Array] = batch.rows.columns
        if not self.rules.mapping.to_string:
            return columns
        dialect = batch.schema.dialect
        return [
            bit_texts(column) if pa.types.is_binary(column.type) and holds_bits(dialect, declared) else column
            for declared, column in zip(batch.schema.fields, columns, strict=True)
        ]

    def _column(self, target: Field, batch: ChangeBatch, column: pa.Array | None, misfits: Misfits) -> pa.Array:
        extra = self.extras.get(target.name)
        if extra is not None:
            column = extra(batch)
        if column is None or pa.types.is_null(column.type):
            return pa.nulls(len(batch), arrow_schema([target]).field(0).type)
        fitted = fit_column(column, target, self.rules.mapping, misfits, in_key=target.name in self.schema.primary_keys)
        local = self.zone != "UTC" and isinstance(target.type, AtomicType) and target.type.root == "TIMESTAMP_LTZ"
        if not local or not pa.types.is_string(column.type) or self._has_instants(target.name, batch):
            return fitted
        return instants_of(column, fitted, self.zone)

    def _has_instants(self, name: str, batch: ChangeBatch) -> bool:
        fields = (target for target in batch.schema.fields if self.rules.name(target.name) == name)
        return any(holds_instants(batch.schema.dialect, target) for target in fields)

    def _refuse_nulls(self, columns: Sequence[pa.Array], misfits: Misfits) -> None:
        for target, column in zip(self.schema.fields, columns, strict=True):
            if not target.type.nullable and column.null_count:
                rows = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
                # The text of Paimon, which users look up.
                misfits.add(rows, f"Cannot write null to non-null column({target.name})")

    def _refuse_folders(self, columns: Sequence[pa.Array], misfits: Misfits) -> None:
        for target, column in zip(self.schema.fields, columns, strict=True):
            if target.name in self.schema.partition_keys:
                found = no_folder(column, target, self.longest_name)
                if found is not None:
                    misfits.add(found[0], f"{target.name}: {found[1]}")


@lru_cache(maxsize=4096)
def _arrow_schemas(table: TableSchema) -> tuple[pa.Schema, pa.Schema]:
    """Return the table's Arrow schema, and the same one with all columns nullable."""
    arrow = arrow_schema(table.fields)
    return arrow, pa.schema([field.with_nullable(True) for field in arrow])  # noqa: FBT003 -- Arrow's own signature


def whole_messages(batch: ChangeBatch, misfits: Misfits) -> tuple[npt.NDArray[np.bool_] | None, tuple[BadRecord, ...]]:
    """Return the mask of rows to keep, and the bad messages: a message is written as a whole or not at all."""
    if not misfits.reasons:
        return None, ()
    first: dict[int, str] = {}
    for row, reason in sorted(misfits.reasons.items()):
        first.setdefault(int(batch.positions[row]), reason)
    kept = ~np.isin(batch.positions, np.fromiter(first, np.int64, len(first)))
    return kept, tuple(BadRecord(pos, BAD_VALUE, _where(batch.schema, reason)) for pos, reason in first.items())


def _where(source: SourceSchema, reason: str) -> str:
    name = ".".join(filter(None, (source.database, source.table)))
    return f"{name}: {reason}" if name else reason
