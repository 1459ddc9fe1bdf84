"""One batch for each source schema, joined from the batches of several message layouts.

Each batch has a fixed cost in all later steps: transforms, rules, and a cast of each column.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.change import ChangeBatch, SourceSchema

# Offsets in joined columns have 32 bits, so that a column must stay below 2 GiB.
MOST_BYTES = 256 << 20


def joined_batches(batches: list[ChangeBatch]) -> list[ChangeBatch]:
    """Return one batch for each source schema, with its rows in message order."""
    by_schema: dict[SourceSchema, list[ChangeBatch]] = {}
    for batch in batches:
        by_schema.setdefault(batch.schema, []).append(batch)
    if len(by_schema) == len(batches) or sum(batch.rows.nbytes for batch in batches) > MOST_BYTES:
        return batches
    return [batch for parts in by_schema.values() for batch in _joined(parts)]


def _joined(parts: list[ChangeBatch]) -> list[ChangeBatch]:
    if len(parts) == 1:
        return parts
    positions = np.concatenate([part.positions for part in parts])
    subs = np.concatenate([part.subs for part in parts])
    # The last key of lexsort is the first to sort by.
    order = np.lexsort((subs, positions))
    places = pa.array(order)
    columns = list(zip(*(part.rows.columns for part in parts), strict=True))
    if not columns or any(len({column.type for column in alike}) > 1 for alike in columns):
        return parts  # values decide the type of such a column
    joined = [pc.take(pa.concat_arrays(alike), places, boundscheck=False) for alike in columns]
    rows = pa.RecordBatch.from_arrays(joined, names=[field.name for field in parts[0].schema.fields])
    kinds = np.concatenate([part.kinds for part in parts])[order]
    times = np.concatenate([part.event_times for part in parts])[order]
    return [ChangeBatch(rows, kinds, positions[order], subs[order], parts[0].schema, times)]
