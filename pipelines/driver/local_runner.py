"""Runs one batch in this process without Spark, for small inputs.

Reading, writing and committing are the same as in a job.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PenstockError
from penstock.ingest.source import Offsets
from penstock.pipelines.driver.batch_driver import BatchDriver
from penstock.pipelines.tasks.batch_result import BatchResult, TaskOutput
from penstock.pipelines.tasks.key_placement import KeyPlacement, moves_keys
from penstock.pipelines.tasks.read import BatchReader
from penstock.pipelines.tasks.shuffle_rows import NO_TABLE, SCHEMA
from penstock.pipelines.tasks.table_task_writer import CompactionTiming, WriteTask
from penstock.pipelines.tasks.task_input import TaskInput
from penstock.pipelines.tasks.write import TaskWriter

ORDER = [(name, "ascending") for name in ("table", "partition", "bucket", "range", "position")]


def take_batch(driver: BatchDriver, number: int, start: Offsets, end: Offsets) -> None:
    driver.take(number, run_tasks(driver.reader, number, driver.reader.inputs(start, end)))


def run_tasks(reader: BatchReader, number: int, inputs: Sequence[TaskInput]) -> BatchResult:
    """Run the read and write tasks of a batch, or of a replay of it."""
    return write_rows(
        reader, number, pa.Table.from_batches([batch for task in inputs for batch in reader.read(task)], SCHEMA)
    )


def write_rows(reader: BatchReader, number: int, rows: pa.Table) -> BatchResult:
    """Write the rows that were read of a batch."""
    timing = CompactionTiming(number, reader.compacts_in_background)
    return BatchResult.collected(_results(reader, _placed(reader, rows), timing))


def _results(reader: BatchReader, rows: pa.Table, compacting: CompactionTiming) -> Iterator[tuple[str, TaskOutput]]:
    for mine in _shuffled(reader, rows):
        made = frozenset(reader.mapping.made)
        task = WriteTask(reader.warehouse, reader.writers, compacting, unversioned=made)
        for table, content in TaskWriter(task).results(mine):
            # Pickled as by a task of Spark, an error has no traceback, whose frames would keep the rows in memory.
            yield table, pickle.dumps(content) if isinstance(content, PenstockError) else content


def _placed(reader: BatchReader, rows: pa.Table) -> pa.Table:
    """Return the rows after the step for tables with moving keys. Rows of others pass unchanged."""
    versions = set(zip(rows.column("table").to_pylist(), rows.column("schema_id").to_pylist(), strict=True))
    if not moves_keys(reader.warehouse, ((table, schema) for table, schema in versions if table != NO_TABLE)):
        return rows
    parts = [KeyPlacement(reader.warehouse, reader.writers).placed(mine) for mine in _shuffled(reader, rows)]
    return pa.Table.from_batches([batch for part in parts for batch in part], SCHEMA)


def _shuffled(reader: BatchReader, rows: pa.Table) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield each writer's rows in order, as Spark's shuffle distributes them: writer numbers wrap around.

    Blobs are not copied.
    """
    order = pc.sort_indices(rows.drop_columns(["blob"]), ORDER).to_numpy()
    # The sort is over all writers at once; a selection from sorted rows stays sorted, so each writer's rows are in
    # order.
    writer = rows.column("writer").to_numpy()[order] % reader.writers
    # A slice of the table would look at all of its batches, and after the step that places keys each has one row.
    batches = rows.to_batches()
    ends = np.cumsum([len(batch) for batch in batches], dtype=np.int64)
    for number in range(reader.writers):
        mine = order[writer == number]
        of_batch = np.searchsorted(ends, mine, side="right").tolist()
        yield (
            batches[batch].slice(len(batches[batch]) - int(ends[batch] - place), 1)
            for batch, place in zip(of_batch, mine.tolist(), strict=True)
        )
