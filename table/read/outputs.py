"""The formats in which a read returns its rows, all produced from Arrow batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.errors import ConfigError


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
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader for libraries that stream.

        Memory stays bounded as far as the library consumes rows in batches.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_pandas(self) -> Any:
        """Return all rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return all rows as a polars DataFrame."""
        try:
            import polars as pl
        except ImportError as reason:
            raise ConfigError("polars is not installed", hint="pip install polars") from reason
        return pl.from_arrow(self.to_arrow())

    def to_duckdb(self, name: str, connection: Any = None) -> Any:
        """Return a DuckDB connection in which the rows are registered as table `name`."""
        try:
            import duckdb
        except ImportError as reason:
            raise ConfigError("duckdb is not installed", hint="pip install duckdb") from reason
        connection = connection or duckdb.connect()
        connection.register(name, self.to_arrow())
        return connection
