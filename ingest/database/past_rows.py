"""The rows of a table as of an earlier position of the log: the current rows, with later changes undone.

The first change of a key after the position shows the key's row at the position: no row if it was inserted, the before
image if it was updated or deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SourceError
from penstock.formats.change import ChangeBatch
from penstock.row_kinds import DELETE, UPDATE_BEFORE

if TYPE_CHECKING:
    import numpy.typing as npt

    from penstock.byte_buffers import Bools


def keys_before(
    rows: Sequence[ChangeBatch], changes: Sequence[ChangeBatch], is_in_chunk: Callable[[pa.Table], Bools]
) -> list[ChangeBatch]:
    """Return the rows of a table with a key, with these changes undone."""
    if not changes:
        return list(rows)
    batches = with_newest_columns([*rows, *changes])
    schema = batches[0].schema
    whole = pa.Table.from_batches([batch.rows for batch in batches]).combine_chunks()
    keys = row_numbers(whole.select(list(schema.primary_keys)))
    from_log = np.repeat([False, True], [sum(map(len, rows)), sum(map(len, changes))])
    kinds = np.concatenate([batch.kinds for batch in batches])
    touched = np.flatnonzero(from_log)
    order = touched[np.lexsort([part[touched] for part in _log_order(batches)])]
    # For each key the index of its first change, -1 without changes.
    first = np.full(int(keys.max()) + 1, -1, np.int64)
    # The last assignment per key wins, which is the first change.
    first[keys[order[::-1]]] = order[::-1]
    # Rows that no change touched stay. For a touched key, the before image of its first change is the row.
    stays = ~from_log & (first[keys] < 0)
    was_there = first[(first >= 0)]
    # An insert as the first change means that the key had no row. Otherwise the before image is the row at the
    # position.
    was_there = was_there[np.isin(kinds[was_there], [DELETE, UPDATE_BEFORE])]
    in_rows = np.zeros(len(first), np.bool_)
    in_rows[keys[~from_log]] = True
    stays[was_there] = in_rows[keys[was_there]]
    # Keys that are gone now. Only the server can compare them with the bounds, by the collation of the column.
    doubtful = was_there[~in_rows[keys[was_there]]]
    if len(doubtful):
        stays[doubtful] = is_in_chunk(whole.take(pa.array(doubtful)).select(list(schema.primary_keys)))
    kept = whole.take(pa.array(np.flatnonzero(stays))).combine_chunks()
    return [ChangeBatch.inserts(batches[0].schema, batch) for batch in kept.to_batches() if len(batch)]


def rows_before(rows: Sequence[ChangeBatch], changes: Sequence[ChangeBatch]) -> list[ChangeBatch]:
    """Return the rows of a table without a key, with these changes undone.

    Each copy of a row that was written is removed once, each copy that was deleted is added once.
    """
    if not changes:
        return list(rows)
    batches = with_newest_columns([*rows, *changes])
    whole = pa.Table.from_batches([batch.rows for batch in batches]).combine_chunks()
    numbers = row_numbers(whole)
    from_log = np.repeat([False, True], [sum(map(len, rows)), sum(map(len, changes))])
    gone = np.isin(np.concatenate([batch.kinds for batch in batches]), [DELETE, UPDATE_BEFORE])
    # Equal rows have equal numbers. A row that is there now or was deleted counts 1, a row that was written since
    # counts -1.
    counts = np.bincount(numbers, weights=np.where(~from_log | gone, 1, -1)).astype(np.int64)
    _, one_of_each = np.unique(numbers, return_index=True)
    index = np.repeat(one_of_each, np.maximum(counts, 0))
    kept = whole.take(pa.array(np.sort(index))).combine_chunks()
    return [ChangeBatch.inserts(batches[0].schema, batch) for batch in kept.to_batches() if len(batch)]


def _log_order(batches: Sequence[ChangeBatch]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the sort keys of rows for `np.lexsort`: the places within an event, then the positions of events."""
    subs = np.concatenate([batch.subs.astype(np.int64) for batch in batches])
    return subs, np.concatenate([batch.positions.astype(np.int64) for batch in batches])


def row_numbers(keys: pa.Table) -> npt.NDArray[np.int64]:
    """Return a number for every distinct key; a key may also be a whole row."""
    # Numbers instead of Python objects: a code per column, then a number per distinct row of codes. Null is a code too.
    codes = [_comparable(column.combine_chunks()).dictionary_encode("encode") for column in keys.columns]
    numbers = np.stack([code.indices.to_numpy(zero_copy_only=False).astype(np.int64) for code in codes], axis=1)
    _, number = np.unique(numbers, axis=0, return_inverse=True)
    flat: npt.NDArray[np.int64] = number.reshape(-1).astype(np.int64)
    return flat


def _comparable(column: pa.Array) -> pa.Array:
    # Lists come from SET columns, whose labels contain no commas.
    return pc.binary_join(column, ",") if pa.types.is_list(column.type) else column


def with_newest_columns(batches: Sequence[ChangeBatch]) -> list[ChangeBatch]:
    """Return all batches with the columns of the first, which are the newest: the table may have been altered since."""
    target = batches[0].rows.schema
    return [
        batch if batch.rows.schema == target else replace(batch, schema=batches[0].schema, rows=_cast(batch, target))
        for batch in batches
    ]


def _cast(batch: ChangeBatch, target: pa.Schema) -> pa.RecordBatch:
    known = dict(zip(batch.rows.schema.names, batch.rows.columns, strict=True))
    try:
        columns = [
            pc.cast(known[field.name], field.type) if field.name in known else pa.nulls(len(batch), field.type)
            for field in target
        ]
    except pa.ArrowException as error:
        raise SourceError(
            "the table was altered while its snapshot was read, and its old values do not fit the new columns",
            table=f"{batch.schema.database}.{batch.schema.table}",
            reason=str(error),
            hint="restart the pipeline: it then reads the tables in their present form",
        ) from error
    return pa.RecordBatch.from_arrays(columns, schema=target)
