"""The columns of a table that a verification compares, and their rows as hashes by key range."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import ConfigError, SourceError
from penstock.formats.change import ChangeBatch, SourceSchema
from penstock.pipelines.api.lossy_values import NULLS, lossy_values
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping
from penstock.table.buckets.layout import Layout
from penstock.table.buckets.route import key_hashes
from penstock.table.handle import Table
from penstock.table.merge.engines.registry import merge_engine
from penstock.table.values.types import AtomicType

HASH_RANGE = "hash of "  # the start of the name of a range where keys are not numbers
RANGES = 1024  # sums per table, if keys are not numbers
_WHOLE = {"TINYINT", "SMALLINT", "INT", "BIGINT"}
Int64s = npt.NDArray[np.int64]
Key = tuple[object, ...]
Rows = tuple[pa.RecordBatch, Int64s, Int64s]  # keys, hashes of rows, numbers of their ranges


class NotComparable(ConfigError):
    """The table's rows, by its configuration, are not those of its source."""


class SourceAltered(SourceError):
    """The source was altered, and its rows do not fit the table before the table's next batch."""


@dataclass(frozen=True, slots=True)
class ComparedColumns:
    """The compared part of a table: the columns that its sources have, except computed and ignored ones."""

    layout: Layout
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    step: int | None  # width of the ranges, if the key is a single whole number

    @classmethod
    def of(
        cls, table: Table, sources: Sequence[SourceSchema], shape: PipelineMapping, ignored: Collection[str]
    ) -> ComparedColumns:
        layout = Layout.of(table.store.schema())
        schema = layout.schema
        engine = merge_engine(schema.typed)
        if not schema.primary_keys or not engine.newest_wins:
            raise NotComparable(
                "rows of this table do not correspond to rows of its source, so they cannot be compared",
                table=table.name,
                merge_engine=engine.name if schema.primary_keys else None,
                primary_key=None if schema.primary_keys else "none",
            )
        own = {shape.rules.name(column.name) for source in sources for column in source.fields}
        apart = {one.name for one in shape.new_tables.computed} | {name for name, _ in shape.new_tables.metadata}
        columns = tuple(name for name in schema.names if name in own - apart - set(ignored))
        keys = tuple(name for name in schema.primary_keys if name in own)
        if len(keys) != len(schema.primary_keys):
            raise NotComparable(
                "tables with a computed key cannot be compared", table=table.name, key=schema.primary_keys
            )
        whole = len(keys) == 1 and _is_whole(layout, keys[0])
        return cls(layout, columns, keys, 4096 if whole else None)

    def rows_of(self, change: ChangeBatch, shape: PipelineMapping) -> tuple[Rows, int, Counter[str]]:
        fitted = shape.fit(_columns_of_table(change, self.layout, shape), self.layout.schema, None, 0)
        if fitted is None:
            raise SourceAltered(
                "the source table was altered, and its rows do not fit the target table yet",
                table=f"{change.schema.database}.{change.schema.table}",
                hint="verify again after the next batch",
                retryable=True,
            )
        lost = lossy_values(change, self.layout.schema, shape)
        lost[NULLS] += fitted.nulled
        return self.hashed(fitted.batch.rows), len(fitted.bad), lost

    def hashed(self, rows: pa.RecordBatch) -> Rows:
        keys = rows.select(list(self.keys))
        of_rows = key_hashes(self.layout, rows, self.columns).astype(np.int64) & 0xFFFFFFFF
        if self.step is not None:
            numbers = keys.column(0).to_numpy(zero_copy_only=False).astype(np.int64) // self.step
        else:
            numbers = key_hashes(self.layout, rows, self.keys).astype(np.int64) % RANGES
        return keys, of_rows, numbers

    def range_text(self, number: int) -> str:
        name = ", ".join(self.keys)
        if self.step is None:
            return f"{HASH_RANGE}({name}) is {number} of {RANGES}"
        return f"{name} from {number * self.step} to {(number + 1) * self.step - 1}"


def _is_whole(layout: Layout, name: str) -> bool:
    type_ = layout.schema.field(name).type
    return isinstance(type_, AtomicType) and type_.root in _WHOLE


def _columns_of_table(change: ChangeBatch, layout: Layout, shape: PipelineMapping) -> ChangeBatch:
    """Return the change without columns that the table does not have (yet)."""
    there = set(layout.schema.names)
    kept = [place for place, one in enumerate(change.schema.fields) if shape.rules.name(one.name) in there]
    if len(kept) == len(change.schema.fields):
        return change
    fields = tuple(change.schema.fields[place] for place in kept)
    return replace(change, schema=replace(change.schema, fields=fields), rows=change.rows.select(kept))
