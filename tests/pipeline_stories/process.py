"""A process that runs a pipeline on a simulated store, without Spark: what it keeps dies with it."""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pyarrow as pa

from penstock.errors import TableCorrupt
from penstock.ingest import connectors, joined_ranges
from penstock.ingest.joined_ranges import RangeShape
from penstock.ingest.source import Offsets
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.driver import commit as commits
from penstock.pipelines.driver.batch_driver import BatchDriver, OnBatch
from penstock.pipelines.driver.local_runner import ORDER, run_tasks
from penstock.pipelines.job import build
from penstock.pipelines.job.foreach_batch import has_few_buckets
from penstock.pipelines.job.job import Job
from penstock.pipelines.ledger import batch_logs, checkpoint_folder, filled_tables, lineage
from penstock.pipelines.ledger.batch_logs import BatchLogs
from penstock.pipelines.mapping import lookups, target_tables
from penstock.pipelines.tasks import joined_reader, write
from penstock.pipelines.tasks.batch_result import SCHEMA as RESULTS
from penstock.pipelines.tasks.batch_result import BatchResult, as_row
from penstock.pipelines.tasks.joined_reader import Pauses
from penstock.pipelines.tasks.read import BatchReader
from penstock.pipelines.tasks.shuffle_rows import SCHEMA
from penstock.pipelines.tasks.table_task_writer import CompactionTiming, TableTaskWriter, WriteTask
from penstock.pipelines.tasks.task_input import TaskInput
from penstock.pipelines.tasks.write import TaskWriter
from penstock.storage import open as opening
from penstock.storage import state_folder
from penstock.table.catalog import settings
from tests.pipeline_stories import log_source
from tests.simulation.scenes import ambient
from tests.simulation.store import Disk, Fault, Faults, Operation, SimStore

KEPT = 100  # batches in the logs


@dataclass(frozen=True)
class SparkLog:
    """Spark's checkpoint: the ends of batches, written before a batch runs, and which batches are done.

    Spark writes it past the faults of the store, but reads what runs without Spark have left there.
    """

    disk: Disk
    folder: str

    def begun(self) -> str:
        """Return the id of the query. Stores a new one at the first start."""
        path = f"{self.folder}/metadata"
        if path not in self.disk.files:
            self.disk.put(path, json.dumps({"id": self.folder.rpartition("/")[2]}).encode())
        return str(json.loads(self.disk.files[path][0])["id"])

    @property
    def planned(self) -> int:
        return self._count("offsets")

    @property
    def done(self) -> int:
        return self._count("commits")

    def end(self, number: int) -> Offsets:
        version, _, end = self.disk.files[f"{self.folder}/offsets/{number}"][0].decode().split("\n")
        assert version == "v1"
        return dict(json.loads(end))

    def plan(self, end: Offsets) -> None:
        path = f"{self.folder}/offsets/{self.planned}"
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": self.disk.clock(), "conf": {}}
        self.disk.put(path, f"v1\n{json.dumps(metadata)}\n{json.dumps(end)}".encode())

    def finish(self) -> None:
        self.disk.put(f"{self.folder}/commits/{self.done}", b'v1\n{"nextBatchWatermarkMs":0}')

    def check(self) -> None:
        """Check that Spark could continue here: all batches are there, and at most one of them is not done."""
        assert self.planned - self.done in {0, 1}, f"{self.planned} batches are planned, {self.done} are done"
        for number in range(max(0, self.planned - KEPT), self.planned):
            self.end(number)
        assert not self.planned or f"{self.folder}/metadata" in self.disk.files, "the query has no id"

    def _count(self, log: str) -> int:
        """Return the number of the next batch in a log."""
        folder = f"{self.folder}/{log}"
        names = (path.rpartition("/")[2] for path in self.disk.inside.get(folder, ()))
        numbers = {int(name) for name in names if name.isdigit()}
        last = max(numbers, default=-1)
        # Older ones may be left where a deletion failed: Spark deletes all that are too old.
        missing = set(range(max(0, last + 1 - KEPT), last + 1)) - numbers
        assert not missing, f"{log} up to {last} lacks {sorted(missing)}"
        return last + 1


_WHOLE = {Fault.TORN: Fault.AFTER, Fault.DIES_TORN: Fault.DIES_AFTER}


class KnownPlaces(dict[str, RangeShape]):
    """What a process knows that has read small ranges at all places before, with nothing but markers in partition 1.

    It expects so many messages that it joins about eight of a story, and learns from its first batch that all are few.
    """

    def get(self, place: str, default: Any = None) -> Any:
        messages = 0 if place == "log/1" else joined_ranges.MOST_ROWS / 8
        return super().get(place, RangeShape(messages, 0.0, 5.0))


class NoPauses(dict[str, Pauses]):
    """Ranges are joined also after a joined reading had no effect."""

    def setdefault(self, place: str, default: Any = None) -> Pauses:
        return Pauses()


def opened(disk: Disk, seed: str, faults: Faults, log: list[Operation], *, joins: bool = False) -> ExitStack:
    """Enter a process of its own: its view of the disk, its clock and its chance, and empty caches.

    With `joins`, it joins small ranges at once.
    """
    store = SimStore(disk, faults, log=log, threads_in_turn=True)
    with ExitStack() as stack:
        stack.enter_context(patch.object(opening, "_local", lambda _: store))
        environment = ambient(disk, seed)
        stack.enter_context(patch.object(settings, "Environment", lambda: environment))
        logs = partial(BatchLogs, now=lambda: disk.clock() / 1000)
        stack.enter_context(patch.object(checkpoint_folder, "BatchLogs", logs))
        stack.enter_context(patch.object(batch_logs, "uuid", SimpleNamespace(uuid4=environment.new_uuid)))
        # One request after the other, so that equal seeds give equal traces.
        for module in (commits, lineage, filled_tables, target_tables):
            stack.enter_context(patch.object(module, "THREADS", 1))
        stack.enter_context(patch.object(joined_ranges, "_shapes", KnownPlaces() if joins else {}))
        stack.enter_context(patch.object(joined_reader, "_pauses", NoPauses() if joins else {}))
        known = cast("dict[str, Any]", connectors.CONNECTORS.built_in)
        stack.enter_context(patch.dict(known, {"story-log": log_source.CONNECTOR}))
        forget()
        # Only now: patches that were left behind by an error would let later tests of this process fail.
        return stack.pop_all()
    raise AssertionError("no context of the stack suppresses errors")


def forget() -> None:
    """Clear what a process keeps: the next one opens everything again."""
    settings.forget_tables()
    lookups._open.clear()
    settings._backend.cache_clear()
    state_folder._opened.cache_clear()


@dataclass
class Driver:
    """A driver of a pipeline. `between` is called when the tasks of a batch are done and nothing is committed."""

    spec: PipelineSpec
    log: SparkLog
    tasks: int
    writers: int
    between: Callable[[], None] = lambda: None
    is_open: bool = False  # as a run without an end, which may defer records of some tables
    on_batch: OnBatch | None = None
    driver: BatchDriver = field(init=False)

    @contextmanager
    def started(self, job: Job | None = None) -> Iterator[Driver]:
        with tempfile.TemporaryDirectory(prefix="penstock-story-") as folder:
            job = job or build.ready(self.spec)
            self.limit, self.until = job.trigger.limit, None if self.is_open else job.source.available()
            self.driver = job.driver(Path(folder), self.tasks, self.writers, run_tasks, self.on_batch)
            self.driver.checkpoint = self.log.begun()
            if job.recovery.retry_parked:
                self.driver.catch_up()
            yield self

    def run(self, torn: str | None = None) -> None:
        """Run until caught up. The files of the table `torn` are damaged at first."""
        while self.planned():
            with damaged(torn):
                result = self.tasks_done()
            self.take(result)
            torn = None

    def planned(self) -> bool:
        """Plan the next batch, unless the last one is not done. Return False if there is nothing to read."""
        if self.log.planned == self.log.done:
            end = self.driver.reader.latest_offsets(self._start, self.limit, self.until)
            if end == self._start:
                return False
            self.log.plan(end)
        return True

    @property
    def _start(self) -> Offsets:
        return self.log.end(self.log.done - 1) if self.log.done else self.driver.reader.initial_offsets()

    def tasks_done(self) -> BatchResult:
        """Run the tasks of the batch, as Spark does: a small one in a single task, without a shuffle."""
        driver = self.driver
        driver.reader = pickle.loads(pickle.dumps(driver.reader))  # as a task has it
        inputs = driver.reader.inputs(self._start, self.log.end(self.log.done))
        if len(inputs) == 1 and has_few_buckets(driver.reader.warehouse, driver.targets.schemas):
            return _written_by_one(driver.reader, self.log.done, inputs)
        return run_tasks(driver.reader, self.log.done, inputs)

    def take(self, result: BatchResult) -> None:
        self.between()
        self.driver.take(self.log.done, result)
        self.log.finish()


def damaged(torn: str | None) -> AbstractContextManager[object]:
    """Return a context in which the files of this table are damaged."""
    return patch.object(write, "TableTaskWriter", partial(_opened, torn))


def _opened(torn: str | None, task: WriteTask, table: str, *rest: Any) -> TableTaskWriter:
    if table == torn:
        raise TableCorrupt("a manifest is torn", table=table)
    return TableTaskWriter(task, table, *rest)


def _written_by_one(reader: BatchReader, number: int, inputs: Sequence[TaskInput]) -> BatchResult:
    rows = pa.Table.from_batches([batch for task in inputs for batch in reader.read(task)], SCHEMA)
    order = pa.compute.sort_indices(rows.drop_columns(["blob"]), [(name, way) for name, way in ORDER])
    timing = CompactionTiming(number, reader.compacts_in_background)
    writer = TaskWriter(WriteTask(reader.warehouse, 1, timing, unversioned=frozenset(reader.mapping.made)))
    batches = (batch for place in order.to_pylist() for batch in rows.slice(place, 1).to_batches())
    results = [as_row(table, content) for table, content in writer.results(batches)]
    return BatchResult.of(pa.Table.from_batches(results, RESULTS))


def fault_at(name: str, nth: int, fault: Fault) -> Faults:
    """Return faults that strike once: at the nth operation of this name, on the checkpoint or anywhere."""
    seen = [0]

    def faults(operation: Operation) -> Any:
        names = {"any", operation.name}
        if "/checkpoint-" in operation.path:
            names |= {"checkpoint", f"checkpoint {operation.name}"}
        is_named = name in names
        seen[0] += is_named
        if seen[0] != nth or not is_named:
            return None
        # A small file is replaced as a whole, in every store.
        return _WHOLE.get(fault, fault) if operation.name == "write" else fault

    return faults


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return both mappings as one; sections in both are merged."""
    found = dict(first)
    for name, value in second.items():
        both = isinstance(value, Mapping) and isinstance(found.get(name), Mapping)
        found[name] = merged(found[name], value) if both else value
    return found
