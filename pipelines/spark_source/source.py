"""`format("penstock")`: the Spark data source for Paimon tables.

Spark loads this module in every session that uses any Python data source, so readers and writers are imported only when
requested.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "penstock"
_PUSH_DOWN_PLANNER = "pyspark.sql.worker.data_source_pushdown_filters"


class PenstockDataSource(DataSource):
    """The data source.

    Options: `path`, which may end in `$branch_b` or a system table such as `$snapshots`, and Paimon's own.

    Reading: time travel (`scan.snapshot-id`, `scan.tag-name`, `scan.timestamp-millis`, `scan.version`, `scan.mode`),
    `incremental-between`, `branch`, `consumer-id`; `rowkind` = true (Paimon: `read.changelog`) adds a leading column
    with the kind of each row. A stream without that column returns only new rows, neither -U nor -D. A schema set by
    `.schema(...)` selects its columns.

    Writing: columns are matched by name; `rowkind` = true reads the row kinds from that column; `commit-user` with
    `commit-identifier` makes a repeated write count once. `mode("overwrite")` replaces all rows, those of
    `overwrite-partition` (`dt=2026-01-31`), or with `partitionOverwriteMode` = dynamic those of the partitions that are
    written to.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        from penstock.pipelines.spark_source.plain_errors import plain_errors
        from penstock.pipelines.spark_source.sql_tables import remembered
        from penstock.pipelines.spark_source.table_place import TablePlace
        from penstock.pipelines.spark_source.table_read import TableRead, spark_schema

        with plain_errors():
            return remembered(spark_schema(TableRead.of(TablePlace.of(self.options)).schema), self.options)

    def _read_options(self, schema: StructType) -> dict[str, str]:
        from penstock.pipelines.spark_source.plain_errors import plain_errors
        from penstock.pipelines.spark_source.sql_tables import read_options

        with plain_errors():
            return read_options(self.options, schema)

    def _write_options(self, schema: StructType) -> dict[str, str]:
        from penstock.pipelines.spark_source.plain_errors import plain_errors
        from penstock.pipelines.spark_source.sql_tables import write_options

        with plain_errors():
            return write_options(self.options, schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.pipelines.spark_source.batch_read import FilteringReader, TableReader

        # If filter pushdown is disabled, which is the default, Spark refuses readers with pushFilters.
        return (FilteringReader if _takes_filters() else TableReader)(self._read_options(schema), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from penstock.pipelines.spark_source.refused_stream import refusing
        from penstock.pipelines.spark_source.stream_read import stream_reader

        return refusing(lambda: stream_reader(self._read_options(schema), schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from penstock.pipelines.spark_source.write import BatchWriter

        return BatchWriter(self._write_options(schema), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from penstock.pipelines.spark_source.write import StreamWriter

        return StreamWriter(self._write_options(schema), overwrite)


def _takes_filters() -> bool:
    """Return whether this process plans a read with filter pushdown.

    Spark does not say so; only its loaded planner module shows it.
    """
    # The module of the planner is the main program of this process, or was imported by a daemon of Spark.
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSH_DOWN_PLANNER in sys.modules or getattr(main, "name", None) == _PUSH_DOWN_PLANNER
