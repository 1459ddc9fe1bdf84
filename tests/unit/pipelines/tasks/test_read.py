"""How a batch is divided among tasks: a small one not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.ingest.source import NO_LIMIT, SMALL_BYTES
from penstock.pipelines.driver.local_runner import run_tasks
from penstock.pipelines.job import build
from penstock.pipelines.tasks.read import BatchReader
from penstock.pipelines.tasks.task_input import TaskInput
from tests.shop import Shop, insert


def inputs(folder: Path, tasks: int, *sizes: int) -> list[TaskInput]:
    """Return the inputs of a batch of files of about these sizes."""
    shop = Shop(folder)
    for number, size in enumerate(sizes):
        shop.put(f"{number}.json", insert("orders", {"id": number, "name": "x" * (size - 300)}))
    job = build.ready(shop.spec())
    Path(job.checkpoint).mkdir(parents=True)
    reader: BatchReader = job.driver(Path(job.checkpoint), tasks, tasks, run_tasks).reader
    start = reader.initial_offsets()
    return reader.inputs(start, reader.latest_offsets(start, NO_LIMIT, None))


def test_a_small_batch_has_one_input_with_all_ranges(tmp_path: Path) -> None:
    [only] = inputs(tmp_path, 2, SMALL_BYTES // 4, SMALL_BYTES // 2)
    assert [range.number for range in only.ranges] == [0, 1]
    assert only.span is not None


@pytest.mark.parametrize("sizes", [(SMALL_BYTES, SMALL_BYTES), (2 * SMALL_BYTES,)], ids=["two ranges", "one range"])
def test_a_large_batch_has_at_least_two_inputs(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    first, second = inputs(tmp_path, 2, *sizes)
    assert [len(first.ranges), len(second.ranges)] == ([1, 1] if len(sizes) == 2 else [1, 0])
    assert first.span is not None
    assert second.span is None


def test_with_one_task_at_a_time_every_batch_has_one_input(tmp_path: Path) -> None:
    assert len(inputs(tmp_path, 1, SMALL_BYTES, SMALL_BYTES)) == 1
