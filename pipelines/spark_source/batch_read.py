"""Batch reads under Spark: one task per split, with filters pushed down to files."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from penstock.pipelines.spark_source.errors import plain_errors
from penstock.pipelines.spark_source.filters import expression
from penstock.pipelines.spark_source.table_place import TablePlace
from penstock.pipelines.spark_source.table_read import Piece, PieceRead, TableRead, arrow_target, shaped, told_rows


class TableReader(DataSourceReader):
    """A batch reader.

    It is planned once per query, so every task reads the snapshot that was the newest at that time.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        with plain_errors():
            place = TablePlace.of(options)
            place.check_shows_now()
            self.table = TableRead.of(place, tuple(schema.names))
        self.target = arrow_target(schema)

    def partitions(self) -> list[InputPartition]:
        with plain_errors():
            return [InputPartition(piece) for piece in self.table.pieces()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark adds a partition without a value if a plan has no partitions.
        if isinstance(partition.value, Piece):
            with plain_errors():
                for batch in self.table.batches(partition.value):
                    # In a system table, a column of row kinds is ordinary data.
                    rows = batch if partition.value.way is PieceRead.SYSTEM else told_rows(batch, self.target)
                    yield shaped(rows, self.target)


class FilteringReader(TableReader):
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Accept the filters that are applied exactly; return the others to Spark."""
        with plain_errors():
            columns = self.table.filtered
            taken = {place: expression(given, columns) for place, given in enumerate(filters)}
        known = [where for where in taken.values() if where is not None]
        if known:
            self.table = replace(self.table, where=functools.reduce(operator.and_, known))
        return [given for place, given in enumerate(filters) if taken[place] is None]
