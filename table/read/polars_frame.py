"""Tables as lazy frames of Polars: the condition of a query leaves files out, and Polars applies it to the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from penstock.table.read.lazy_dataset import Rows, float_columns
from penstock.table.values.optional import polars_module


def lazy_frame(schema: pa.Schema, rows: Rows) -> Any:
    """Return a LazyFrame; `rows` returns some columns of at least the rows that match a filter."""
    pl = polars_module()

    def read(columns: list[str] | None, where: Any, most: int | None, _: int | None) -> Iterator[Any]:
        left = most
        for batch in rows(columns, None if where is None else _pruning_filter(schema, where)):
            frame = pl.from_arrow(batch)
            if columns is not None:
                frame = frame.select(columns)
            if left is not None:
                frame, left = frame.head(left), left - min(left, frame.height)
            yield frame if where is None else frame.filter(where)
            if left == 0:
                return

    empty = pl.from_arrow(schema.empty_table())
    return pl.io.plugins.register_io_source(read, schema=empty.schema)


def _pruning_filter(schema: pa.Schema, where: Any) -> pc.Expression | None:
    """Return the Arrow filter that Polars makes of a condition, if files can be left out by it; else None.

    Rows must not be filtered by it: Polars and Arrow differ for nulls in `is_in`, which is null in Polars and false in
    Arrow, so a test of it for null would leave out files, too. So would conditions on FLOAT and DOUBLE columns: for
    Polars NaN is greater than all numbers, and the statistics of files do not count it.
    """
    pl = polars_module()
    seen = _FilterRecorder(schema)
    pl.scan_pyarrow_dataset(seen).filter(where).collect()
    if seen.filter is None or float_columns(schema, seen.filter):
        return None
    text = str(seen.filter)
    return None if "is_in(" in text and "is_null(" in text else seen.filter


class _FilterRecorder(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """A dataset without rows that remembers the filter it is read with."""

    def __init__(self, schema: pa.Schema) -> None:
        # Dataset.__init__ refuses to create instances, so it is not called.
        self._names = schema
        self.filter: pc.Expression | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._names

    def to_batches(self, columns: Sequence[str] | None = None, **given: Any) -> Iterator[pa.RecordBatch]:
        self.filter = given.get("filter")
        return iter(())
