"""The thin adapter: a stream of ranges as a Python data source of Spark.

Spark runs several processes here. One long-lived planner beside the driver asks for offsets and partitions; tasks read;
nothing set in the one is seen by the others but what a partition carries. `commit` comes a batch late or never, so
nothing hangs on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from penstock.ingest.carried_errors import ErrorMark
from penstock.ingest.source import NO_LIMIT, Limit, Offsets


class RangeStream(Protocol):
    """What is read: asked in the planner, read from in tasks. `read` yields batches of exactly the source's columns."""

    limit: Limit

    def initial_offsets(self) -> Offsets: ...

    def available(self) -> Offsets: ...

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None) -> Offsets: ...

    def shares(self, start: Offsets, end: Offsets) -> Sequence[Any]:
        """The batch between, as one picklable thing a task."""
        ...

    def read(self, share: Any) -> Iterator[pa.RecordBatch]: ...

    def close(self) -> None: ...


class Share(InputPartition):
    """One task's part of a batch."""


def changes_source(name: str, columns: str, stream: RangeStream, mark: ErrorMark) -> type[DataSource]:
    """A data source to register with one session and to read by its name. `columns` is the schema as Spark's DDL.

    The stream is a part of the class, which Spark takes to its processes as it takes every function. It is no option:
    options are text that anybody may give who can name the source, and a stream can only be unpickled.
    """
    source_name = name

    class Changes(DataSource):
        @classmethod
        def name(cls) -> str:
            return source_name

        def schema(self) -> str:
            return columns

        def streamReader(self, schema: Any) -> ChangesReader:  # noqa: N802
            return ChangesReader(stream, mark)

    return Changes


class ChangesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, stream: RangeStream, mark: ErrorMark) -> None:
        self._stream = stream
        self._carrying = mark.carrying
        self._until: Offsets | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with self._carrying():
            self._until = self._stream.available()

    def initialOffset(self) -> Offsets:  # noqa: N802
        with self._carrying():
            return self._stream.initial_offsets()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._stream.limit
        return ReadAllAvailable() if limit == NO_LIMIT else ReadMaxRows(limit.rows or (1 << 62))

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        allowed = NO_LIMIT if isinstance(limit, ReadAllAvailable) else self._stream.limit
        with self._carrying():
            return self._stream.latest_offsets(start, allowed, self._until)

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        with self._carrying():
            return [Share(share) for share in self._stream.shares(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with self._carrying():
            yield from self._stream.read(partition.value)

    def stop(self) -> None:
        self._stream.close()
