"""A pipeline in this process: the same planning, reading, writing and committing as under Spark, without Spark.

What Spark does is small enough to be said in a page: it keeps offsets before a batch and after it, hands shares to
tasks, and brings blobs to writers in order.
"""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.ingest.ranges import Offsets
from penstock.pipelines.run import build
from penstock.pipelines.run.batches import Batches, OnBatch
from penstock.pipelines.run.blobs import SCHEMA
from penstock.pipelines.run.job import Job
from penstock.pipelines.run.reading import Reading, Share
from penstock.pipelines.run.writing import Writing, Written
from penstock.pipelines.spec.model import PipelineSpec

ORDER = [(name, "ascending") for name in ("table", "partition", "bucket", "range", "position")]


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
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps([self.id, self.ends, self.done]))


def run(spec: PipelineSpec, *, tasks: int = 3, writers: int = 2, on_batch: OnBatch | None = None) -> list[Batches]:
    """Carry what is there now. Raises where the job would stop; run again, it goes on."""
    job = build.job(spec)
    log = Log.at(Path(job.checkpoint) / "log.json")
    log.save()
    batches = batches_of(job, log, tasks, writers, on_batch)
    until = job.source.available()
    while True:
        start = log.ends[log.done - 1] if log.done else job.source.initial_offsets()
        if len(log.ends) == log.done:
            end = batches.reading.latest_offsets(start, job.limit, until)
            if end == start:
                return [batches]
            log.ends.append(end)
            log.save()
        one_batch(batches, log.done, start, log.ends[log.done])
        log.done += 1
        log.save()


def batches_of(job: Job, log: Log, tasks: int, writers: int, on_batch: OnBatch | None) -> Batches:
    batches = job.batches(Path(job.checkpoint), tasks, writers, on_batch)
    batches.checkpoint = log.id
    return batches


def one_batch(batches: Batches, number: int, start: Offsets, end: Offsets) -> None:
    reading: Reading = pickle.loads(pickle.dumps(batches.reading))  # as a task has it
    batches.take(number, written(reading, reading.shares(start, end)), lambda shares: written(reading, shares))


def written(reading: Reading, shares: Sequence[Share]) -> Written:
    rows = pa.Table.from_batches([batch for share in shares for batch in reading.read(share)], SCHEMA)
    return Written.of(pa.Table.from_batches(list(results(reading, rows)), RESULTS))


RESULTS = pa.schema([("table", pa.string()), ("body", pa.binary())])


def results(reading: Reading, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    writer = rows.column("writer").to_numpy()
    for number in range(reading.writers):
        mine = rows.filter(pa.array(writer == number)).sort_by(ORDER)
        for table, content in Writing(reading.warehouse, reading.writers).results(mine.to_batches()):
            body: Any = content if isinstance(content, bytes) else pickle.dumps(content)
            yield pa.record_batch([pa.array([table]), pa.array([body], pa.binary())], schema=RESULTS)
