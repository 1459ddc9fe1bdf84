"""Rows in Spark's shuffle: one fixed schema for all tables, in which the rows themselves are Arrow blobs.

A window collects the fitted rows of all tables of a range until it is full. Then each table's rows are ordered, routed
and cut into blobs. Blobs of a range are numbered as they are made, so (range, position) orders the rows of a bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import DecodeError
from penstock.formats.change import RowBatch
from penstock.pipelines.mapping.target_tables import TargetVersion
from penstock.row_kinds import RowKinds
from penstock.table.values.buffers import one_batch

COLUMNS = (
    "range int, position bigint, table string, schema_id bigint, snapshot bigint, partition binary, bucket int, "
    "writer int, rows int, blob binary"
)
SCHEMA = pa.schema(
    [
        ("range", pa.int32()),
        ("position", pa.int64()),
        ("table", pa.string()),
        ("schema_id", pa.int64()),
        ("snapshot", pa.int64()),
        ("partition", pa.binary()),
        ("bucket", pa.int32()),
        ("writer", pa.int32()),
        ("rows", pa.int32()),
        ("blob", pa.binary()),
    ]
)
NO_TABLE = ""  # a row that carries a report instead of rows
KINDS = pa.int8()

# Large blobs are dangerous for the JVM: one of 600 MB ended a JVM of 2 GB.
BLOB_BYTES = 8 << 20
LARGEST_ROW = 256 << 20
# A read task has one window in memory. A larger window makes fewer blobs, because each table is packed once per
# window.
WINDOW_BYTES = 32 << 20

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Blob:
    """Some rows of one bucket of a table at one version. `writer` determines the task that writes them."""

    table: str
    version: TargetVersion
    partition: bytes
    bucket: int
    writer: int
    rows: int
    data: pa.Buffer | bytes

    @property
    def size(self) -> int:
        return len(self.data) if isinstance(self.data, bytes) else int(self.data.size)


@dataclass(slots=True)
class TableBuffer:
    """Fitted rows of one table, in the order of their batches."""

    batches: list[RowBatch] = field(default_factory=list)
    bytes: int = 0

    def ordered(self) -> RowBatch:
        """Return all rows as one batch in source order. Batches with different source schemas may interleave."""
        if len(self.batches) == 1:
            return self.batches[0]
        rows = one_batch(pa.Table.from_batches([batch.rows for batch in self.batches]))
        kinds = np.concatenate([batch.kinds for batch in self.batches])
        positions = np.concatenate([batch.positions for batch in self.batches])
        subs = np.concatenate([batch.subs for batch in self.batches])
        if not _rises(positions, subs):
            # The last key of lexsort is the first to sort by.
            order = np.lexsort((subs, positions))
            rows, kinds = rows.take(pa.array(order)), kinds[order]
            positions, subs = positions[order], subs[order]
        return RowBatch(rows, kinds, positions, subs)


class RowWindow:
    """The rows of a range collected so far, by table."""

    def __init__(self, most_bytes: int = WINDOW_BYTES) -> None:
        self._most = most_bytes
        self._buffers: dict[str, TableBuffer] = {}
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self._bytes >= self._most

    def add(self, table: str, batch: RowBatch) -> None:
        if not len(batch):
            return
        buffer = self._buffers.setdefault(table, TableBuffer())
        buffer.batches.append(batch)
        buffer.bytes += batch.rows.nbytes
        self._bytes += batch.rows.nbytes

    def forget(self, table: str) -> None:
        buffer = self._buffers.pop(table, None)
        if buffer is not None:
            self._bytes -= buffer.bytes

    def drain(self) -> Iterator[tuple[str, RowBatch]]:
        """Yield each table's rows in order, and leave the window empty."""
        buffers, self._buffers, self._bytes = self._buffers, {}, 0
        for table in list(buffers):
            yield table, buffers.pop(table).ordered()


def _rises(positions: Int64s, subs: npt.NDArray[np.int32]) -> bool:
    step = np.diff(positions)
    return bool(np.all((step > 0) | ((step == 0) & (np.diff(subs) >= 0))))


def pieces(batch: pa.RecordBatch, kinds: RowKinds, table: str) -> Iterator[tuple[int, pa.Buffer]]:
    """Yield the rows as blobs of at most BLOB_BYTES, each with its number of rows.

    A single larger row gets a blob to itself.
    """
    marked = with_kinds(batch, kinds)
    # -(-a // b) rounds up. Rows of about equal size make blobs below the limit at the first try.
    count = max(1, -(-batch.nbytes // BLOB_BYTES))
    size = -(-batch.num_rows // count)
    for start in range(0, batch.num_rows, size):
        part = marked.slice(start, min(size, batch.num_rows - start))
        # A record batch message without its schema: the write task takes the schema from the table version in the
        # shuffle row.
        data = part.serialize()
        if data.size <= BLOB_BYTES or part.num_rows == 1:
            if data.size > LARGEST_ROW:
                raise DecodeError(
                    f"a row of {data.size} bytes is more than a row may have ({LARGEST_ROW})",
                    table=table,
                    hint="leave its table or its column out",
                )
            yield part.num_rows, data
        else:  # rows of very different sizes: split in half and try again
            half = part.num_rows // 2
            rest = part.slice(half)
            for piece in (part.slice(0, half), rest):
                yield from pieces(piece.select(range(batch.num_columns)), kinds_of(piece), table)


def with_kinds(batch: pa.RecordBatch, kinds: RowKinds) -> pa.RecordBatch:
    # The kinds are found by position, as the last column, because a table may have a column of any name.
    schema = batch.schema.append(pa.field("kind", KINDS))
    return pa.RecordBatch.from_arrays([*batch.columns, pa.array(kinds, KINDS)], schema=schema)


def kinds_of(marked: pa.RecordBatch) -> RowKinds:
    kinds: RowKinds = marked.column(marked.num_columns - 1).to_numpy(zero_copy_only=False)
    return kinds


def unpacked(data: pa.Buffer | bytes, schema: pa.Schema) -> tuple[pa.RecordBatch, RowKinds]:
    """Return the rows of a blob, of a table with this Arrow schema, and their kinds."""
    marked = pa.ipc.read_record_batch(pa.py_buffer(data), schema.append(pa.field("kind", KINDS)))
    return marked.select(range(len(schema))), kinds_of(marked)


def as_batch(range_number: int, first_position: int, blobs: Sequence[Blob]) -> pa.RecordBatch:
    """Return blobs of one range, numbered from `first_position`, as a batch of the fixed schema."""
    columns: list[Any] = [
        pa.array(np.full(len(blobs), range_number, np.int32)),
        pa.array(np.arange(first_position, first_position + len(blobs), dtype=np.int64)),
        pa.array([blob.table for blob in blobs], pa.string()),
        pa.array([blob.version.schema for blob in blobs], pa.int64()),
        pa.array([blob.version.snapshot for blob in blobs], pa.int64()),
        pa.array([blob.partition for blob in blobs], pa.binary()),
        pa.array([blob.bucket for blob in blobs], pa.int32()),
        pa.array([blob.writer for blob in blobs], pa.int32()),
        pa.array([blob.rows for blob in blobs], pa.int32()),
        _binary(blobs),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _binary(blobs: Sequence[Blob]) -> pa.Array:
    """Return the blobs as one binary column. Built from buffers, so that the contents are copied only once."""
    # int32 is enough: a batch is cut after a few MiB, and its last blob has at most LARGEST_ROW bytes.
    ends = np.cumsum([blob.size for blob in blobs], dtype=np.int32)
    offsets = np.concatenate((np.zeros(1, np.int32), ends)).astype(np.int32)
    # A large blob is alone, and is not copied.
    data = blobs[0].data if len(blobs) == 1 else b"".join(memoryview(blob.data) for blob in blobs)
    return pa.Array.from_buffers(pa.binary(), len(blobs), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
