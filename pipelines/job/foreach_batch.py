"""The foreachBatch function: a single action on the batch's DataFrame, then the driver's part."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from penstock.errors import PenstockError
from penstock.ingest.carried_errors import ErrorMark
from penstock.pipelines.driver.batch_driver import BatchDriver
from penstock.pipelines.driver.compaction import Compact, DueBucket, bucket_groups, compact_task
from penstock.pipelines.driver.small_batches import SHUFFLED_MODES
from penstock.pipelines.job.partition_ids import partitioned
from penstock.pipelines.ledger.local_logs import LocalLogs
from penstock.pipelines.mapping.target_tables import Schemas
from penstock.pipelines.spark.errors import tasks_lost
from penstock.pipelines.spark.shared_warehouse import check_shared
from penstock.pipelines.tasks import shuffle_rows as blobs
from penstock.pipelines.tasks.batch_result import COLUMNS, BatchResult
from penstock.pipelines.tasks.key_placement import moves_keys, place_task
from penstock.pipelines.tasks.read import BatchReader
from penstock.pipelines.tasks.table_task_writer import CompactionTiming
from penstock.pipelines.tasks.task_input import TaskInput
from penstock.pipelines.tasks.write import write_task
from penstock.table.buckets.layout import BucketMode
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.entries import CommitMessage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POOL = "compaction"
ORDER = ("table", "partition", "bucket", "range", "position")
# If all tables have at most this many buckets, one task writes small batches: it writes one file after the other.
FEW_BUCKETS = 16
_BUCKETS_ASSUMED = 4  # of a table whose number of buckets grows with its keys


@dataclass(frozen=True, slots=True)
class SparkTasks:
    """Runs the tasks of batches as Spark jobs. `pipeline` is the writer's name in tables with postponed buckets."""

    session: SparkSession
    pipeline: str

    def run(self, reader: BatchReader, number: int, batch: DataFrame, schemas: Schemas) -> BatchResult:
        """Run the only action on the batch: a second one would read and decode everything again.

        A batch in one partition is small, or Spark runs only one task at a time: the task that reads it writes it
        too, without a shuffle. It is the only writer of the batch, so all buckets are its own.

        `schemas` are the target tables that the batch may write.
        """
        if _partitions(batch) == 1 and has_few_buckets(reader.warehouse, schemas):
            return self._written(reader, number, batch.sortWithinPartitions(*ORDER), 1)
        return self._run_shuffled(reader, number, batch, schemas)

    def _run_shuffled(self, reader: BatchReader, number: int, batch: DataFrame, schemas: Schemas) -> BatchResult:
        # Without such tables this step would only add a shuffle: it passes their rows on unchanged.
        if moves_keys(reader.warehouse, schemas.items()):
            batch = _shuffled(reader, batch).mapInArrow(
                place_task(reader.warehouse, reader.writers, reader.mark), blobs.COLUMNS
            )
        return self._written(reader, number, _shuffled(reader, batch), reader.writers)

    def _written(self, reader: BatchReader, number: int, rows: DataFrame, writers: int) -> BatchResult:
        timing = CompactionTiming(number, reader.compacts_in_background)
        task = write_task(reader.warehouse, writers, timing, reader.mark, self.pipeline, frozenset(reader.mapping.made))
        result = BatchResult.of(rows.mapInArrow(task, COLUMNS).toArrow())
        check_shared(self.session.sparkContext.master, reader.warehouse, result.messages)
        return result

    def reread(self, reader: BatchReader, number: int, inputs: Sequence[TaskInput]) -> BatchResult:
        """Read inputs of the batch again in a separate job, and write them.

        It works inside foreachBatch, since its input comes from its closure.
        """

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            with reader.mark.carrying():
                for batch in batches:
                    for place in batch.column(0).to_pylist():
                        yield from reader.read(inputs[place])

        # One row per input: its number is the place of the input in the closure.
        rows = self.session.range(0, len(inputs), 1, len(inputs)).mapInArrow(read, blobs.COLUMNS)
        schemas = {table: version.schema for task in inputs for table, version in task.versions.items()}
        return self._run_shuffled(reader, number, rows, schemas)


def _partitions(batch: DataFrame) -> int:
    """Return the number of partitions of a batch, which Spark has planned already."""
    return int(batch._jdf.queryExecution().toRdd().getNumPartitions())


def has_few_buckets(warehouse: CatalogSettings, schemas: Schemas) -> bool:
    """Return whether one task can write small batches of these tables."""
    buckets = 0
    for table, schema in schemas.items():
        layout = warehouse.layout(table, schema)
        if layout.mode in SHUFFLED_MODES:
            return False
        buckets += layout.bucket_count if layout.mode is BucketMode.FIXED else _BUCKETS_ASSUMED
        if buckets > FEW_BUCKETS:
            return False
    return True


def _shuffled(reader: BatchReader, batch: DataFrame) -> DataFrame:
    """Distribute rows to their writers, with the rows of a bucket together and in source order."""
    return partitioned(batch, reader.writers, "writer").sortWithinPartitions(*ORDER)


@dataclass(slots=True)
class BatchSink:
    """The callable for foreachBatch.

    Spark writes its commit log after a call returns, so a batch is in the tables before Spark counts it as done.
    """

    driver: BatchDriver
    tasks: SparkTasks
    logs: LocalLogs | None = None  # of a checkpoint in an object store
    failure: PenstockError | OSError | None = None
    busy: bool = False
    number: int = 0  # of the batch under way
    began: float = 0.0  # when its tasks were started
    _named: threading.Event = field(default_factory=threading.Event)

    def name(self, checkpoint: str) -> None:
        """Set the checkpoint's UUID, which is known only once the query has started."""
        self.driver.checkpoint = checkpoint
        self._named.set()

    def __call__(self, batch: DataFrame, number: int) -> None:
        # Spark may call this before `start` has returned the query, whose id is part of the commit user.
        self._named.wait()
        driver = self.driver
        self.number, self.began = number, time.monotonic()
        self.busy = True
        # The difference to the instant of the plan is the time that Spark needed to plan and start the batch.
        driver.clock.start(driver.reader.warehouse.now_millis())
        try:
            if self.logs is not None:
                self.logs.keep_plan(number)
            driver.take(number, self.tasks.run(driver.reader, number, batch, driver.targets.schemas))
            if self.logs is not None:
                self.logs.keep_finish(number)
        except (PenstockError, OSError) as error:
            self.failure = error  # Spark passes on only its text
            raise
        finally:
            self.busy = False


def compacted_by_spark(session: SparkSession, warehouse: CatalogSettings, mark: ErrorMark, most: int | None) -> Compact:
    """Return a function that compacts in a Spark job beside the batches, in a separate pool.

    The job has `most` tasks, or by default at most a quarter of the slots.
    """
    slots = session.sparkContext.defaultParallelism

    def compact(dues: Sequence[DueBucket]) -> Mapping[str, list[CommitMessage]]:
        session.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
        groups = bucket_groups(dues, slots, most)
        frame = session.range(0, len(groups), 1, len(groups))
        try:
            # Only metadata of files returns to the driver.
            rows = frame.mapInArrow(compact_task(warehouse, groups, mark), COLUMNS).toArrow()
        except (PySparkException, Py4JError) as error:
            raise mark.recovered(error) or tasks_lost(error) or error from error
        messages = BatchResult.of(rows).messages
        check_shared(session.sparkContext.master, warehouse, messages)
        return messages

    return compact
