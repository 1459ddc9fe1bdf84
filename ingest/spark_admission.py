"""How much Spark lets a stream read in one batch, in all supported versions.

Since Spark 4.2 the planner passes the start of a batch and a limit to `latestOffset`. Spark 4.0 and 4.1 pass neither,
and have no classes for limits: those below take their place, and `RememberedStart` adapts a reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from penstock.ingest.source import Offsets

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

    PASSES_START = True
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxRows,
            SupportsTriggerAvailableNow,
        )

        PASSES_START = True
    except ModuleNotFoundError:
        PASSES_START = False

        class ReadLimit:
            """A limit of one batch."""

        class ReadAllAvailable(ReadLimit):
            """No limit."""

        @dataclass(frozen=True)
        class ReadMaxRows(ReadLimit):
            """A limit by rows."""

            max_rows: int

        class SupportsTriggerAvailableNow:
            """Marks readers that determine the end of a bounded query themselves."""


__all__ = [
    "PASSES_START",
    "BoundedRun",
    "LimitedReader",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "RememberedStart",
    "SupportsTriggerAvailableNow",
]


class LimitedReader(Protocol):
    """A stream reader as Spark 4.2 and newer call it."""

    def prepareForTriggerAvailableNow(self) -> None: ...  # noqa: N802

    def initialOffset(self) -> Offsets: ...  # noqa: N802

    def getDefaultReadLimit(self) -> ReadLimit: ...  # noqa: N802

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets: ...  # noqa: N802

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]: ...

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]: ...

    def commit(self, end: Offsets) -> None: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class BoundedRun:
    """Shows the driver, by a file, that a bounded run has read all.

    Spark 4.0 and 4.1 would end a bounded query after a single batch, however small its limit is. So the query has no
    bound for Spark, and the driver stops it. The planner runs on the machine of the driver.
    """

    file: Path

    def caught_up(self) -> None:
        self.file.touch()

    @property
    def is_caught_up(self) -> bool:
        return self.file.exists()


class RememberedStart(DataSourceStreamReader):
    """A stream reader for Spark 4.0 and 4.1.

    One planner process lives as long as the query, so a batch starts at the end that was returned before. The first
    batch of a query starts at `start`, the end of the newest batch that its checkpoint has, or without one at the
    initial offset.
    """

    def __init__(
        self, reader: LimitedReader, start: Callable[[], Offsets | None], bounded: BoundedRun | None = None
    ) -> None:
        self._reader, self._start, self._bounded = reader, start, bounded
        self._initial: Offsets | None = None
        self._end: Offsets | None = None
        self._prepared = False

    def initialOffset(self) -> Offsets:  # noqa: N802
        # Spark asks for the newest offset first, and then for the initial one, which must be the same.
        if self._initial is None:
            self._initial = self._reader.initialOffset()
        return self._initial

    def latestOffset(self) -> Offsets:  # noqa: N802
        if self._bounded is not None and not self._prepared:
            self._reader.prepareForTriggerAvailableNow()
            self._prepared = True
        known = self._start() if self._end is None else self._end
        start = self.initialOffset() if known is None else known
        self._end = self._reader.latestOffset(start, self._reader.getDefaultReadLimit())
        # The first batch of a checkpoint is run even if it is empty.
        if self._bounded is not None and known is not None and self._end == known:
            self._bounded.caught_up()
        return self._end

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        # A query that restarts begins with the batch that was planned but not done.
        self._end = end
        return self._reader.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reader.read(partition)

    def commit(self, end: Offsets) -> None:
        self._reader.commit(end)

    def stop(self) -> None:
        self._reader.stop()
