"""The batches of a run without Spark: each is planned, read, written and committed as a batch with Spark is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.ingest.batch_pace import BatchPace
from penstock.ingest.source import TIMES_SMALL, Offsets
from penstock.ingest.source_waits import waiting_for_source
from penstock.pipelines.driver.batch_driver import BatchDriver
from penstock.pipelines.driver.compaction import due_buckets
from penstock.pipelines.driver.local_runner import write_rows
from penstock.pipelines.driver.small_batches import MOST_BYTES, LeftToSpark, StopRequested, copied, read_rows
from penstock.pipelines.job.batch_memory import BatchMemory
from penstock.pipelines.job.job import Job, may_pass
from penstock.pipelines.ledger.batch_logs import NextBatch
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.tasks.read import BatchReader

log = logging.getLogger(__name__)
POLL_SECONDS = 0.5
# As many attempts as Spark makes of a task: a connection that is cut does not end a run.
READ_ATTEMPTS = 4


@dataclass(slots=True)
class RunSignals:
    """The signals that a run received.

    `resting`: it is paused and no batch is running. `cut_short`: a wait for the source has ended because of a signal,
    which may be over by the time its error is handled.
    """

    stopped: bool = False
    paused: bool = False
    resting: bool = False
    cut_short: bool = False

    def interrupts(self) -> bool:
        """Return whether a wait for the source has to end."""
        self.cut_short = self.cut_short or self.stopped or self.paused
        return self.stopped or self.paused

    def rest(self, sleep: Callable[[float], None]) -> None:
        self.resting = True
        sleep(POLL_SECONDS)
        self.resting = self.cut_short = False


@dataclass(frozen=True, slots=True)
class LocalBatches:
    """The batches of a run in this process. The first batch that needs Spark raises LeftToSpark.

    `planner` is a copy of the driver's reader, since a source remembers what it planned. With `takes_batches` false,
    any batch raises LeftToSpark.
    """

    job: Job
    folder: CheckpointFolder
    driver: BatchDriver
    planner: BatchReader
    signals: RunSignals
    memory: BatchMemory
    takes_batches: bool
    sleep: Callable[[float], None]

    def take_all(self, batch: NextBatch, own: Callable[[], Iterable[str]]) -> bool:
        """Take batches from this one on, until the run ends. Return False if it was stopped before the last one.

        `own` returns the tables that the pipeline wrote, in this run or before.
        """
        trigger, planner = self.job.trigger, self.planner
        pace = BatchPace(trigger.seconds, sleep=self.sleep, stopped=self.signals.interrupts)
        with waiting_for_source():
            pace.until = planner.available() if trigger.until_caught_up else None
        while not self.signals.stopped:
            if self.signals.paused:
                self.signals.rest(self.sleep)
                continue
            with waiting_for_source():
                start = planner.initial_offsets() if batch.start is None else batch.start
                end = batch.end or pace.next_end(planner, start, trigger.limit)
            # As with Spark, the first batch of a checkpoint is taken even if it is empty.
            if end == start and batch.start is not None:
                self.memory.used(0)
                if not trigger.until_caught_up:
                    continue
                self._check_compactions(own())
                return True
            try:
                self._take(NextBatch(batch.number, start, batch.end), end)
            except StopRequested:
                return False
            batch = NextBatch(batch.number + 1, end)
            if not trigger.until_caught_up:
                self._check_compactions(own())
        return False

    def _check_compactions(self, tables: Iterable[str]) -> None:
        """Raise LeftToSpark if compactions beside the batches are due."""
        if self.job.background.compacts and any(due_buckets(self.job.warehouse, table) for table in tables):
            raise LeftToSpark("compactions beside the batches are due")

    def _take(self, batch: NextBatch, end: Offsets) -> None:
        """Take one batch, in the order of Spark: its end is stored before it is read, and its finish after it."""
        assert batch.start is not None
        driver = self.driver
        # While a source plans, it may record new objects, such as a table, which are not new in the next plan. So if
        # the batch is left to Spark, Spark must read it up to the same end. In the first batch everything is new, so
        # Spark can determine its end itself.
        if batch.end is None and batch.number:
            self.folder.batches.plan(batch.number, end)
        if not self.takes_batches:
            raise LeftToSpark("there is something to read")
        driver.clock.start(self.job.warehouse.now_millis())
        try:
            rows = self._rows(batch.start, end)
        except LeftToSpark:
            self.memory.used(MOST_BYTES)
            raise
        if batch.end is None and not batch.number:
            self.folder.batches.plan(batch.number, end)
        driver.take(batch.number, write_rows(driver.reader, batch.number, rows))
        self.folder.batches.finish(batch.number)
        size = rows.nbytes
        del rows
        self.memory.used(size)

    def _rows(self, start: Offsets, end: Offsets) -> pa.Table:
        """Read the rows of a batch, again if the source or the store failed for the moment: nothing is written yet."""
        attempt = 1
        while True:
            try:
                with waiting_for_source():
                    return self._rows_once(start, end)
            except (PenstockError, OSError) as error:
                if attempt == READ_ATTEMPTS or not may_pass(error) or self.signals.interrupts():
                    raise
                attempt += 1
                log.warning("event=read_again try=%d of=%d reason=%s", attempt, READ_ATTEMPTS, error)

    def _rows_once(self, start: Offsets, end: Offsets) -> pa.Table:
        planner = self.planner
        inputs = planner.small_inputs(start, end, TIMES_SMALL)
        if inputs is None:
            raise LeftToSpark("the batch is large")
        if planner.leaves_much(end, TIMES_SMALL):
            raise LeftToSpark("many small batches would follow")
        return read_rows(copied(planner), inputs, lambda: self.signals.stopped)
