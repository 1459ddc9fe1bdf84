"""Tables as Arrow datasets for query engines, which push filters and columns down and request rows when needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.types as pat

from penstock.errors import ConfigError

# Returns some columns of the rows that match a filter; None means all columns, or all rows.
Rows = Callable[[Sequence[str] | None, pc.Expression | None], Iterator[pa.RecordBatch]]
# Returns the independent parts of a read, without the parts that a filter excludes.
Parts = Callable[[pc.Expression | None], Sequence[Rows]]


class RowScanner(ds.Scanner):  # type: ignore[misc]  # pyarrow has no types
    """A scanner that returns batches as they are read. Arrow's own scanner passes each of them through its threads."""

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        # Scanner.__init__ refuses to create instances, so it is not called, and every method is defined here.
        self._reader = pa.RecordBatchReader.from_batches(schema, batches)

    @property
    def dataset_schema(self) -> pa.Schema:
        return self._reader.schema

    @property
    def projected_schema(self) -> pa.Schema:
        return self._reader.schema

    def to_reader(self) -> pa.RecordBatchReader:
        return self._reader

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._reader

    def to_table(self) -> pa.Table:
        return self._reader.read_all()

    def count_rows(self) -> int:
        return sum(batch.num_rows for batch in self._reader)

    def scan_batches(self) -> Iterator[ds.TaggedRecordBatch]:
        yield from self._scanned.scan_batches()

    def head(self, num_rows: int) -> pa.Table:
        return self._scanned.head(num_rows)

    def take(self, indices: Any) -> pa.Table:
        return self._scanned.take(indices)

    @property
    def _scanned(self) -> ds.Scanner:
        return ds.Scanner.from_batches(self._reader)


class LazyRows:
    """Rows that are read when a scanner asks for them: a fragment of a dataset. DataFusion reads each in a thread."""

    def __init__(self, schema: pa.Schema, rows: Rows) -> None:
        self._schema, self._rows = schema, rows

    def scanner(
        self, schema: pa.Schema | None = None, columns: Sequence[str] | None = None, **given: Any
    ) -> ds.Scanner:
        """Return a scanner of some columns of the rows that match `filter`.

        Options of other readers, such as a batch size, change only how rows are cut into batches, so they are ignored.
        """
        where = given.get("filter")
        try:
            batches = self._rows(columns, where)
            names = list(columns) if columns is not None else self._schema.names
            wanted = pa.schema([self._schema.field(name) for name in names])
            return RowScanner(_in_schema(batches, wanted), wanted)
        except ConfigError:
            # A filter on a part of a column (a struct field) is refused by scans, so Arrow applies it to all rows.
            batches = _in_schema(self._rows(None, None), self._schema)
            return ds.Scanner.from_batches(batches, schema=self._schema, columns=columns, filter=where)


class LazyDataset(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """An Arrow dataset that reads rows only when an engine asks for them, with the columns and the filter of its query.

    DuckDB calls `scanner`; DataFusion calls `scanner` of each fragment. Polars reads in another way: polars_frame.py.
    """

    def __init__(self, schema: pa.Schema, rows: Rows, parts: Parts | None = None) -> None:
        # Dataset.__init__ refuses to create instances, so it is not called: all methods that engines use are defined
        # here, or call `scanner`.
        self._names, self._all = schema, LazyRows(schema, rows)
        self._parts = parts or (lambda where: [rows])

    @property
    def schema(self) -> pa.Schema:
        return self._names

    def scanner(self, columns: Sequence[str] | None = None, **given: Any) -> ds.Scanner:
        return self._all.scanner(None, columns, **given)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[LazyRows]:
        """Yield the parts of the read, for DataFusion, which leaves the filter to them altogether.

        ConfigError for a filter on FLOAT or DOUBLE: for DataFusion NaN is greater than all numbers, and for Arrow not.
        """
        compared = () if filter is None else float_columns(self._names, filter)
        if compared:
            raise ConfigError(
                "this engine orders NaN in another way than the Arrow filter that it asks for",
                columns=", ".join(compared),
                hint="register a stream:  context.from_arrow(scan, name=...), or add the condition to the scan",
            )
        return (LazyRows(self._names, rows) for rows in self._parts(filter))


def float_columns(schema: pa.Schema, where: pc.Expression) -> list[str]:
    """Return the FLOAT and DOUBLE columns whose names occur in a filter: those it compares, and rarely more."""
    return named_in((field.name for field in schema if pat.is_floating(field.type)), where)


def named_in(names: Iterable[str], where: pc.Expression) -> list[str]:
    """Return the names of the columns that a filter needs, and rarely a few more."""
    text = str(where)
    return [name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]


def _in_schema(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if schema.names:
            yield pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)
        else:
            yield batch.select([])  # from_arrays would lose the number of rows, which `count(*)` asks for
