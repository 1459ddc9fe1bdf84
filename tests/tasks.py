"""A batch whose tasks are processes of their own, as under Spark, with files between them: what each task cost.

`python -m tests.tasks read|write FOLDER NUMBER` is one task; `Stages` runs them side by side.
"""

from __future__ import annotations

import json
import pickle
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.pipelines.run import build
from penstock.pipelines.run.blobs import SCHEMA
from penstock.pipelines.run.reading import Reading, Share
from penstock.pipelines.run.writing import Writing
from penstock.pipelines.spec.model import PipelineSpec

ORDER = ("table", "partition", "bucket", "range", "position")


@dataclass(frozen=True, slots=True)
class Stage:
    """`cpu` of all tasks together, `peak` of the largest; in seconds and bytes."""

    wall: float
    cpu: float
    peak: int


def stages(spec: PipelineSpec, folder: Path, tasks: int) -> tuple[Stage, Stage]:
    """The reading and the writing of the pipeline's first batch. Nothing is committed."""
    job = build.ready(spec)
    Path(job.checkpoint).mkdir(parents=True)
    reading = job.batches(Path(job.checkpoint), tasks, tasks, None).reading
    start = reading.initial_offsets()
    shares = reading.shares(start, reading.latest_offsets(start, job.limit, job.source.available()))
    folder.mkdir()
    (folder / "plan").write_bytes(pickle.dumps((reading, shares)))
    return _stage("read", folder, len(shares)), _stage("write", folder, tasks)


def _stage(kind: str, folder: Path, count: int) -> Stage:
    began = time.monotonic()
    words = [sys.executable, "-m", "tests.tasks", kind, str(folder)]
    root = Path(__file__).resolve().parents[1]
    running = [
        subprocess.Popen([*words, str(number)], cwd=root, stdout=subprocess.PIPE, text=True) for number in range(count)
    ]
    told = [json.loads(task.communicate()[0]) for task in running]
    return Stage(time.monotonic() - began, sum(one["cpu"] for one in told), max(one["peak"] for one in told))


def read(reading: Reading, share: Share, folder: Path, number: int) -> None:
    """One file a writer, one batch a blob, and beside it how the blobs are to be ordered."""
    files = [pa.ipc.new_file(folder / f"{number}-{writer}.arrow", SCHEMA) for writer in range(reading.writers)]
    orders: list[list[tuple[object, ...]]] = [[] for _ in files]
    for batch in reading.read(share):
        keys = batch.select([*ORDER, "writer"]).to_pylist()
        for row, key in enumerate(keys):
            writer = key["writer"] % reading.writers
            orders[writer].append(tuple(key[name] for name in ORDER))
            files[writer].write_batch(batch.slice(row, 1))
    for writer, file in enumerate(files):
        file.close()
        (folder / f"{number}-{writer}.order").write_bytes(pickle.dumps(orders[writer]))


def write(reading: Reading, shares: int, folder: Path, writer: int) -> None:
    for _ in Writing(reading.warehouse, reading.writers).results(_fetched(shares, folder, writer)):
        pass


def _fetched(shares: int, folder: Path, writer: int) -> Iterator[pa.RecordBatch]:
    files = [pa.ipc.open_file(pa.OSFile(str(folder / f"{number}-{writer}.arrow"))) for number in range(shares)]
    places = [
        (key, number, place)
        for number in range(shares)
        for place, key in enumerate(pickle.loads((folder / f"{number}-{writer}.order").read_bytes()))
    ]
    for _, number, place in sorted(places):
        yield files[number].get_batch(place)


def main(kind: str, folder: Path, number: int) -> None:
    reading, shares = pickle.loads((folder / "plan").read_bytes())
    if kind == "read":
        read(reading, shares[number], folder, number)
    else:
        write(reading, len(shares), folder, number)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"cpu": time.process_time(), "peak": peak}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
