"""A pipeline in this process: the same planning, reading, writing and committing as under Spark, without Spark.

What Spark does is small enough to be said in a page: it keeps offsets before a batch and after it, hands shares to
tasks, and brings blobs to writers in order.
"""

from __future__ import annotations

import json
import pickle
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from penstock.ingest.source import Offsets
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.driver.batch_driver import BatchDriver, OnBatch
from penstock.pipelines.driver.local_runner import run_tasks, take_batch
from penstock.pipelines.job import build
from penstock.pipelines.job.job import Job


@dataclass
class Log:
    """Spark's checkpoint: the ends of batches, written before a batch runs; how many of them are done."""

    path: Path
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    ends: list[Offsets] = field(default_factory=list)
    done: int = 0

    @classmethod
    def at(cls, path: Path) -> Log:
        log = cls(path)
        if path.exists():
            log.id, log.ends, log.done = json.loads(path.read_text())
        return log

    def save(self) -> None:
        offsets = self.path.parent / "offsets"  # a used checkpoint has them, a new one has none
        offsets.mkdir(parents=True, exist_ok=True)
        for number in range(len(self.ends)):
            (offsets / str(number)).touch()
        part = self.path.with_name(f".{self.path.name}.part")  # a test may kill the process between two lines
        part.write_text(json.dumps([self.id, self.ends, self.done]))
        part.replace(self.path)


def note_as_spark_does(checkpoint: Path) -> None:
    """Write the last batch that is done where those look that know Spark's checkpoints."""
    log = Log.at(checkpoint / "log.json")
    if log.done:
        (checkpoint / "metadata").write_text(json.dumps({"id": log.id}))
        for folder, text in (("offsets", "{}\n" + json.dumps(log.ends[log.done - 1])), ("commits", "{}")):
            (checkpoint / folder).mkdir(exist_ok=True)
            (checkpoint / folder / str(log.done - 1)).write_text(f"v1\n{text}")


def run(spec: PipelineSpec, *, tasks: int = 3, writers: int = 2, on_batch: OnBatch | None = None) -> list[BatchDriver]:
    """Carry what is there now. Raises where the job would stop; run again, it goes on."""
    job = build.ready(spec)
    log = Log.at(Path(job.checkpoint) / "log.json")
    log.save()
    driver = driver_of(job, log, tasks, writers, on_batch)
    if job.recovery.retry_parked:
        driver.catch_up()
    until = job.source.available()
    while True:
        start = log.ends[log.done - 1] if log.done else driver.reader.initial_offsets()
        if len(log.ends) == log.done:
            end = driver.reader.latest_offsets(start, job.trigger.limit, until)
            if end == start:
                return [driver]
            log.ends.append(end)
            log.save()
        one_batch(driver, log.done, start, log.ends[log.done])
        log.done += 1
        log.save()


def driver_of(job: Job, log: Log, tasks: int, writers: int, on_batch: OnBatch | None) -> BatchDriver:
    driver = job.driver(Path(job.checkpoint), tasks, writers, run_tasks, on_batch)
    driver.checkpoint = log.id
    return driver


def one_batch(driver: BatchDriver, number: int, start: Offsets, end: Offsets) -> None:
    driver.reader = pickle.loads(pickle.dumps(driver.reader))  # as a task has it
    take_batch(driver, number, start, end)
