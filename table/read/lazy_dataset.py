"""Tables as Arrow datasets for DuckDB, which pushes filters and columns down and requests rows when it needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from penstock.errors import ConfigError

# Returns some columns of the rows that match a filter; None means all columns, or all rows.
Rows = Callable[[Sequence[str] | None, pc.Expression | None], Iterator[pa.RecordBatch]]


class LazyDataset(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """An Arrow dataset for DuckDB, which calls `scanner` with the columns and the filter of its query."""

    def __init__(self, schema: pa.Schema, rows: Rows) -> None:
        # Dataset.__init__ refuses to create instances, so it is not called: all methods that DuckDB uses are defined
        # here.
        self._names, self._rows = schema, rows

    @property
    def schema(self) -> pa.Schema:
        return self._names

    def scanner(self, columns: Sequence[str] | None = None, **given: Any) -> ds.Scanner:
        where = given.get("filter")
        try:
            batches = self._rows(columns, where)
            names = list(columns) if columns is not None else self._names.names
            schema = pa.schema([self._names.field(name) for name in names])
            return ds.Scanner.from_batches(_in_schema(batches, schema), schema=schema)
        except ConfigError:
            # A filter on a part of a column (a struct field) is refused by scans, so Arrow applies it to all rows.
            batches = _in_schema(self._rows(None, None), self._names)
            return ds.Scanner.from_batches(batches, schema=self._names, columns=columns, filter=where)


def _in_schema(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)
