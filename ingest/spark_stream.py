"""The adapter of a stream of ranges to Spark's Python data source API.

Spark runs several processes here. One long-lived planner next to the driver plans offsets and partitions; tasks read.
State set in one process is visible in the others only if a partition carries it. Spark calls `commit` a batch late or
never, so nothing depends on it.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from penstock.ingest.batch_pace import BatchPace
from penstock.ingest.carried_errors import ErrorMark
from penstock.ingest.source import NO_LIMIT, Limit, Offsets
from penstock.ingest.spark_admission import (
    PASSES_START,
    BoundedRun,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    RememberedStart,
    SupportsTriggerAvailableNow,
)


class RangeStream(Protocol):
    """A stream, planned in the planner process and read in tasks.

    `read` yields batches of exactly the source's columns.
    """

    @property
    def limit(self) -> Limit: ...

    def initial_offsets(self) -> Offsets: ...

    def available(self) -> Offsets: ...

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None) -> Offsets: ...

    def at_barrier(self) -> bool:
        """Return whether the next batch has to start at once."""
        ...

    def inputs(self, start: Offsets, end: Offsets) -> Sequence[Any]:
        """Return the batch between two offsets as one picklable object per task."""
        ...

    def read(self, task: Any) -> Iterator[pa.RecordBatch]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class PackedStream:
    """A stream as pickled bytes. Only a process that uses the stream unpickles it, and imports its modules.

    Spark passes a source through two processes that do not use its stream, and that stay for a minute.
    """

    content: bytes = field(repr=False)

    @classmethod
    def of(cls, stream: RangeStream) -> PackedStream:
        return cls(cloudpickle.dumps(stream))

    def unpacked(self) -> RangeStream:
        stream: RangeStream = pickle.loads(self.content)  # noqa: S301 -- bytes that this class was made of
        return stream


class ErrorPassage(Protocol):
    """Decides the form in which errors reach Spark."""

    def carrying(self) -> AbstractContextManager[None]: ...


class StreamPartition(InputPartition):
    """One task's part of a batch."""


def changes_source(
    name: str,
    columns: str,
    stream: RangeStream,
    mark: ErrorMark,
    interval: float = 0.0,
    planned: Offsets | None = None,
    bounded: BoundedRun | None = None,
) -> type[DataSource]:
    """Return a data source to register with one session and to read by its name.

    `columns` is the schema as Spark DDL, `interval` the seconds from the start of one batch to the next. The stream is
    part of the class, which Spark pickles like any function. It is not an option: options are text that anybody who can
    name the source may set, and reading a stream from text would mean unpickling it.

    Some versions of Spark report neither the newest planned batch nor that a bounded run has read everything. For them,
    `planned` is the end of the newest batch in the checkpoint, and `bounded` a callback.
    """
    source_name, packed = name, PackedStream.of(stream)

    class Changes(DataSource):
        @classmethod
        def name(cls) -> str:
            return source_name

        def schema(self) -> str:
            return columns

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
            reader = ChangesStreamReader(packed, mark, interval)
            return reader if PASSES_START else RememberedStart(reader, lambda: planned, bounded)

    return Changes


class ChangesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream reader of Spark, which waits for the trigger interval itself.

    A batch that follows a barrier must not wait for the interval, but a trigger of Spark always does. Therefore the
    query has a trigger of 0 seconds, and `latestOffset` sleeps until the batch is due. Stopping the query interrupts
    that call.

    With an interval of 0 the call lasts until the source has something new. Spark would ask again every ten
    milliseconds, at the cost of CPU. Without an interval (None) the trigger of the query decides.
    """

    def __init__(
        self,
        stream: RangeStream | PackedStream,
        errors: ErrorPassage,
        interval: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._given = stream
        self._carrying = errors.carrying
        self._pace = BatchPace(interval, clock, sleep)

    @cached_property
    def _stream(self) -> RangeStream:
        return self._given.unpacked() if isinstance(self._given, PackedStream) else self._given

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with self._carrying():
            # The end of a bounded run is determined once. Otherwise it would not end while the source grows.
            self._pace.until = self._stream.available()

    def initialOffset(self) -> Offsets:  # noqa: N802
        with self._carrying():
            return self._stream.initial_offsets()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._stream.limit
        # Spark only distinguishes "all" from a number of rows; `latestOffset` applies the limit of the stream itself.
        return ReadAllAvailable() if limit == NO_LIMIT else ReadMaxRows(limit.rows or (1 << 62))

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        allowed = NO_LIMIT if isinstance(limit, ReadAllAvailable) else self._stream.limit
        with self._carrying():
            # For Spark an unchanged offset means that there is no batch, and it asks again.
            return self._pace.next_end(self._stream, start, allowed)

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        with self._carrying():
            return [StreamPartition(task) for task in self._stream.inputs(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with self._carrying():
            yield from self._stream.read(partition.value)

    def commit(self, end: Offsets) -> None:
        """Do nothing: the tables show which batches are done."""

    def stop(self) -> None:
        self._stream.close()
