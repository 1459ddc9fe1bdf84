"""Samples the first records of a source to create tables before the first batch, which then need not be read twice."""

from __future__ import annotations

import itertools
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow.compute as pc

from penstock.errors import PenstockError, SourceError
from penstock.ingest.source import Range
from penstock.ingest.source_waits import waiting_for_source
from penstock.pipelines.driver.table_evolution import TableEvolution
from penstock.pipelines.mapping.target_tables import Targets
from penstock.pipelines.tasks.bad_records import OnBad
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.pipelines.tasks.range_report import RangeReport
from penstock.pipelines.tasks.read import BatchReader
from penstock.pipelines.tasks.shuffle_rows import NO_TABLE
from penstock.pipelines.tasks.task_input import TaskInput

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)  # before further attempts if a target table is required (the same as Paimon's)
WAIT_SECONDS = 1.0
FURTHER = 10


def pauses_of(seconds: float) -> tuple[float, ...]:
    """Return pauses that double each time and add up to this many seconds."""
    made: list[float] = []
    while (left := seconds - sum(made)) > 0:
        made.append(min(left, 2.0 ** len(made)))
    return tuple(made)


@dataclass(frozen=True, slots=True)
class FirstLook:
    """The sampling of first records.

    `ranges` returns ranges with that many first records of the source. `table` is the one target table that must be
    found; with `waits` it is waited for without limit.
    """

    ranges: Callable[[int], list[Range]]
    records: int
    place: str
    table: str | None = None
    waits: bool = False
    pauses: Sequence[float] = PAUSES
    sleep: Callable[[float], None] = time.sleep

    def make_tables(self, reader: BatchReader, targets: Targets, stopped: Callable[[], bool]) -> None:
        """Create the tables that do not exist.

        Called again, it changes nothing. Raise SourceError when the schema of the one required table is found in no
        record.
        """
        if self.table in targets.schemas:
            return
        looks = itertools.repeat(WAIT_SECONDS) if self.waits else self.pauses
        for pause in itertools.chain(looks if self.table else (), (None,)):
            seen = self._look_on(reader, targets)
            if self.table is None or self.table in targets.schemas or stopped():
                return
            if seen.bad_count and reader.errors.on_bad.action == "fail":
                # The available records cannot be read, and waiting does not change that.
                raise reader.errors.on_bad.error(*seen.first_bad)
            if pause is not None:
                self.sleep(pause)
        # The text of Paimon's action, for users who search for it.
        raise SourceError(
            f"Could not get metadata from server, topic: {self.place}. If this topic is not empty, please check the "
            "configuration of synchronization job. Otherwise, you should create the Paimon table first.",
            table=self.table,
            bad_records=seen.bad_count or None,
            first=seen.first_bad[0].message if seen.bad_count else None,
            hint="--wait-for-data  waits until there is a record",
        )

    def _look_on(self, reader: BatchReader, targets: Targets) -> BatchReport:
        """Sample the source.

        If a single target table is required, keep sampling (ten times more records each round) until its schema is
        found or the source is exhausted: tombstones and DDL carry no schema.
        """
        records = self.records
        while True:
            with waiting_for_source():
                ranges = self.ranges(records)
            seen = self._look(reader, targets, ranges)
            unreadable = seen.bad_count and reader.errors.on_bad.action == "fail"
            # Fewer records than were asked for: the source has no more, and a larger sample would find the same.
            all_ = sum(range_.weight for range_ in ranges) < records
            if self.table is None or self.table in targets.schemas or unreadable or all_:
                return seen
            records *= FURTHER

    def _look(self, reader: BatchReader, targets: Targets, ranges: Sequence[Range]) -> BatchReport:
        # Unreadable records are skipped here; the batches decide whether they stop the job.
        looking = replace(reader, errors=replace(reader.errors, on_bad=OnBad("skip")))
        task = TaskInput(tuple(ranges), {}, reader.warehouse.now_millis())
        with waiting_for_source():
            report = BatchReport(list(_reports(looking, task)))
        # The sample is read without any table versions, so that existing tables are among the drifts as well.
        # Whether they differ from their sources is found by the first batch.
        new = {table: seen for table, seen in report.drifts.items() if table not in targets.schemas}
        # A table that cannot be created fails again in its first batch, and is parked there.
        TableEvolution(reader, targets, lambda table, conflict: reader.errors.isolates).evolve(new)
        return report


def _reports(reader: BatchReader, task: TaskInput) -> Iterator[RangeReport]:
    for batch in reader.read(task):
        reports = batch.filter(pc.equal(batch.column("table"), NO_TABLE))
        for content in map(pickle.loads, reports.column("blob").to_pylist()):
            if isinstance(content, PenstockError):
                raise content
            yield content
