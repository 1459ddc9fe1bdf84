"""Runs a job as one Spark Structured Streaming query, and again after failures that may pass."""

from __future__ import annotations

import logging
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from penstock.errors import PenstockError, SourceError
from penstock.ingest.spark_admission import PASSES_START, BoundedRun
from penstock.ingest.spark_stream import changes_source
from penstock.pipelines.driver.batch_driver import BatchDriver, OnBatch
from penstock.pipelines.driver.maintenance import Maintenance
from penstock.pipelines.errors import SparkEnded, TasksLost, WorkerLate
from penstock.pipelines.job.foreach_batch import BatchSink, SparkTasks, compacted_by_spark
from penstock.pipelines.job.job import Job, may_pass
from penstock.pipelines.job.long_batch import LongBatch, running_tasks
from penstock.pipelines.job.run_control import pause_before_retry
from penstock.pipelines.ledger.batch_identity import LOOKED_AT
from penstock.pipelines.ledger.lineage import Lineage
from penstock.pipelines.ledger.local_logs import LocalLogs
from penstock.pipelines.spark.checkpoint_files import accept_left_files, files_of_copy, prefer_quick_files
from penstock.pipelines.spark.errors import cause_of_end, jvm_ended
from penstock.pipelines.spark.hadoop import checkpoint_url
from penstock.pipelines.spark.masters import MasterWatch
from penstock.pipelines.spark.shared_warehouse import unshared
from penstock.pipelines.spark.worker_start import start_workers
from penstock.pipelines.tasks import shuffle_rows as blobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
LATE_STARTS = 3  # how often Spark may be too slow to start on a busy machine; `on-error` does not count these starts
GRACE_SECONDS = 60.0  # a batch that takes longer is abandoned; the next start repeats it


@dataclass(slots=True)
class JobRun:
    """A run of a job in a session, as one Structured Streaming query.

    `run` returns when the job has caught up or was stopped, and raises the error that ended it.
    """

    job: Job
    session: SparkSession
    on_batch: OnBatch | None = None
    sleep: Callable[[float], None] = time.sleep
    _stopped: bool = field(default=False)
    _paused: bool = field(default=False)
    _resting: bool = field(default=False)
    has_caught_up: bool = field(default=False, init=False)  # whether the query ended by itself
    # A session has one data source per name, and runs that share a session must not replace that of another run.
    _source: str = field(default_factory=lambda: f"penstock-changes-{uuid.uuid4().hex}")

    def run(self) -> None:
        failures = 0
        while True:
            while self._paused and not self._stopped:
                self._resting = True
                self.sleep(POLL_SECONDS)
            self._resting = False
            if self._stopped:
                return None
            try:
                self.has_caught_up = self._run_once()
                if self.has_caught_up or self._stopped:
                    return None
            except PenstockError as error:
                # Workers also fail while the JVM is ending, and then no retry in this process can help.
                ended = self._jvm_ended(error) if isinstance(error, WorkerLate | TasksLost) else None
                if ended is not None:
                    return self._over(ended, error)
                if self._ended_a_wait(error):
                    log.warning("event=stopped_at_start pipeline=%s reason=%s", self.job.name, error)
                    return None
                failures += 1
                if not self._may_retry(error, failures):
                    raise
                self._pause(failures, error.message)
            except (PySparkException, Py4JError, OSError, EOFError) as error:
                ended = self._jvm_ended(error)
                if ended is not None:
                    return self._over(ended, error)
                failures += 1
                if not self._may_retry(error, failures):
                    raise
                self._pause(failures, str(error))

    def _ended_a_wait(self, error: PenstockError) -> bool:
        """Return whether the error is that of a source which is away, and which a stop does not wait for."""
        return self._stopped and isinstance(error, SourceError) and error.retryable

    def _jvm_ended(self, error: BaseException) -> SparkEnded | None:
        return jvm_ended(error, stopping=self._stopped)

    def _may_retry(self, error: BaseException, failures: int) -> bool:
        configured = self.job.retry.times
        retries = max(configured, LATE_STARTS) if isinstance(error, WorkerLate) else configured
        if isinstance(error, TasksLost) and self._is_over():
            return False  # Spark gave up the whole application, for example because no executor could start
        return may_pass(error) and failures <= retries and not self._stopped

    def _is_over(self) -> bool:
        try:
            return bool(self.session.sparkContext._jsc.sc().isStopped())
        except (Py4JError, OSError):  # the JVM is about to end too
            return True

    def _pause(self, failures: int, reason: str) -> None:
        pause = self.job.retry.pause(failures)
        log.warning("event=retry attempt=%d after=%gs reason=%s", failures, pause, reason)
        pause_before_retry(pause, self.sleep, lambda: self._stopped or self._paused)

    def _over(self, ended: SparkEnded, error: BaseException) -> None:
        """Handle the end of Spark's JVM.

        Stopping a whole process group also stops Spark, in the middle of a batch, which is not an error.
        """
        if not self._stopped:
            raise ended from error
        log.warning("event=stopped_with_spark reason=%s", "the next run repeats the batch that was under way")

    def stop(self) -> None:
        """Stop after the current batch. Only sets a flag, so a signal handler may call it."""
        self._stopped = True

    def pause(self) -> None:
        """Stop after the current batch and wait. Called during a pause, it changes nothing."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    @property
    def is_resting(self) -> bool:
        """True if the job is paused and no batch is running."""
        return self._resting

    def _run_once(self) -> bool:
        """Run the query once. Return whether it ended by itself, because it had caught up."""
        # The driver's list of tables is in this folder. Spark's planner process reads it, and runs on the same
        # machine.
        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
            if not self.job.trigger.until_caught_up:  # such a run may find nothing, and need no workers
                start_workers(self.session)
            stops_itself = self.job.trigger.until_caught_up and not PASSES_START
            bounded = BoundedRun(Path(folder, "caught-up")) if stops_itself else None
            sink = self._sink(Path(folder))
            self._retry_parked(sink)
            # Parked tables have caught up by now. During the query, a released table would lack the batches
            # committed meanwhile.
            query = self._started(sink, bounded)
            try:
                # Spark stores the id in the checkpoint at the first start, so later starts have the same commit user.
                sink.name(str(query.id))
                with self._maintenance(sink.driver) as maintenance:
                    ended = self._wait(query, sink, bounded)
                if ended:  # a bounded run may end before maintenance is due
                    maintenance.maintain(now=True)
                return ended
            except PySparkException as error:
                raise self._cause_of_end(error, sink) from error
            finally:
                query.stop()

    def _cause_of_end(self, error: PySparkException | Py4JError, sink: BatchSink) -> BaseException:
        cause = cause_of_end(error, sink.failure, self.job.checkpoint, sink.driver.reader.mark)
        return unshared(cause, self.session.sparkContext.master)

    def _retry_parked(self, sink: BatchSink) -> None:
        parking = sink.driver.parking
        if self.job.recovery.retry_parked and parking.tables:
            try:
                sink.driver.catch_up(lambda: self._stopped)
            except (PySparkException, Py4JError) as error:
                raise self._cause_of_end(error, sink) from error
        for parked in parking.tables.values():
            log.warning("event=table_is_parked table=%s batch=%d reason=%s", parked.table, parked.batch, parked.reason)

    def _maintenance(self, driver: BatchDriver) -> Maintenance:
        job = self.job
        by_spark = compacted_by_spark(self.session, job.warehouse, driver.reader.mark, job.background.compaction_tasks)
        compact = by_spark if job.background.compacts else None
        # Set without background compaction too: some tables must be compacted right after a commit.
        driver.compact = by_spark
        # Tables without rows in this run are maintained too: their snapshots expire and their partitions become old.
        before = Lineage.of(job.warehouse, driver.targets.schemas, job.name, LOOKED_AT).newest
        return Maintenance(
            job.warehouse,
            lambda: sorted({*before, *driver.targets.received}),
            lambda: f"{job.name}-{driver.checkpoint}",
            compact,
            job.background.maintenance_seconds,
            failures=(PenstockError, OSError, PySparkException, Py4JError),
        )

    def _wait(self, query: StreamingQuery, sink: BatchSink, bounded: BoundedRun | None) -> bool:
        asked = None
        context = self.session.sparkContext
        long_batch, master = LongBatch(lambda: running_tasks(context)), MasterWatch(context)
        # Polled, because `stop` and `pause` only set flags: a signal handler may not wait for a lock of Spark.
        while not query.awaitTermination(POLL_SECONDS):
            if self._stopped or self._paused:
                asked = time.monotonic() if asked is None else asked
                # Between two batches the query can be stopped at once. A batch that is interrupted leaves files
                # without a commit, and is repeated by the next start.
                if not sink.busy or time.monotonic() - asked > GRACE_SECONDS:
                    return False
            if bounded is not None and bounded.is_caught_up:
                return True
            if sink.busy:
                long_batch.look(sink.number, sink.began)
                master.look()
        return True

    def _sink(self, folder: Path) -> BatchSink:
        slots = self.session.sparkContext.defaultParallelism
        tasks = SparkTasks(self.session, self.job.name)
        driver = self.job.driver(folder, slots, slots, tasks.reread, self.on_batch, lambda: self._stopped)
        return BatchSink(driver, tasks, LocalLogs.of(driver.parking.checkpoint, folder / "checkpoint"))

    def _started(self, sink: BatchSink, bounded: BoundedRun | None) -> StreamingQuery:
        reader = sink.driver.reader
        planned = None if PASSES_START else self.job.planned_offsets
        source = changes_source(
            self._source, blobs.COLUMNS, reader, reader.mark, self.job.trigger.seconds, planned, bounded
        )
        self.session.dataSource.register(source)
        checkpoint = self.job.checkpoint
        if sink.logs is not None:
            sink.logs.fill()
            checkpoint = str(sink.logs.path)
        else:
            prefer_quick_files(self.session, checkpoint)
        accept_left_files(self.session)
        stream = self.session.readStream.format(self._source).load()
        writer = stream.writeStream.queryName(self.job.name).option("checkpointLocation", checkpoint_url(checkpoint))
        with nullcontext() if sink.logs is None else files_of_copy(self.session):
            return writer.trigger(**self._trigger(bounded)).foreachBatch(sink).start()

    def _trigger(self, bounded: BoundedRun | None) -> dict[str, Any]:
        if self.job.trigger.until_caught_up and bounded is None:
            return {"availableNow": True}
        return {"processingTime": "0 seconds"}  # the source keeps the interval, see ChangesReader


def run(job: Job, session: SparkSession, on_batch: OnBatch | None = None) -> None:
    JobRun(job, session, on_batch).run()
