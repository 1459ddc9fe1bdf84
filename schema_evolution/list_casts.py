"""Casts of lists: by their elements, which follow the rules of columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.schema_evolution.text_casts import Misfits
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.types import ArrayType, Field

FitElements = Callable[[pa.Array, Field, Misfits], pa.Array]


def fit_lists(column: pa.Array, target: ArrayType, name: str, misfits: Misfits, fit: FitElements) -> pa.Array:
    """Return lists of the type of `target`. `fit` casts the elements of all lists as one column.

    A list with an element that does not fit is null in the result and recorded in `misfits`.
    """
    found = Misfits()
    elements = fit(pc.list_flatten(column), Field(0, name, target.element), found)
    misfits.nulled += found.nulled
    misfits.inexact += found.inexact
    # Elements below a null list are not among the flattened ones, but Arrow counts them in the indices of parents.
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    rows = np.repeat(np.arange(len(column)), lengths)
    refused = np.zeros(len(column), np.bool_)
    for element, reason in found.reasons.items():
        row = rows[element : element + 1]
        refused[row] = True
        misfits.add(row, reason)
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    null = pc.or_(pc.is_null(column), pa.array(refused))
    return pa.ListArray.from_arrays(pa.array(offsets), elements, type=to_arrow(target), mask=null)
