"""Runs one batch in this process without Spark, for small inputs.

Reading, writing and committing are the same as in a job.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.ingest.source import Offsets
from penstock.pipelines.driver.batch import BatchDriver
from penstock.pipelines.tasks.key_placement import KeyPlacement
from penstock.pipelines.tasks.read import BatchReader, TaskInput
from penstock.pipelines.tasks.shuffle_rows import SCHEMA
from penstock.pipelines.tasks.write import BatchResult, CompactionTiming, TaskWriter

ORDER = [(name, "ascending") for name in ("table", "partition", "bucket", "range", "position")]
RESULTS = pa.schema([("table", pa.string()), ("body", pa.binary())])


def take_batch(batches: BatchDriver, number: int, start: Offsets, end: Offsets) -> None:
    reading = batches.reading
    compacting = CompactionTiming(number, reading.compacts_in_background)

    def again(shares: Sequence[TaskInput]) -> BatchResult:
        return written(reading, shares, compacting)

    batches.take(number, again(reading.shares(start, end)), again)


def written(reading: BatchReader, shares: Sequence[TaskInput], compacting: CompactionTiming) -> BatchResult:
    rows = pa.Table.from_batches([batch for share in shares for batch in reading.read(share)], SCHEMA)
    return BatchResult.of(pa.Table.from_batches(list(_results(reading, rows, compacting)), RESULTS))


def _results(reading: BatchReader, rows: pa.Table, compacting: CompactionTiming) -> Iterator[pa.RecordBatch]:
    # Only tables with moving keys need this step; rows of others pass unchanged.
    parts = [KeyPlacement(reading.warehouse, reading.writers).placed(mine) for mine in _shuffled(reading, rows)]
    placed = pa.Table.from_batches([batch for part in parts for batch in part], SCHEMA)
    for mine in _shuffled(reading, placed):
        for table, content in TaskWriter(reading.warehouse, reading.writers, compacting).results(mine):
            body = content if isinstance(content, bytes) else pickle.dumps(content)
            yield pa.record_batch([pa.array([table]), pa.array([body], pa.binary())], schema=RESULTS)


def _shuffled(reading: BatchReader, rows: pa.Table) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield each writer's rows in order, as Spark's shuffle distributes them: writer numbers wrap around.

    Blobs are not copied.
    """
    order = pc.sort_indices(rows.drop_columns(["blob"]), ORDER).to_numpy()
    writer = rows.column("writer").to_numpy()[order] % reading.writers
    for number in range(reading.writers):
        mine = order[writer == number]
        yield (batch for place in mine for batch in rows.slice(place, 1).to_batches())
