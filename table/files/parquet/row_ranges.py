"""The rows of a row group that conditions on a few columns leave to be read.

Parquet's statistics rule out whole row groups. Within one, reading the columns of the conditions first shows where the
rows are that all other columns are needed for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.files.conditions import ColumnCondition

_MOST_BYTES = 64 << 20
_FEW_OPERANDS = 64
_MASKS: dict[str, Callable[[Any, pa.Array], Any]] = {
    "in": lambda column, given: pc.is_in(column, value_set=given),
    "=": lambda column, given: pc.equal(column, given[0]),
    "<=": lambda column, given: pc.less_equal(column, given[0]),
    ">=": lambda column, given: pc.greater_equal(column, given[0]),
}


def decidable(conditions: Sequence[ColumnCondition], public: pa.Schema) -> list[ColumnCondition]:
    """Return the conditions that can be evaluated on a few values quickly."""
    return [
        condition
        for condition in conditions
        if condition.column in public.names
        and len(condition.operands) <= _FEW_OPERANDS
        and condition.operator in _MASKS
    ]


def wanted_rows(file: Any, group: int, conditions: Sequence[ColumnCondition], public: pa.Schema) -> range:
    """Return the range of a row group's rows from the first to the last that satisfies the conditions.

    Only the columns of the conditions are read for it.
    """
    total = file.metadata.row_group(group).num_rows
    # Java writes groups of up to 128 MB, and a column of one would be in memory at once.
    if not conditions or file.metadata.row_group(group).total_byte_size > _MOST_BYTES:
        return range(total)
    names = sorted({condition.column for condition in conditions})
    table = file.read_row_group(group, columns=names, use_threads=False)
    mask = np.ones(total, np.bool_)
    for condition in conditions:
        column = table.column(condition.column)
        try:
            values = pa.array(condition.operands, public.field(condition.column).type)
            matches = _MASKS[condition.operator](column.cast(values.type), values)
        except (pa.ArrowException, TypeError):  # the file has values that cannot be compared
            continue
        mask &= pc.fill_null(matches, fill_value=False).to_numpy()
    places = np.flatnonzero(mask)
    return range(int(places[0]), int(places[-1]) + 1) if len(places) else range(0)
