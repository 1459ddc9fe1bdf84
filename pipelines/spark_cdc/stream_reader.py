"""The stream reader of a source table: reads as pipelines do, raises short errors, reports progress to the source."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from pyspark.sql.types import StructType

from penstock.errors import PenstockError
from penstock.ingest.source import Offsets
from penstock.ingest.spark_stream import ChangesStreamReader
from penstock.pipelines.spark.versions import Feature
from penstock.pipelines.spark_cdc.change_stream import TableChangeStream
from penstock.pipelines.spark_cdc.query_columns import QueryColumns
from penstock.pipelines.spark_cdc.read_options import CdcRead
from penstock.pipelines.spark_source.plain_errors import plain_errors

_NO_FLAGS = (
    "A query has no flags: to read the table again, start it with a new checkpoint and a new  state  or  slot.name"
)


class PlainErrors:
    """Raises errors without the frames of Penstock. Queries of users do not recover from errors as pipelines do."""

    def carrying(self) -> AbstractContextManager[None]:
        return QueryErrors()


class QueryErrors(plain_errors):
    """As `plain_errors`; hints that name a pipeline's flags name the options of a query instead."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, PenstockError) and " --" in (error.hint or ""):
            error.hint = f"{error.hint}. {_NO_FLAGS}"
        super().__exit__(kind, error, traceback)


class TableChangesReader(ChangesStreamReader):
    """The reader of pipelines, which also reports to the source which offsets Spark has committed."""

    def __init__(self, stream: TableChangeStream) -> None:
        super().__init__(stream, PlainErrors())
        self._changes = stream

    def commit(self, end: Offsets) -> None:
        # Called once the checkpoint has the batch, or never: only the source's log is kept longer then.
        self._changes.mirror(end)


def stream_reader(kind: str, options: Mapping[str, str], schema: StructType) -> TableChangesReader:
    """Return the reader of a query with these columns."""
    with QueryErrors():
        Feature.CDC_SOURCES.require()
        return TableChangesReader(TableChangeStream(QueryColumns.of(CdcRead.of(kind, options), schema)))
