"""What the driver does with a batch: one action, the drift it met, the commits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.pipelines.run.committing import Commits, discard
from penstock.pipelines.run.identity import BatchIdentity
from penstock.pipelines.run.reading import Reading
from penstock.pipelines.run.replay import Replay
from penstock.pipelines.run.reports import BatchReport
from penstock.pipelines.run.tables import Targets
from penstock.pipelines.run.writing import COLUMNS, Written, write_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

OnBatch = Callable[[BatchIdentity, BatchReport], None]


@dataclass(slots=True)
class Sink:
    """The function of foreachBatch. Called again with a batch it has committed, it changes nothing.

    Spark's commit log is written after it returns, so a batch is in the tables before it counts as done.
    """

    pipeline: str
    reading: Reading
    targets: Targets
    commits: Commits
    on_batch: OnBatch | None = None
    failure: BaseException | None = None
    busy: bool = False
    _checkpoint: str = ""
    _named: threading.Event = field(default_factory=threading.Event)

    def name(self, checkpoint: str) -> None:
        """Tell the uuid of the checkpoint, which only the started query knows."""
        self._checkpoint = checkpoint
        self._named.set()

    def __call__(self, batch: DataFrame, number: int) -> None:
        self._named.wait()
        self.busy = True
        try:
            self._take(batch, number)
        except BaseException as error:
            self.failure = error  # Spark keeps only its text
            raise
        finally:
            self.busy = False

    def _take(self, batch: DataFrame, number: int) -> None:
        written = self._written(batch)
        written = Replay(self.reading, self.targets, self._written).settled(batch.sparkSession, written)
        report = BatchReport(written.reports)
        span = report.span
        if span is None:  # offsets moved without a range to read
            return
        identity = BatchIdentity(self.pipeline, self._checkpoint, number, *span)
        self.targets.put(self.commits.commit(identity, written.messages, {}))
        self.reading.source.mirror(span[1])
        if self.on_batch is not None:
            self.on_batch(identity, report)

    def _written(self, batch: DataFrame) -> Written:
        """The one action: a second one would read and decode everything again."""
        rows = (
            batch.repartitionById(self.reading.writers, "writer")
            .sortWithinPartitions("table", "partition", "bucket", "range", "position")
            .mapInArrow(write_task(self.reading.warehouse, self.targets.versions, self.reading.writers), COLUMNS)
        )
        written = Written.of(rows.toArrow())
        if written.failures:
            for table, messages in written.messages.items():
                discard(self.reading.warehouse.store(table), messages)
            raise written.failures[0]
        return written
