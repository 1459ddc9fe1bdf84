"""A batch whose tasks are processes of their own, as under Spark, with files between them: what each task cost.

`python -m tests.tasks read|write FOLDER COUNT` forks the tasks of a stage off one process that has imported all they
need, as Spark's daemon does, and runs them side by side.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.driver.local_runner import run_tasks
from penstock.pipelines.job import build
from penstock.pipelines.tasks.read import BatchReader
from penstock.pipelines.tasks.shuffle_rows import SCHEMA
from penstock.pipelines.tasks.table_task_writer import WriteTask
from penstock.pipelines.tasks.task_input import TaskInput
from penstock.pipelines.tasks.write import TaskWriter

ORDER = ("table", "partition", "bucket", "range", "position")


@dataclass(frozen=True, slots=True)
class Stage:
    """`cpu` of all tasks together, `peak` of the largest; in seconds and bytes. `wall` is from the first fork to the
    end of the last task; `planned` are the seconds before."""

    wall: float
    cpu: float
    peak: int
    planned: float = 0.0


def stages(spec: PipelineSpec, folder: Path, tasks: int) -> tuple[Stage, Stage]:
    """The reading and the writing of the pipeline's first batch. Nothing is committed."""
    job = build.ready(spec)
    Path(job.checkpoint).mkdir(parents=True)
    reader = job.driver(Path(job.checkpoint), tasks, tasks, run_tasks).reader
    began = time.monotonic()
    start = reader.initial_offsets()
    inputs = reader.inputs(start, reader.latest_offsets(start, job.trigger.limit, job.source.available()))
    planned = time.monotonic() - began
    folder.mkdir()
    (folder / "plan").write_bytes(pickle.dumps((reader, inputs)))
    return replace(_stage("read", folder, len(inputs)), planned=planned), _stage("write", folder, tasks)


def _stage(kind: str, folder: Path, count: int) -> Stage:
    words = [sys.executable, "-m", "tests.tasks", kind, str(folder), str(count)]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(words, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    output = json.loads(done.stdout)
    return Stage(output["wall"], sum(output["cpu"]), max(output["peak"]))


def read(reader: BatchReader, task: TaskInput, folder: Path, number: int) -> None:
    """One file a writer, one batch a blob, and beside it how the blobs are to be ordered."""
    files = [pa.ipc.new_file(folder / f"{number}-{writer}.arrow", SCHEMA) for writer in range(reader.writers)]
    orders: list[list[tuple[object, ...]]] = [[] for _ in files]
    for batch in reader.read(task):
        keys = batch.select([*ORDER, "writer"]).to_pylist()
        for row, key in enumerate(keys):
            writer = key["writer"] % reader.writers
            orders[writer].append(tuple(key[name] for name in ORDER))
            files[writer].write_batch(batch.slice(row, 1))
    for writer, file in enumerate(files):
        file.close()
        (folder / f"{number}-{writer}.order").write_bytes(pickle.dumps(orders[writer]))


def write(reader: BatchReader, inputs: int, folder: Path, writer: int) -> None:
    for _ in TaskWriter(WriteTask(reader.warehouse, reader.writers)).results(_fetched(inputs, folder, writer)):
        pass


def _fetched(inputs: int, folder: Path, writer: int) -> Iterator[pa.RecordBatch]:
    files = [pa.ipc.open_file(pa.OSFile(str(folder / f"{number}-{writer}.arrow"))) for number in range(inputs)]
    places = [
        (key, number, place)
        for number in range(inputs)
        for place, key in enumerate(pickle.loads((folder / f"{number}-{writer}.order").read_bytes()))
    ]
    for _, number, place in sorted(places):
        yield files[number].get_batch(place)


def task(kind: str, folder: Path, number: int) -> None:
    began = time.process_time()
    reader, inputs = pickle.loads((folder / "plan").read_bytes())
    if kind == "read":
        read(reader, inputs[number], folder, number)
    else:
        write(reader, len(inputs), folder, number)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    (folder / f"{kind}-{number}.json").write_text(json.dumps([time.process_time() - began, peak]))


def main(kind: str, folder: Path, count: int) -> None:
    began, children = time.monotonic(), []
    for number in range(count):
        child = os.fork()
        if not child:
            task(kind, folder, number)
            os._exit(0)
        children.append(child)
    failed = [child for child in children if os.waitpid(child, 0)[1]]
    if failed:
        raise SystemExit(f"{len(failed)} of {count} tasks failed")
    results = [json.loads((folder / f"{kind}-{number}.json").read_text()) for number in range(count)]
    cpu, peak = zip(*results, strict=True)
    print(json.dumps({"wall": time.monotonic() - began, "cpu": cpu, "peak": peak}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
