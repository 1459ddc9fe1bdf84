"""The formats in which a read returns its rows, all produced from Arrow batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.values.names import refuse_alike
from penstock.table.values.optional import duckdb_module, polars_module


def from_start(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with structures that begin at the start of their buffers.

    DuckDB refuses a batch in which a structure is below another one that begins later.
    """
    late = [place for place, column in enumerate(batch.columns) if column.offset and pa.types.is_struct(column.type)]
    for place in late:
        column = batch.column(place)
        copied = column.take(pa.array(range(len(column)), pa.int64()))
        batch = batch.set_column(place, batch.schema.field(place), copied)
    return batch


class Outputs(ABC):
    """A read whose rows can be returned in several formats; subclasses provide the schema and the batches."""

    __slots__ = ()

    @property
    @abstractmethod
    def schema(self) -> pa.Schema: ...

    @abstractmethod
    def to_batches(self) -> Iterator[pa.RecordBatch]: ...

    def to_arrow(self) -> pa.Table:
        """Return all rows in memory."""
        batches = list(self.to_batches())
        # All batches have the schema of the read. To ask for it costs a tenth of a query for one row.
        return pa.Table.from_batches(batches, batches[0].schema if batches else self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader for libraries that stream.

        Memory stays bounded as far as the library consumes rows in batches.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as an Arrow C stream: how Polars, pandas, DuckDB, DataFusion and others read any producer."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Return all rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self, *, lazy: bool = False) -> Any:
        """Return all rows as a polars DataFrame, or a LazyFrame of them."""
        frame = polars_module().from_arrow(self.to_arrow())
        return frame.lazy() if lazy else frame

    def to_duckdb(self, name: str, connection: Any = None) -> Any:
        """Return a DuckDB connection with a table `name`: its queries read only the columns and files they need."""
        dataset = self.to_dataset()
        if not dataset.schema.names:
            raise ConfigError(
                "DuckDB has no tables without columns", hint="name a column; the scan's count() counts rows"
            )
        refuse_alike(dataset.schema.names)
        connection = connection or duckdb_module().connect()
        connection.register(name, dataset)
        return connection

    def to_dataset(self) -> Any:
        """Return the rows as an Arrow dataset, for query engines that accept one."""
        import pyarrow.dataset as ds  # imports pandas, which costs as much as a small scan

        return ds.dataset(self.to_arrow())
