"""Reads the rows of a small batch into this process, or finds that the batch is better left to Spark's tasks."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.ingest.joined_ranges import MOST_BYTES_ALONE
from penstock.pipelines.driver.local_runner import write_rows
from penstock.pipelines.tasks.batch_result import BatchResult
from penstock.pipelines.tasks.read import BatchReader
from penstock.pipelines.tasks.shuffle_rows import NO_TABLE, SCHEMA
from penstock.pipelines.tasks.task_input import TaskInput
from penstock.storage.open import is_object_store
from penstock.table.buckets.layout import BucketMode
from penstock.table.catalog.settings import CatalogSettings

# The rows of a batch are in memory together, and one process writes its buckets one after the other. A file of a bucket
# takes about two milliseconds, but an object store answers only after some ten.
MOST_BYTES = 256 << 20
MOST_BUCKETS = 512
MOST_REMOTE_BUCKETS = 64
# Keys that move need a step between reading and writing. Postponed buckets keep the rows of a key in order by their
# writer, so the number of writers must not change from batch to batch.
_SHUFFLED = {
    BucketMode.CROSS_PARTITION: "has a key without its partition columns, so that rows move between partitions",
    BucketMode.POSTPONE: "has bucket = -2, so that rows get their buckets later",
}
SHUFFLED_MODES = _SHUFFLED.keys()
_BUCKET = ["table", "schema_id", "partition", "bucket"]


class LeftToSpark(Exception):
    """The batch is too large for one process, or writes tables that need Spark's tasks. Nothing was written."""


def copied(reader: BatchReader) -> BatchReader:
    """Return a copy of the reader as a task of Spark gets it: without the state that its source has in this process."""
    copy: BatchReader = pickle.loads(pickle.dumps(reader))  # noqa: S301 -- bytes of this process
    return copy


class StopRequested(Exception):
    """The run is to stop, and the batch was not written: the next run writes it."""


def read_rows(
    reader: BatchReader, inputs: Sequence[TaskInput], is_stopped: Callable[[], bool] = lambda: False
) -> pa.Table:
    """Return the rows of these inputs as tasks exchange them. Raise LeftToSpark if one process should not write them.

    The reader is closed. Raise StopRequested as soon as `is_stopped`: a large batch is read for some seconds.
    """
    batches: list[pa.RecordBatch] = []
    size = 0
    reader.joined_bytes = MOST_BYTES_ALONE
    try:
        for task in inputs:
            for batch in reader.read(task):
                batches.append(batch)
                size += batch.nbytes
                if is_stopped():
                    raise StopRequested
                if size > MOST_BYTES:
                    raise LeftToSpark("the batch is large")
    finally:
        reader.close()
    rows = pa.Table.from_batches(batches, SCHEMA)
    _check_buckets(reader.warehouse, rows)
    return rows


def reread(reader: BatchReader, number: int, inputs: Sequence[TaskInput]) -> BatchResult:
    """Read and write inputs of a batch again."""
    return write_rows(reader, number, read_rows(copied(reader), inputs))


def _check_buckets(warehouse: CatalogSettings, rows: pa.Table) -> None:
    # Without the blobs, which a filter would copy.
    buckets = rows.select(_BUCKET).filter(pc.field("table") != NO_TABLE).group_by(_BUCKET).aggregate([])
    most = MOST_REMOTE_BUCKETS if is_object_store(warehouse.warehouse) else MOST_BUCKETS
    if buckets.num_rows > most:
        raise LeftToSpark(f"the batch has rows for {buckets.num_rows} buckets")
    versions = buckets.group_by(["table", "schema_id"]).aggregate([])
    for table, schema in zip(versions["table"].to_pylist(), versions["schema_id"].to_pylist(), strict=True):
        if (mode := warehouse.layout(table, schema).mode) in SHUFFLED_MODES:
            raise LeftToSpark(f"{table} {_SHUFFLED[mode]}")
