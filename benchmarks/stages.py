"""The time of the Python half of the Kafka job by stage and without Spark: CPU microseconds per event.

    python -m benchmarks.stages [EVENTS] [--profile]

The canal changes of the shop (`benchmarks.shop.stream`) lie in files, one part a range, and become four tables of four
buckets, write-only. A first batch makes the tables and warms the caches; figures are of the second.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from benchmarks.figures import Figure, record
from benchmarks.shop.stream import write
from penstock.pipelines.driver.batch_driver import BatchDriver
from penstock.pipelines.driver.local_runner import run_tasks
from penstock.pipelines.job import build
from penstock.pipelines.tasks.shuffle_rows import SCHEMA
from penstock.pipelines.tasks.task_input import TaskInput
from tests.here import Log, driver_of, run
from tests.shop import Shop

T = TypeVar("T")
WRITERS = 2


def second_batch(folder: Path, events: int) -> tuple[BatchDriver, list[TaskInput]]:
    """The shop's tables after the first half of the events, and what there is to read of the second."""
    shop = Shop(folder)
    spec = shop.spec(sink={"table-options": {"bucket": "4", "write-only": "true"}})
    halves: list[dict[str, str]] = [{}, {}]
    for path in write(folder / "all", events):
        lines = path.read_text().splitlines()
        for half, some in enumerate((lines[: len(lines) // 2], lines[len(lines) // 2 :])):
            halves[half][f"{half}-{path.name}"] = "\n".join(some)
    for name, text in halves[0].items():
        shop.put(name, text)
    run(spec, tasks=4, writers=WRITERS)
    for name, text in halves[1].items():
        shop.put(name, text)
    job = build.ready(spec)
    log = Log.at(Path(job.checkpoint) / "log.json")
    driver = driver_of(job, log, 4, WRITERS, None)
    start = log.ends[-1]
    return driver, driver.reader.inputs(start, driver.reader.latest_offsets(start, job.trigger.limit, None))


def decoded(driver: BatchDriver, inputs: list[TaskInput]) -> int:
    schemas = {name: version.schema for name, version in inputs[0].versions.items()}
    warehouse = driver.reader.warehouse
    options = driver.reader.mapping.decode_options(
        {name: warehouse.layout(name, schema).schema for name, schema in schemas.items()}
    )
    source = driver.reader.source
    return sum(chunk.messages for task in inputs for range_ in task.ranges for chunk in source.chunks(range_, options))


def blobs(driver: BatchDriver, inputs: list[TaskInput]) -> pa.Table:
    return pa.Table.from_batches([batch for task in inputs for batch in driver.reader.read(task)], SCHEMA)


@contextmanager
def profiled(wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    profile = cProfile.Profile(time.process_time)
    with profile:
        yield
    pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def timed(name: str, events: int, work: Callable[[], T]) -> T:
    start = time.process_time()
    result = work()
    each = (time.process_time() - start) / events * 1e6
    print(f"{name:34}{each:8.2f}")
    record(Figure(name, each, "us an event", less=True))
    return result


def main() -> None:
    events = next((int(word) for word in sys.argv[1:] if word.isdigit()), 200_000)
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        driver, inputs = second_batch(Path(folder), events)
        blobs(driver, inputs)
        count = timed("read and decode", events // 2, lambda: decoded(driver, inputs))
        timed("the same, fitted, routed, packed", count, lambda: blobs(driver, inputs))
        with profiled("--profile" in sys.argv):
            work = timed("the same, to files", count, lambda: run_tasks(driver.reader, 1, inputs))
        timed("commit", count, lambda: driver.take(1, work))


if __name__ == "__main__":
    main()
