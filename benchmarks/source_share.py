"""The time that a source takes in a trigger: from the first request to the source until a small batch is read.

    python -m benchmarks.source_share [KIND ...] [--rows ROWS_PER_BATCH] [--batches N] [--warm N]
                                       all            10                   40            10

One batch of each kind in turn, without Spark, on an idle table: rows are inserted and acknowledged, then the end of the
batch is chosen and its rows are read, decoded and fitted to the table. Later steps are not counted: sorting, files
and the commit are the same for all sources. The first `--warm` batches of each kind are not counted either.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa

from benchmarks.figures import Figure, record
from benchmarks.source_freshness import SOURCES, Source
from penstock.ingest.source import NO_LIMIT, Offsets
from penstock.pipelines.driver.batch_driver import BatchDriver
from penstock.pipelines.driver.local_runner import run_tasks, write_rows
from penstock.pipelines.driver.small_batches import copied, read_rows
from penstock.pipelines.job import build
from penstock.pipelines.tasks.read import BatchReader
from penstock.table.catalog.settings import CatalogSettings
from tests.servers.launch import Kind, running
from tests.sync_flags import spec_of_action

GOAL_S = 0.1
ARRIVAL_S = 10.0


@dataclass
class Reading:
    """A pipeline whose batches are taken one by one."""

    kind: str
    source: Source
    driver: BatchDriver
    planner: BatchReader
    start: Offsets
    inserted: int
    batches: int = 0
    seconds: list[float] = field(default_factory=list)

    @classmethod
    def begun(cls, kind: str, source: Source, scratch: Path, rows: int) -> Reading:
        for number in range(rows):
            source.insert(number)
        command, *words = source.words
        job = build.ready(spec_of_action(command, words))
        driver = job.driver(scratch, 1, 1, run_tasks)
        driver.checkpoint = str(uuid.uuid4())
        planner = copied(driver.reader)
        reading = cls(kind, source, driver, planner, planner.initial_offsets(), rows)
        until = planner.available()
        while (end := planner.latest_offsets(reading.start, NO_LIMIT, until)) != reading.start:
            reading._take(end, read_rows(copied(planner), planner.inputs(reading.start, end)))
        return reading

    def measure(self, rows: int) -> None:
        for number in range(self.inserted, self.inserted + rows):
            self.source.insert(number)
        self.inserted += rows
        began = time.perf_counter()
        while time.perf_counter() - began < ARRIVAL_S:
            end = self.planner.latest_offsets(self.start, NO_LIMIT, None)
            if end == self.start:
                continue
            read = read_rows(copied(self.planner), self.planner.inputs(self.start, end))
            over = time.perf_counter() - began
            self._take(end, read)
            # A range without changes has a row for its report only.
            if read.num_rows > 1:
                self.seconds.append(over)
                return
        raise SystemExit(f"{self.kind}: no row was read within {ARRIVAL_S} s")

    def check(self, warehouse: CatalogSettings) -> None:
        snapshot = warehouse.store("ods.t").snapshots.latest()
        there = 0 if snapshot is None else snapshot.total_record_count
        if there != self.inserted:
            raise SystemExit(f"{self.kind}: the table has {there} of {self.inserted} rows: batches had only some rows")

    def _take(self, end: Offsets, rows: pa.Table) -> None:
        self.driver.take(self.batches, write_rows(self.driver.reader, self.batches, rows))
        self.start, self.batches = end, self.batches + 1


def begun(kind: str, folder: Path, stack: ExitStack, rows: int) -> Reading:
    home = folder / kind
    (home / "scratch").mkdir(parents=True)
    port = stack.enter_context(running(cast(Kind, kind), home / "server"))
    source = stack.enter_context(SOURCES[kind](port, home))
    reading = Reading.begun(kind, source, home / "scratch", rows)
    stack.callback(reading.planner.close)
    return reading


def main(given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)  # a server may run as a user of its own
        readings = [begun(kind, folder, stack, given.rows) for kind in given.kinds or SOURCES]
        for _ in range(given.warm + given.batches):
            for reading in readings:
                reading.measure(given.rows)
        for reading in readings:
            reading.check(CatalogSettings.of(f"{folder / reading.kind}/warehouse", {}))
            p50, p99 = np.percentile(reading.seconds[given.warm :], [50, 99])
            what = f"{reading.kind}, {given.rows} rows: the source's share of a trigger"
            print(f"{what}: p50 {p50 * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms", flush=True)
            record(Figure(f"{what}, p50", float(p50), "s", goal=GOAL_S, less=True))
            record(Figure(f"{what}, p99", float(p99), "s", less=True))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(SOURCES))
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--warm", type=int, default=10)
    return parser.parse_args()


if __name__ == "__main__":
    main(arguments())
