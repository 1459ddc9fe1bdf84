"""Casts of the texts of many small batches at once: for some hundred values, a cast is mostly its fixed cost.

Only columns of which every text fits its type exactly are cast here. All others stay texts, and are cast for their
batch alone, which finds the rows that do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.formats.change import ChangeBatch
from penstock.schema_evolution.fit import Fit, TextTarget
from penstock.schema_evolution.text_casts import cast_exactly
from penstock.table.values.arrow_types import to_arrow

# Of a batch with more rows, the fixed cost of a cast is small beside that of its values.
FEW_ROWS = 2_000
# For fewer columns of one type, joining and cutting cost as much as they save.
FEWEST_COLUMNS = 4
# The most text of one cast. A column of more would not fit into an array of Arrow.
MOST_BYTES = 64 << 20
# The numbers of a batch and of a column in it.
Place: TypeAlias = tuple[int, int]


def cast_together(batches: Sequence[ChangeBatch], fits: Sequence[Fit | None]) -> list[ChangeBatch]:
    """Return the batches with columns of text that already have the types into which these fits will bring them.

    A batch without a fit stays as it is.
    """
    alike: dict[TextTarget, list[Place]] = {}
    columns: dict[int, list[pa.Array]] = {}
    for number, (batch, fit) in enumerate(zip(batches, fits, strict=True)):
        if fit is not None and 0 < len(batch) < FEW_ROWS:
            columns[number] = batch.rows.columns
            for place, target in fit.text_targets(batch.schema):
                if pa.types.is_string(columns[number][place].type):
                    alike.setdefault(target, []).append((number, place))
    changed: set[int] = set()
    for target, places in alike.items():
        if len(places) >= FEWEST_COLUMNS:
            changed |= _cast(target, places, columns)
    return [
        _with_columns(batch, columns[number]) if number in changed else batch for number, batch in enumerate(batches)
    ]


def _cast(target: TextTarget, places: Sequence[Place], columns: dict[int, list[pa.Array]]) -> set[int]:
    """Replace the columns at these places by their casts, and return the batches of which some were replaced."""
    texts = [columns[number][place] for number, place in places]
    if sum(column.nbytes for column in texts) > MOST_BYTES:
        return set()
    cast = cast_exactly(pa.concat_arrays(texts), target.type, in_key=target.in_key)
    if cast is None or cast.type != to_arrow(target.type):
        return set()
    ends = np.cumsum([len(column) for column in texts]).tolist()
    for (number, place), begin, end in zip(places, [0, *ends], ends, strict=False):
        columns[number][place] = cast.slice(begin, end - begin)
    return {number for number, _ in places}


def _with_columns(batch: ChangeBatch, columns: Sequence[pa.Array]) -> ChangeBatch:
    return replace(batch, rows=pa.RecordBatch.from_arrays(columns, names=batch.rows.schema.names))
