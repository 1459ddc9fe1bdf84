"""The two rows of an update in a changelog, in one batch or in one row."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.row_kinds import KIND_TEXTS, UPDATE_AFTER, UPDATE_BEFORE


def _ends_with_old_row(batch: pa.RecordBatch) -> bool:
    return bool(batch.column(0)[-1].as_py() == KIND_TEXTS[UPDATE_BEFORE])


def whole_updates(
    batches: Iterator[pa.RecordBatch], ends_with_old_row: Callable[[pa.RecordBatch], bool] = _ends_with_old_row
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a changelog so that the two rows of an update are in one batch.

    `ends_with_old_row` returns whether the last row of a batch is the old row of an update.
    """
    old_row: pa.RecordBatch | None = None
    for batch in batches:
        if old_row is not None:
            batch = pa.concat_batches([old_row, batch])
            old_row = None
        if batch.num_rows and ends_with_old_row(batch):
            old_row = batch.slice(batch.num_rows - 1)
            batch = batch.slice(0, batch.num_rows - 1)
        if batch.num_rows:
            yield batch
    if old_row is not None:
        yield old_row


def packed_updates(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of a changelog with each value in a list, and an update as one row: old value, new value.

    The kind of such a row is +U. These are the rows of the system table binlog.
    """
    kinds = batch.column(0)
    old, new = (
        pc.equal(kinds, KIND_TEXTS[kind]).to_numpy(zero_copy_only=False) for kind in (UPDATE_BEFORE, UPDATE_AFTER)
    )
    joins = np.zeros(len(batch), np.bool_)
    joins[1:] = old[:-1] & new[1:]
    offsets = np.append(np.flatnonzero(~joins), len(batch)).astype(np.int32)
    lists = [pa.ListArray.from_arrays(pa.array(offsets), column) for column in batch.columns[1:]]
    return pa.RecordBatch.from_arrays([kinds.take(pa.array(offsets[1:] - 1)), *lists], names=batch.schema.names)
