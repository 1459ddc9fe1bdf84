"""The rows of a row group that conditions on a few columns leave to be read.

Parquet's statistics rule out whole row groups. Within one, reading the columns of the conditions first shows where the
rows are that all other columns are needed for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.files.conditions import ColumnCondition
from penstock.table.files.parquet.pages import wanted_rows

_MOST_BYTES = 64 << 20
_FEW_OPERANDS = 64
_FEW_ROWS = 4_096
_ROWS_BY_PAGES = 4_096
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


def narrowed_rows(
    file: Any,
    source: Any,
    group: int,
    names: Sequence[str],
    conditions: Sequence[ColumnCondition],
    public: pa.Schema,
    most: int,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of a row group from the first to the last that satisfies the conditions, with their numbers.

    `file` is the opened ParquetFile, `source` its bytes. A batch has at most `most` rows.
    """
    tested = _tested_columns(file, group, conditions)
    wanted = range(file.metadata.row_group(group).num_rows) if tested is None else _range(tested, conditions, public)
    if tested is not None and set(names) <= set(tested.column_names):
        place = wanted.start
        for batch in tested.select(names).slice(place, len(wanted)).to_batches(max_chunksize=most):
            yield place, batch
            place += batch.num_rows
        return
    if 0 < len(wanted) <= min(most, _ROWS_BY_PAGES):
        rows = wanted_rows(file, source, group, names, wanted)
        if rows is not None:
            yield wanted.start, rows
            return
    if len(wanted) < file.metadata.row_group(group).num_rows:
        # Small batches: the last one that is read ends soon after the last wanted row.
        most = min(most, max(_FEW_ROWS, len(wanted)))
    place = 0
    for batch in file.iter_batches(most, row_groups=[group], columns=names, use_threads=False) if wanted else ():
        skipped = max(wanted.start - place, 0)
        if skipped < batch.num_rows:
            yield place + skipped, batch.slice(skipped, wanted.stop - place - skipped)
        place += batch.num_rows
        if place >= wanted.stop:
            break


def _tested_columns(file: Any, group: int, conditions: Sequence[ColumnCondition]) -> pa.Table | None:
    """Return the columns of the conditions, or None if they are too large to be in memory at once."""
    # Java writes groups of up to 128 MB.
    if file.metadata.row_group(group).total_byte_size > _MOST_BYTES:
        return None
    names = sorted({condition.column for condition in conditions})
    return file.read_row_group(group, columns=names, use_threads=False)


def _range(table: pa.Table, conditions: Sequence[ColumnCondition], public: pa.Schema) -> range:
    """Return the range of rows from the first to the last that satisfies the conditions."""
    mask = np.ones(len(table), np.bool_)
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
