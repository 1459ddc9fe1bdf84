"""The thin adapter: a stream of ranges as a Python data source of Spark.

Spark runs several processes here. One long-lived planner beside the driver asks for offsets and partitions; tasks read;
nothing set in the one is seen by the others but what a partition carries. `commit` comes a batch late or never, so
nothing hangs on it.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from penstock.ingest.carried import carrying
from penstock.ingest.ranges import NO_LIMIT, Limit, Offsets

FORMAT = "penstock-changes"
COLUMNS, STREAM = "columns", "stream"  # the options: the schema as DDL, the pickled stream


class RangeStream(Protocol):
    """What is read: pickled into the query once, asked in the planner, read from in tasks.

    `read` yields batches of exactly the schema that the option `columns` names as Spark's DDL.
    """

    limit: Limit

    def initial_offsets(self) -> Offsets: ...

    def available(self) -> Offsets: ...

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None) -> Offsets: ...

    def shares(self, start: Offsets, end: Offsets) -> Sequence[Any]:
        """The batch between, as one picklable thing a task."""
        ...

    def read(self, share: Any) -> Iterator[pa.RecordBatch]: ...

    def close(self) -> None: ...


def packed(stream: RangeStream) -> str:
    """A stream as the text of an option. Options end in Spark's event log: secrets must be references in it."""
    return base64.b64encode(pickle.dumps(stream)).decode()


class Share(InputPartition):
    """One task's part of a batch."""


class ChangesDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return str(self.options[COLUMNS])

    def streamReader(self, schema: Any) -> ChangesReader:  # noqa: N802
        return ChangesReader(str(self.options[STREAM]))


class ChangesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, packed_stream: str) -> None:
        # Spark makes readers in processes that only ask for their class: the stream is unpacked when it is needed.
        self._packed = packed_stream
        self._until: Offsets | None = None

    @cached_property
    def _stream(self) -> RangeStream:
        stream: RangeStream = pickle.loads(base64.b64decode(self._packed))  # noqa: S301  our own text
        return stream

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with carrying():
            self._until = self._stream.available()

    def initialOffset(self) -> Offsets:  # noqa: N802
        with carrying():
            return self._stream.initial_offsets()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._stream.limit
        return ReadAllAvailable() if limit == NO_LIMIT else ReadMaxRows(limit.rows or (1 << 62))

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        allowed = NO_LIMIT if isinstance(limit, ReadAllAvailable) else self._stream.limit
        with carrying():
            return self._stream.latest_offsets(start, allowed, self._until)

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        with carrying():
            return [Share(share) for share in self._stream.shares(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with carrying():
            yield from self._stream.read(partition.value)

    def stop(self) -> None:
        self._stream.close()
