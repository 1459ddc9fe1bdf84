"""The data source that also answers the questions of the Spark catalog."""

from __future__ import annotations

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from penstock.pipelines.spark_source.source import PenstockDataSource

REQUEST = "catalog-request"
# The option of a read of the rows between two offsets of a stream.
STREAM_RANGE = "stream-range"
# The option of reads of a table of the database `sys`.
GLOBAL_TABLE = "global-table"
# The option of jobs that run the units of an action.
ACTION_UNITS = "action-units"


class CatalogDataSource(PenstockDataSource):
    """`format("penstock")`, as the catalog uses it: with a request among the options, the schema is the answer.

    Spark runs this in its planner worker, so the catalog works in any session that can use data sources in Python.
    """

    def schema(self) -> StructType:
        if ACTION_UNITS in self.options:
            return StructType([StructField("result", BinaryType())])
        request = self.options.get(REQUEST)
        if request is None:
            return super().schema()
        from penstock.pipelines.spark_catalog.answers import answer

        # A column with any type: Spark passes the metadata of columns to the catalog unchanged.
        return StructType([StructField("answer", IntegerType(), nullable=True, metadata={"answer": answer(request)})])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of rows, of a range of a stream, of a table of `sys`, or of an action's results."""
        if GLOBAL_TABLE in self.options:
            from penstock.pipelines.spark_source.global_read import GlobalReader

            return GlobalReader(self.options, schema)
        if STREAM_RANGE in self.options:
            from penstock.pipelines.spark_source.range_read import SnapshotRangeReader

            return SnapshotRangeReader(self.options, schema)
        if ACTION_UNITS not in self.options:
            return super().reader(schema)
        from penstock.pipelines.spark_source.unit_results import UnitReader

        return UnitReader(self.options[ACTION_UNITS])


class PaimonDataSource(CatalogDataSource):
    """The same data source under the name that users of Paimon write: `format("paimon")`, `USING paimon`."""

    @classmethod
    def name(cls) -> str:
        return "paimon"
