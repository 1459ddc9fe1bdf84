"""A read of a table of the database `sys`, which describes the whole catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.pipelines.spark_source.plain_errors import plain_errors
from penstock.pipelines.spark_source.spark_api import arrow_target
from penstock.pipelines.spark_source.spark_options import CATALOG_TABLE
from penstock.pipelines.spark_source.table_place import CatalogTable
from penstock.pipelines.spark_source.table_read import shaped
from penstock.table.sql.queries.global_tables import global_table


class GlobalReader(DataSourceReader):
    """Reads such a table in one task."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.table = CatalogTable.of(options[CATALOG_TABLE.key])
        self.target = arrow_target(schema)

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self.table.name)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        database, _, name = self.table.name.partition(".")
        with plain_errors():
            rows = global_table(self.table.settings.open(), (database, name))
        for batch in rows.to_batches():
            yield shaped(batch, self.target)
