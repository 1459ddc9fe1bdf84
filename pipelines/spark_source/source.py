"""`format("penstock")`: Spark's door to tables.

Spark loads this module in every session that uses any data source written in Python, so what reads and writes is
imported only when it is asked for.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "penstock"
_PUSH_DOWN_PLANNER = "pyspark.sql.worker.data_source_pushdown_filters"


class PenstockDataSource(DataSource):
    """Options: `path`, which may end in `$branch_b` or a system table such as `$snapshots`, and Paimon's own.

    Reading: time travel (`scan.snapshot-id`, `scan.tag-name`, `scan.timestamp-millis`, `scan.version`, `scan.mode`),
    `incremental-between`, `branch`, `consumer-id`; `rowkind` = true (Paimon: `read.changelog`) puts the kind of each
    row into a leading column. A stream without that column gives the new rows only, neither -U nor -D. A schema given
    by `.schema(...)` reads just its columns.

    Writing: the columns by name; `rowkind` = true takes the kinds from that column; `commit-user` with
    `commit-identifier` makes a write count once, however often it is done. `mode("overwrite")` replaces all rows, those
    of `overwrite-partition` (`dt=2026-01-31`), or with `partitionOverwriteMode` = dynamic those of the partitions that
    are written to.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        from penstock.pipelines.spark_source.columns import spark_schema
        from penstock.pipelines.spark_source.errors import plain_errors
        from penstock.pipelines.spark_source.sql_tables import remembered
        from penstock.pipelines.spark_source.table_place import TablePlace
        from penstock.pipelines.spark_source.table_read import TableRead

        with plain_errors():
            return remembered(spark_schema(TableRead.of(TablePlace.of(self.options)).schema), self.options)

    def _read_options(self, schema: StructType) -> dict[str, str]:
        from penstock.pipelines.spark_source.errors import plain_errors
        from penstock.pipelines.spark_source.sql_tables import read_options

        with plain_errors():
            return read_options(self.options, schema)

    def _write_options(self, schema: StructType) -> dict[str, str]:
        from penstock.pipelines.spark_source.errors import plain_errors
        from penstock.pipelines.spark_source.sql_tables import write_options

        with plain_errors():
            return write_options(self.options, schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.pipelines.spark_source.batch_read import FilteringReader, TableReader

        # Spark refuses a reader that takes filters where handing them down is switched off, which is its default.
        return (FilteringReader if _takes_filters() else TableReader)(self._read_options(schema), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from penstock.pipelines.spark_source.stream_read import ChangesReader

        return ChangesReader(self._read_options(schema), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from penstock.pipelines.spark_source.write import BatchWriter

        return BatchWriter(self._write_options(schema), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from penstock.pipelines.spark_source.write import StreamWriter

        return StreamWriter(self._write_options(schema), overwrite)


def _takes_filters() -> bool:
    """Whether this process plans a read with filters: nothing but the planner that runs in it tells."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSH_DOWN_PLANNER in sys.modules or getattr(main, "name", None) == _PUSH_DOWN_PLANNER
