"""The foreachBatch function: a single action on the batch's DataFrame, then the driver's part."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkException

from penstock.errors import PenstockError
from penstock.ingest.carried_errors import ErrorMark
from penstock.pipelines.driver.batch import BatchDriver
from penstock.pipelines.driver.catch_up import catch_up
from penstock.pipelines.driver.compaction import Compact, DueBucket, compact_task, shared_out
from penstock.pipelines.tasks import shuffle_rows as blobs
from penstock.pipelines.tasks.key_placement import moves_keys, place_task
from penstock.pipelines.tasks.read import TaskInput
from penstock.pipelines.tasks.write import COLUMNS, BatchResult, CompactionTiming, write_task
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.entries import CommitMessage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POOL = "compaction"


@dataclass(slots=True)
class Sink:
    """The callable for foreachBatch.

    Spark writes its commit log after a call returns, so a batch is in the tables before Spark counts it as done.
    """

    batches: BatchDriver
    failure: PenstockError | OSError | None = None
    busy: bool = False
    number: int = 0  # of the batch under way
    began: float = 0.0  # when its tasks were started
    _named: threading.Event = field(default_factory=threading.Event)

    def name(self, checkpoint: str) -> None:
        """Set the checkpoint's UUID, which is known only once the query has started."""
        self.batches.checkpoint = checkpoint
        self._named.set()

    def __call__(self, batch: DataFrame, number: int) -> None:
        self._named.wait()
        self.number, self.began = number, time.monotonic()
        self.busy = True
        self.batches.started_millis = self.batches.reading.warehouse.now_millis()
        try:
            session = batch.sparkSession
            compacting = CompactionTiming(number, self.batches.reading.compacts_in_background)

            def again(shares: Sequence[TaskInput]) -> BatchResult:
                return self._written(self._rows(session, shares), compacting)

            self.batches.take(number, self._written(batch, compacting), again)
        except (PenstockError, OSError) as error:
            self.failure = error  # Spark passes on only its text
            raise
        finally:
            self.busy = False

    def catch_up(self, session: SparkSession, stopped: Callable[[], bool]) -> None:
        """Apply the batches that parked tables missed, before the query begins."""
        in_background = self.batches.reading.compacts_in_background

        def again(number: int, shares: Sequence[TaskInput]) -> BatchResult:
            return self._written(self._rows(session, shares), CompactionTiming(number, in_background))

        catch_up(self.batches, again, stopped)

    def _written(self, batch: DataFrame, compacting: CompactionTiming) -> BatchResult:
        """Run the only action on the batch: a second one would read and decode everything again."""
        reading = self.batches.reading
        if moves_keys(reading.warehouse, self.batches.targets.schemas):
            batch = self._shuffled(batch).mapInArrow(
                place_task(reading.warehouse, reading.writers, reading.mark), blobs.COLUMNS
            )
        rows = self._shuffled(batch).mapInArrow(
            write_task(reading.warehouse, reading.writers, compacting, reading.mark, self.batches.pipeline), COLUMNS
        )
        return BatchResult.of(rows.toArrow())

    def _shuffled(self, batch: DataFrame) -> DataFrame:
        """Distribute rows to their writers, with the rows of a bucket together and in source order."""
        return batch.repartitionById(self.batches.reading.writers, "writer").sortWithinPartitions(
            "table", "partition", "bucket", "range", "position"
        )

    def _rows(self, session: SparkSession, shares: Sequence[TaskInput]) -> DataFrame:
        """Return the DataFrame of a batch read of shares.

        It works inside foreachBatch, since its input comes from its closure.
        """
        reading = self.batches.reading

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            with reading.mark.carrying():
                for batch in batches:
                    for number in batch.column(0).to_pylist():
                        yield from reading.read(shares[number])

        return session.range(0, len(shares), 1, len(shares)).mapInArrow(read, blobs.COLUMNS)


def compacted_by_spark(
    session: SparkSession, warehouse: CatalogSettings, mark: ErrorMark, most: int | None = None
) -> Compact:
    """Return a function that compacts in a Spark job beside the batches, in a separate pool.

    The job has `most` tasks, or by default at most a quarter of the slots.
    """
    slots = session.sparkContext.defaultParallelism

    def compact(dues: Sequence[DueBucket]) -> Mapping[str, list[CommitMessage]]:
        session.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
        groups = shared_out(dues, slots, most)
        frame = session.range(0, len(groups), 1, len(groups))
        try:
            rows = frame.mapInArrow(compact_task(warehouse, groups, mark), COLUMNS).toArrow()
        except PySparkException as error:
            raise mark.recovered(error) or error from error
        return BatchResult.of(rows).messages

    return compact
