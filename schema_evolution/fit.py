"""Change batches as rows of a table: columns by name, values by type, computed and metadata columns beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.formats.change import BAD_VALUE, ChangeBatch, SourceSchema
from penstock.schema_evolution.drift import ColumnRules
from penstock.schema_evolution.texts import Misfits
from penstock.schema_evolution.values import fit_column
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.types import Field

Extra = Callable[[ChangeBatch, Mapping[str, pa.Array], Misfits], pa.Array]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A message of which no row is taken, because a value in it does not fit its column."""

    pos: int
    reason_class: str
    message: str


@dataclass(frozen=True, slots=True)
class FittedRows:
    """Rows in the table's columns and types, in message order; messages with a misfit are in `bad`, whole."""

    rows: pa.RecordBatch
    kinds: npt.NDArray[np.uint8]
    pos: npt.NDArray[np.int64]
    sub: npt.NDArray[np.int32]
    bad: tuple[BadRow, ...] = ()
    nulled: int = 0


@dataclass(frozen=True, slots=True)
class Fit:
    """How batches become rows of one version of a table. `extras` make computed and metadata columns."""

    schema: TableSchema
    rules: ColumnRules
    extras: Mapping[str, Extra] = field(default_factory=dict)

    def rows(self, batch: ChangeBatch) -> FittedRows:
        misfits = Misfits()
        given = self._given(batch)
        columns = [self._column(one, batch, given, misfits) for one in self.schema.fields]
        self._refuse_nulls(columns, misfits)
        # Nullability is the table's word; misfits are nulls until their messages are taken out.
        rows = pa.RecordBatch.from_arrays(columns, schema=_nullable(self.schema.fields))
        kept, bad = _whole_messages(batch, misfits)
        kinds, pos, sub = batch.kinds, batch.pos, batch.sub
        if kept is not None:
            rows = rows.filter(pa.array(kept))
            kinds, pos, sub = kinds[kept], pos[kept], sub[kept]
        rows = pa.RecordBatch.from_arrays(rows.columns, schema=arrow_schema(self.schema.fields))
        return FittedRows(rows, kinds, pos, sub, bad, misfits.nulled)

    def _given(self, batch: ChangeBatch) -> dict[str, pa.Array]:
        names = [self.rules.name(one.name) for one in batch.schema.fields]
        return dict(zip(names, batch.columns.columns, strict=True))

    def _column(self, one: Field, batch: ChangeBatch, given: Mapping[str, pa.Array], misfits: Misfits) -> pa.Array:
        extra = self.extras.get(one.name)
        if extra is not None:
            return fit_column(extra(batch, given, misfits), one, self.rules.mapping, misfits)
        column = given.get(one.name)
        if column is None:
            return pa.nulls(len(batch), arrow_schema([one]).field(0).type)
        return fit_column(column, one, self.rules.mapping, misfits)

    def _refuse_nulls(self, columns: Sequence[pa.Array], misfits: Misfits) -> None:
        for one, column in zip(self.schema.fields, columns, strict=True):
            if not one.type.nullable and column.null_count:
                rows = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
                misfits.add(rows, f"Cannot write null to non-null column({one.name})")


def _nullable(fields: Sequence[Field]) -> pa.Schema:
    return pa.schema([one.with_nullable(True) for one in arrow_schema(fields)])  # noqa: FBT003 -- Arrow's own signature


def _whole_messages(batch: ChangeBatch, misfits: Misfits) -> tuple[npt.NDArray[np.bool_] | None, tuple[BadRow, ...]]:
    """A message is written whole or not at all."""
    if not misfits.reasons:
        return None, ()
    first: dict[int, str] = {}
    for row, reason in sorted(misfits.reasons.items()):
        first.setdefault(int(batch.pos[row]), reason)
    kept = ~np.isin(batch.pos, np.fromiter(first, np.int64, len(first)))
    return kept, tuple(BadRow(pos, BAD_VALUE, _where(batch.schema, reason)) for pos, reason in first.items())


def _where(source: SourceSchema, reason: str) -> str:
    return f"{source.database}.{source.table}: {reason}"
