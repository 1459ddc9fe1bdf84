"""Keys that the files of a split delete in the end, for reads of changes of cross-partition tables.

There a key that moves has a delete in the bucket that it leaves, and a new row in another bucket. A reader that keeps
the newest row of each key would lose the key if it read the delete last. So of all buckets first the changes of keys
are read that are deleted there in the end, and then the changes of all other keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.row_kinds import DELETE, UPDATE_BEFORE
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.merge.key_groups import KIND
from penstock.table.read.splits import Split, SplitKeys
from penstock.table.values.fingerprints import fingerprints

_MARK = pa.binary(16)


def deletes_first(layout: Layout, splits: Sequence[Split]) -> list[Split]:
    """Return the splits of one snapshot's changes in an order in which the newest row of each key is read last."""
    if layout.mode is not BucketMode.CROSS_PARTITION or len(splits) == 1:
        return list(splits)
    deleting = [split for split in splits if any(file.delete_row_count != 0 for file in split.files)]
    first = [replace(split, keys=SplitKeys.DELETED) for split in deleting]
    return first + [replace(split, keys=SplitKeys.KEPT) if split in deleting else split for split in splits]


def deleted_in_the_end(layout: Layout, batches: Iterable[pa.RecordBatch]) -> pa.Array:
    """Return marks of the keys whose last change is a delete: 16 bytes of memory for each of them."""
    deleted = pa.array([], _MARK)
    for batch in batches:
        marks = _marks(layout, batch)
        ends = _last_of_each(marks)
        last = marks.take(pa.array(ends))
        retracts = np.isin(batch.column(KIND).to_numpy()[ends], (DELETE, UPDATE_BEFORE))
        if len(deleted):
            deleted = deleted.filter(pc.invert(pc.is_in(deleted, last)))
        deleted = pa.concat_arrays([deleted, last.filter(pa.array(retracts))])
    return deleted


def rows_of_keys(
    layout: Layout, keys: SplitKeys, deleted: pa.Array, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the keys that are deleted in the end, or those of all other keys."""
    if keys is SplitKeys.DELETED and not len(deleted):
        return
    for batch in batches:
        chosen = pc.is_in(_marks(layout, batch), deleted)
        yield batch.filter(chosen if keys is SplitKeys.DELETED else pc.invert(chosen))


def _marks(layout: Layout, batch: pa.RecordBatch) -> pa.Array:
    found = fingerprints([batch.column(field.name) for field in layout.key_fields], layout.key_types)
    words = np.ascontiguousarray(np.stack([found.high, found.low], axis=1))
    return pa.Array.from_buffers(_MARK, len(words), [None, pa.py_buffer(words)])


def _last_of_each(marks: pa.Array) -> np.ndarray:
    """Return the place of the last row of each mark."""
    values = np.frombuffer(marks.buffers()[1], np.dtype("V16"))
    _, from_end = np.unique(values[::-1], return_index=True)
    return len(values) - 1 - from_end
