"""Tables as datasets: DuckDB hands its conditions and columns down, and asks for rows when it needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from penstock.errors import ConfigError

# Gives the rows that a condition holds for, of some columns; all rows and columns for None.
Rows = Callable[[Sequence[str] | None, pc.Expression | None], Iterator[pa.RecordBatch]]


class LazyDataset(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """What DuckDB takes for a dataset of Arrow: it calls `scanner` with the columns and the condition of the query."""

    def __init__(self, schema: pa.Schema, rows: Rows) -> None:
        # Not Dataset.__init__, which makes none: all that DuckDB asks is defined here.
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
            # A condition on a part of a column, which a scan takes none of: Arrow filters all rows by it.
            batches = _in_schema(self._rows(None, None), self._names)
            return ds.Scanner.from_batches(batches, schema=self._names, columns=columns, filter=where)


def _in_schema(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)
