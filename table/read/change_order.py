"""The order in which the changes of one snapshot of a cross-partition table are read.

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

from penstock.row_kinds import is_retract
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.merge.key_groups import KIND
from penstock.table.read.splits import Split, SplitKeys
from penstock.table.values.buffers import Flags
from penstock.table.values.fingerprints import MARK, Marks, fingerprints


def deletes_first(layout: Layout, splits: Sequence[Split]) -> list[Split]:
    """Return the splits of one snapshot's changes in an order in which the newest row of each key is read last."""
    if layout.mode is not BucketMode.CROSS_PARTITION or len(splits) == 1:
        return list(splits)
    first = [replace(split, keys=SplitKeys.DELETED) for split in splits if _may_delete(split)]
    return first + [replace(split, keys=SplitKeys.KEPT) if _may_delete(split) else split for split in splits]


def _may_delete(split: Split) -> bool:
    return any(file.delete_row_count != 0 for file in split.files)


def deleted_in_the_end(layout: Layout, batches: Iterable[pa.RecordBatch]) -> Marks:
    """Return marks of the keys whose last change is a delete: 16 bytes of memory for each of them."""
    deleted = np.empty(0, MARK)
    for batch in batches:
        last, from_end = np.unique(_marks(layout, batch)[::-1], return_index=True)
        retracts = is_retract(np.asarray(batch.column(KIND), np.int8)[::-1][from_end])
        deleted = np.concatenate([deleted[~_are_in(deleted, last)], last[retracts]])
    return deleted


def rows_of_keys(
    layout: Layout, keys: SplitKeys, deleted: Marks, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the keys that are deleted in the end, or the rows of all other keys."""
    if keys is SplitKeys.DELETED and not len(deleted):
        return
    for batch in batches:
        chosen = _are_in(_marks(layout, batch), deleted)
        yield batch.filter(pa.array(chosen if keys is SplitKeys.DELETED else ~chosen))


def _marks(layout: Layout, batch: pa.RecordBatch) -> Marks:
    return fingerprints([batch.column(field.name) for field in layout.key_fields], layout.key_types).marks


def _are_in(marks: Marks, wanted: Marks) -> Flags:
    # By Arrow's hash table, in a fifth of the time that numpy needs to sort them.
    tested, members = (
        pa.Array.from_buffers(pa.binary(16), len(of), [None, pa.py_buffer(of)]) for of in (marks, wanted)
    )
    return np.asarray(pc.is_in(tested, members))
