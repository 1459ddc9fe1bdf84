"""Runs a pipeline as one Spark Structured Streaming query."""

from __future__ import annotations

import logging
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from penstock.errors import PenstockError, StoreError
from penstock.ingest.decoded_source import ChangeSource
from penstock.ingest.source import NO_LIMIT, Limit
from penstock.ingest.spark_stream import changes_source
from penstock.pipelines.driver.batch import BatchDriver, OnBatch
from penstock.pipelines.driver.commit import Commits
from penstock.pipelines.driver.first_sample import FirstLook
from penstock.pipelines.driver.maintenance import Maintenance
from penstock.pipelines.errors import SparkEnded, WorkerLate
from penstock.pipelines.job.foreach_batch import Sink, compacted_by_spark
from penstock.pipelines.job.long_batch import LongBatch, running_tasks
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.ledger.filled_tables import FilledTables, SourceName
from penstock.pipelines.ledger.lineage import Lineage, Reached
from penstock.pipelines.ledger.parked_tables import Parking
from penstock.pipelines.mapping.table_mapping import TableMapping
from penstock.pipelines.mapping.target_tables import Targets
from penstock.pipelines.spark.errors import jvm_ended, told_by_spark
from penstock.pipelines.spark.hadoop import checkpoint_url
from penstock.pipelines.tasks import dead_letters
from penstock.pipelines.tasks import shuffle_rows as blobs
from penstock.pipelines.tasks.bad_records import FAIL, OnBad
from penstock.pipelines.tasks.read import BatchReader
from penstock.storage.failures import store_error
from penstock.table.catalog.settings import CatalogSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger(__name__)


POLL_SECONDS = 0.5
LOOKED_AT = 50  # snapshots per table searched for the pipeline's own: with other writers a table may have thousands
LATE_STARTS = 3  # how often Spark may be too slow to start on a busy machine, whatever `on-error` says
GRACE_SECONDS = 60.0  # a batch that takes longer is abandoned; the next start repeats it


@dataclass(frozen=True, slots=True)
class Job:
    """A pipeline ready to run. `tables` are existing tables that it may write; others are created when first needed."""

    name: str
    source: ChangeSource
    mapping: TableMapping
    warehouse: CatalogSettings
    checkpoint: str
    tables: tuple[str, ...] = ()
    trigger_seconds: float = 30.0
    until_caught_up: bool = False
    limit: Limit = NO_LIMIT
    on_bad: OnBad = FAIL
    accept_replay: bool = False
    resume_from_tables: bool = False
    ignore_incompatible: bool = False
    eager_init: bool = False
    compaction: Literal["inline", "background"] = "inline"
    readers: int | None = None  # tasks reading at once, to limit the load on the source
    compaction_tasks: int | None = None  # of a compaction in the background; None: a quarter of the slots
    maintenance_seconds: float = 60.0
    first_look: FirstLook | None = None
    retries: int = 0
    backoff_seconds: tuple[float, float] = (1.0, 300.0)
    isolate: bool = False
    retry_parked: bool = False
    forget_parked: bool = False  # all tables are read again
    reset: tuple[str, ...] = ()  # these tables are read again
    table_options: Mapping[str, str] = field(default_factory=dict)  # of new tables
    leaves_out: bool = False  # new tables that cannot be created are left out
    left_out: Mapping[str, str] = field(default_factory=dict)  # tables known at the start to be left out, and why
    filled: FilledTables | None = None  # the checkpoint's record of the tables that were filled
    # target tables of the source tables known at the start
    goes_to: Mapping[SourceName, str | None] = field(default_factory=dict)

    def batches(
        self,
        folder: Path,
        tasks: int,
        writers: int,
        on_batch: OnBatch | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> BatchDriver:
        """Return the driver's part of a run, with its list of tables in `folder`.

        Creates what must exist before the first batch.
        """
        targets = Targets(self.warehouse, folder, options=self.table_options)
        self.mapping.adopt(self.tables)
        if self.on_bad.table is not None:
            dead_letters.ensure(self.warehouse, self.on_bad.table)
        targets.load({*self.tables, *self.on_bad.letters})
        parking = self.parking()
        anew = parking.tables if self.forget_parked else parking.tables.keys() & set(self.reset)
        if anew:
            parking.release(*anew)
        targets.leave_out(parking.tables)
        targets.reasons |= self.left_out
        follows, resumes = self._lineage(targets)
        reading = BatchReader(
            self.source,
            self.mapping,
            self.warehouse,
            str(folder),
            min(tasks, self.readers or tasks),
            writers,
            limit=self.limit,
            on_bad=self.on_bad,
            resumes=resumes,
            ignore_incompatible=self.ignore_incompatible,
            compacts_in_background=self.compaction == "background",
            isolates=self.isolate,
            leaves_out=self.leaves_out,
        )
        if self.first_look is not None and resumes is None and self._own_checkpoint.is_new:
            self.first_look.make_tables(reading, targets, stopped)
        commits = Commits(self.warehouse, self.accept_replay, follows, self.isolate)
        own = Lineage.of(self.warehouse, targets.schemas, self.name).newest if self.eager_init else {}
        eager = set(own) if self.eager_init else None
        if self.filled is not None:
            self.filled.begin(self.goes_to)
        return BatchDriver(self.name, reading, targets, commits, parking, on_batch, eager=eager, filled=self.filled)

    def parking(self) -> Parking:
        """Return the tables that are parked now."""
        return Parking.of(self._own_checkpoint, isolates=self.isolate)

    @property
    def is_new(self) -> bool:
        """True if no batch was ever planned with the checkpoint."""
        return self._own_checkpoint.is_new

    @property
    def _own_checkpoint(self) -> CheckpointFolder:
        return CheckpointFolder(self.checkpoint, self.warehouse.store_options)

    def _lineage(self, targets: Targets) -> tuple[frozenset[str], Reached | None]:
        """Return the commit users of older checkpoints that this one may continue, and the batch at which it begins."""
        checkpoint = self._own_checkpoint
        new = checkpoint.is_new
        if not (new or self.accept_replay):
            return checkpoint.follows(), None
        lineage = Lineage.of(self.warehouse, targets.schemas, self.name)
        resumes = lineage.last() if self.resume_from_tables and new else None
        if resumes is None and not self.accept_replay:
            lineage.refuse()
        return checkpoint.follow(lineage.users), resumes


@dataclass(slots=True)
class Running:
    """A job running in a session.

    `run` returns when the job has caught up or was stopped, and raises the error that ended it.
    """

    job: Job
    session: SparkSession
    on_batch: OnBatch | None = None
    sleep: Callable[[float], None] = time.sleep
    _stopped: bool = field(default=False)
    _paused: bool = field(default=False)
    _resting: bool = field(default=False)
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
                if self._run_once() or self._stopped:
                    return None
            except PenstockError as error:
                ended = self._jvm_ended(error) if isinstance(error, WorkerLate) else None
                if ended is not None:
                    return self._over(ended, error)
                failures += 1
                if not self._may_retry(error, failures):
                    raise
                self._pause(failures, error.message)
            except (PySparkException, Py4JError, OSError, EOFError) as error:
                ended = self._jvm_ended(error)
                if ended is not None:
                    return self._over(ended, error)
                failures += 1
                passing = store_error(error, "the store failed") if isinstance(error, OSError) else None
                if not isinstance(passing, StoreError) or not self._may_retry(passing, failures):
                    raise
                self._pause(failures, str(error))

    def _jvm_ended(self, error: BaseException) -> SparkEnded | None:
        return jvm_ended(error, stopping=self._stopped)

    def _may_retry(self, error: PenstockError, failures: int) -> bool:
        retries = max(self.job.retries, LATE_STARTS) if isinstance(error, WorkerLate) else self.job.retries
        return error.retryable and failures <= retries and not self._stopped

    def _pause(self, failures: int, reason: str) -> None:
        first, longest = self.job.backoff_seconds
        pause = min(longest, first * 2 ** (failures - 1))
        log.warning("event=retry attempt=%d after=%gs reason=%s", failures, pause, reason)
        self.sleep(pause)

    def _over(self, ended: SparkEnded, error: BaseException) -> None:
        """Handle the end of Spark's JVM.

        Stopping a whole process group also stops Spark, in the middle of a batch, which is not an error.
        """
        if not self._stopped:
            raise ended from error
        log.warning("event=stopped_with_spark reason=%s", "the next run takes the batch that was under way")

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
        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
            sink = self._sink(Path(folder))
            self._parked(sink)
            query = self._started(sink)
            try:
                sink.name(str(query.id))
                with self._maintenance(sink.batches) as maintenance:
                    ended = self._wait(query, sink)
                if ended:  # a bounded run may end before maintenance is due
                    maintenance.maintain(now=True)
                return ended
            except PySparkException as error:
                raise told_by_spark(error, sink.failure, self.job.checkpoint, sink.batches.reading.mark) from error
            finally:
                query.stop()

    def _parked(self, sink: Sink) -> None:
        parking = sink.batches.parking
        if self.job.retry_parked and parking.tables:
            try:
                sink.catch_up(self.session, lambda: self._stopped)
            except PySparkException as error:
                raise told_by_spark(error, sink.failure, self.job.checkpoint, sink.batches.reading.mark) from error
        for one in parking.tables.values():
            log.warning("event=table_is_parked table=%s batch=%d reason=%s", one.table, one.batch, one.reason)

    def _maintenance(self, batches: BatchDriver) -> Maintenance:
        job = self.job
        by_spark = compacted_by_spark(self.session, job.warehouse, batches.reading.mark, job.compaction_tasks)
        compact = by_spark if job.compaction == "background" else None
        batches.compact = by_spark
        before = Lineage.of(job.warehouse, batches.targets.schemas, job.name, LOOKED_AT).newest
        return Maintenance(
            job.warehouse,
            lambda: sorted({*before, *batches.targets.taken}),
            lambda: f"{job.name}-{batches.checkpoint}",
            compact,
            job.maintenance_seconds,
        )

    def _wait(self, query: StreamingQuery, sink: Sink) -> bool:
        asked = None
        long_batch = LongBatch(lambda: running_tasks(self.session.sparkContext))
        while not query.awaitTermination(POLL_SECONDS):
            if self._stopped or self._paused:
                asked = time.monotonic() if asked is None else asked
                if not sink.busy or time.monotonic() - asked > GRACE_SECONDS:
                    return False
            if sink.busy:
                long_batch.look(sink.number, sink.began)
        return True

    def _sink(self, folder: Path) -> Sink:
        slots = self.session.sparkContext.defaultParallelism
        return Sink(self.job.batches(folder, slots, slots, self.on_batch, lambda: self._stopped))

    def _started(self, sink: Sink) -> StreamingQuery:
        reading = sink.batches.reading
        source = changes_source(self._source, blobs.COLUMNS, reading, reading.mark, self.job.trigger_seconds)
        self.session.dataSource.register(source)
        stream = self.session.readStream.format(self._source).load()
        writer = stream.writeStream.queryName(self.job.name).option(
            "checkpointLocation", checkpoint_url(self.job.checkpoint)
        )
        return writer.trigger(**self._trigger()).foreachBatch(sink).start()

    def _trigger(self) -> dict[str, Any]:
        if self.job.until_caught_up:
            return {"availableNow": True}
        return {"processingTime": "0 seconds"}  # the source keeps the interval, see ChangesReader


def run(job: Job, session: SparkSession, on_batch: OnBatch | None = None) -> None:
    Running(job, session, on_batch).run()
