"""`format("mysql-cdc")`, `format("kafka-cdc")`, ...: one Spark data source for each registered connector.

Spark pickles the classes, so readers are imported only when they are used.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

from penstock.errors import ConfigError
from penstock.ingest.connectors import CONNECTORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

# In seconds. Somebody waits for the columns, and a wrong address is the likelier reason: queries wait for longer.
LOAD_S = 10.0


@cache
def cdc_source(kind: str) -> type[DataSource]:
    """Return the data source of a type of connectors, by the name `<kind>-cdc`."""

    class CdcDataSource(DataSource):
        """A stream of the changes of one source table; docs/spark-sources.md lists its options."""

        @classmethod
        def name(cls) -> str:
            return f"{kind}-cdc"

        def schema(self) -> StructType:
            from penstock.ingest.patience import patience
            from penstock.pipelines.spark.versions import Feature
            from penstock.pipelines.spark_cdc.declared_columns import declared_schema
            from penstock.pipelines.spark_cdc.query_state import check_writable
            from penstock.pipelines.spark_cdc.read_options import CdcRead
            from penstock.pipelines.spark_source.plain_errors import plain_errors

            with plain_errors(), patience(LOAD_S):
                Feature.CDC_SOURCES.require()
                read = CdcRead.of(kind, self.options)
                if read.state is not None:
                    check_writable(read.state)
                return declared_schema(read)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            from penstock.pipelines.spark_cdc.stream_reader import stream_reader
            from penstock.pipelines.spark_source.refused_stream import refusing

            return refusing(lambda: stream_reader(kind, self.options, schema))

        def reader(self, schema: StructType) -> DataSourceReader:
            raise ConfigError(
                f"{kind}-cdc is read as a stream",
                hint="spark.readStream...writeStream.trigger(availableNow=True) reads what is there, and ends",
            )

    return CdcDataSource


def register_sources(session: SparkSession) -> None:
    """Register the data sources of all connectors with a session."""
    for kind in CONNECTORS.names():
        session.dataSource.register(cdc_source(kind))
