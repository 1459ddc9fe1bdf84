"""A run of a job whose batches this process reads and writes itself, without Spark, as long as they are small.

Such a run starts in a second, and needs no JVM. It plans, reads, writes and commits as a run with Spark does, and
writes the same logs into the checkpoint, so that each continues where the other one ended.
"""

from __future__ import annotations

import gc
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.ingest.patience import patience_unless
from penstock.ingest.source_waits import waiting_for_source
from penstock.pipelines.driver.batch_driver import BatchDriver, OnBatch
from penstock.pipelines.driver.maintenance import Maintenance
from penstock.pipelines.driver.small_batches import LeftToSpark, copied, reread
from penstock.pipelines.job.batch_memory import BatchMemory
from penstock.pipelines.job.job import Job, may_pass
from penstock.pipelines.job.local_batches import LocalBatches, RunSignals
from penstock.pipelines.job.run_control import Run, pause_before_retry
from penstock.pipelines.ledger.batch_identity import LOOKED_AT
from penstock.pipelines.ledger.batch_logs import NextBatch
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.ledger.lineage import Lineage
from penstock.pipelines.tasks.garbage_collection import collect_seldom

log = logging.getLogger(__name__)


@dataclass(slots=True)
class LocalRun:
    """A run in this process. The first batch that needs Spark, and all that follow, are left to `with_spark`.

    With `takes_batches` false, it only finds out whether there is a batch to read, and maintains the tables.
    """

    job: Job
    folder: CheckpointFolder
    with_spark: Callable[[Job], Run]
    takes_batches: bool = True
    on_batch: OnBatch | None = None
    sleep: Callable[[float], None] = time.sleep
    has_caught_up: bool = field(default=False, init=False)
    _signals: RunSignals = field(default_factory=RunSignals)
    _spark: Run | None = field(default=None)
    _memory: BatchMemory = field(default_factory=BatchMemory)

    def run(self) -> None:
        # Spark's part begins outside of the exception, whose frames hold the rows that were read so far.
        if self._needs_spark() and not self._signals.stopped:
            self._memory.used(0)
            self._continue_with_spark()

    def _needs_spark(self) -> bool:
        """Take batches until the run ends or a batch needs Spark."""
        try:
            with patience_unless(self._signals.interrupts), _working_as_a_task():
                self._run_here()
        except LeftToSpark as reason:
            # As a text: a handler that keeps records would keep the frames of the exception, and the rows in them.
            log.info("event=run_needs_spark pipeline=%s reason=%s", self.job.name, str(reason))
            return True
        return False

    def _run_here(self) -> None:
        self._check_start()
        failures = 0
        while not (self._signals.stopped or self.has_caught_up):
            # Here too: while a signal is set, an unreachable source fails at once instead of waiting.
            if self._signals.paused:
                self._signals.rest(self.sleep)
                continue
            self._signals.cut_short = False
            try:
                self._take_batches()
            except (PenstockError, OSError) as error:
                # A stop or a pause ends the wait for a source that is away.
                if (self._signals.interrupts() or self._signals.cut_short) and may_pass(error):
                    continue
                failures += 1
                if not may_pass(error) or failures > self.job.retry.times:
                    raise
                pause = self.job.retry.pause(failures)
                log.warning("event=retry attempt=%d after=%gs reason=%s", failures, pause, error)
                pause_before_retry(pause, self.sleep, self._signals.interrupts)

    def _check_start(self) -> None:
        """Raise LeftToSpark if the run has more to do than its batches, or if its checkpoint is not as expected."""
        recovery = self.job.recovery
        if recovery.reread_all or recovery.reread or self.folder.has_requests:
            raise LeftToSpark("tables are to be read again, or the run is to pause")
        if self.job.parking().tables:
            raise LeftToSpark("tables are parked")
        self._next_batch()

    def _next_batch(self) -> NextBatch:
        found = self.folder.batches.next_batch()
        if found is None:
            raise LeftToSpark("the checkpoint is not as this version writes it")
        return found

    def _take_batches(self) -> None:
        with tempfile.TemporaryDirectory(prefix="penstock-") as scratch:
            driver = self.job.driver(Path(scratch), 1, 1, reread, self.on_batch, lambda: self._signals.stopped)
            driver.checkpoint = self.folder.batches.create_query()
            planner = copied(driver.reader)
            try:
                with self._maintenance(driver) as maintenance:
                    batches = LocalBatches(
                        self.job,
                        self.folder,
                        driver,
                        planner,
                        self._signals,
                        self._memory,
                        self.takes_batches,
                        self.sleep,
                    )
                    self.has_caught_up = batches.take_all(self._next_batch(), maintenance.tables)
                if self.has_caught_up:
                    maintenance.maintain(now=True)
            finally:
                with waiting_for_source():
                    planner.close()
                self.job = self.job.knowing(driver.targets.schemas)

    def _maintenance(self, driver: BatchDriver) -> Maintenance:
        # Tables without rows in this run are maintained too: their snapshots expire and their partitions become old.
        before = Lineage.of(self.job.warehouse, driver.targets.schemas, self.job.name, LOOKED_AT).newest
        return Maintenance(
            self.job.warehouse,
            lambda: sorted({*before, *driver.targets.received}),
            lambda: f"{self.job.name}-{driver.checkpoint}",
            maintenance_seconds=self.job.background.maintenance_seconds,
        )

    def _continue_with_spark(self) -> None:
        try:
            spark = self.with_spark(self.job)
        except (PenstockError, OSError) as error:
            # A signal to the process group has also stopped the JVM.
            if not self._signals.stopped:
                raise
            log.warning("event=stopped_at_start pipeline=%s reason=%s", self.job.name, error)
            return
        spark.on_batch = self.on_batch
        self._spark = spark
        # A signal may have come while Spark was starting.
        if self._signals.paused:
            spark.pause()
        if self._signals.stopped:
            spark.stop()
        spark.run()
        self.has_caught_up = spark.has_caught_up

    def stop(self) -> None:
        """Stop after the current batch, or before it is written. Only sets flags, so a signal handler may call it."""
        self._signals.stopped = True
        if self._spark is not None:
            self._spark.stop()

    def pause(self) -> None:
        """Wait after the current batch."""
        self._signals.paused = True
        if self._spark is not None:
            self._spark.pause()

    def resume(self) -> None:
        self._signals.paused = False
        if self._spark is not None:
            self._spark.resume()

    @property
    def is_resting(self) -> bool:
        """True if the job is paused and no batch is running."""
        return self._signals.resting if self._spark is None else self._spark.is_resting


@contextmanager
def _working_as_a_task() -> Iterator[None]:
    """Collect garbage seldom, as tasks do, and afterwards restore the settings of the process, which may be a notebook.

    Tasks also set the number of Arrow's threads to one.
    """
    threads, thresholds = pa.cpu_count(), gc.get_threshold()
    collect_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        pa.set_cpu_count(threads)
