"""Batch reads under Spark: one task per split or per several small ones, with filters pushed down to files.

A filter is translated to an Arrow expression if both mean exactly the same.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.pipelines.spark_source.plain_errors import plain_errors
from penstock.pipelines.spark_source.spark_api import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
    arrow_target,
)
from penstock.pipelines.spark_source.table_place import TablePlace
from penstock.pipelines.spark_source.table_read import Piece, PieceRead, TableRead, new_rows, shaped

# A task costs some 100 ms beside its rows, which is as much as reading some megabytes takes.
_OPENING, _MOST, _TASKS = 4 << 20, 128 << 20, 32


def tasks_of(pieces: Sequence[Piece]) -> list[tuple[Piece, ...]]:
    """Return the pieces of each task, in order: small ones are read together if there are more than 32."""
    weights = [_OPENING + (piece.split.size if piece.split is not None else 0) for piece in pieces]
    most = min(_MOST, sum(weights) // _TASKS) if len(pieces) > _TASKS else 0
    tasks: list[list[Piece]] = []
    room = 0
    for piece, weight in zip(pieces, weights, strict=True):
        if weight > room:
            tasks.append([])
            room = most
        tasks[-1].append(piece)
        room -= weight
    return [tuple(task) for task in tasks]


class TableReader(DataSourceReader):
    """A batch reader.

    It is planned once per query, so every task reads the snapshot that was the newest at that time.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        with plain_errors():
            place = TablePlace.of(options)
            place.check_shows_now()
            self.table = TableRead.of(place, tuple(schema.names))
        self.target = arrow_target(schema)

    def partitions(self) -> list[InputPartition]:
        with plain_errors():
            return [InputPartition(pieces) for pieces in tasks_of(self.table.pieces())]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        # If a plan has no partitions, Spark adds one without a value, and Spark 4.0 adds None.
        pieces: Sequence[Piece] = () if partition is None else partition.value or ()
        with plain_errors():
            for piece in pieces:
                for batch in self.table.batches(piece):
                    # In a system table, a column of row kinds is ordinary data.
                    rows = batch if piece.way is PieceRead.SYSTEM else new_rows(batch, self.target)
                    yield shaped(rows, self.target)


class FilteringReader(TableReader):
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Accept the filters that are applied exactly; return the others to Spark."""
        with plain_errors():
            # Columns of the whole table: a filter may refer to a column that the query does not return.
            columns = self.table.filtered
            taken = {place: expression(given, columns) for place, given in enumerate(filters)}
        known = [where for where in taken.values() if where is not None]
        if known:
            # Spark calls this in the planner before `partitions`, and pickles the reader to the tasks afterwards.
            self.table = replace(self.table, where=functools.reduce(operator.and_, known))
        return [given for place, given in enumerate(filters) if taken[place] is None]


Compared = Callable[[pc.Expression, pa.Scalar], pc.Expression]
_COMPARED: Mapping[type[Filter], Compared] = {
    EqualTo: lambda column, value: column == value,
    # Never null, so that its negation is not null either.
    EqualNullSafe: lambda column, value: (column == value) & column.is_valid(),
    GreaterThan: lambda column, value: column > value,
    GreaterThanOrEqual: lambda column, value: column >= value,
    LessThan: lambda column, value: column < value,
    LessThanOrEqual: lambda column, value: column <= value,
}
_TEXTS: Mapping[type[Filter], Callable[[pc.Expression, str], pc.Expression]] = {
    StringStartsWith: pc.starts_with,
    StringEndsWith: pc.ends_with,
    StringContains: pc.match_substring,
}


def expression(condition: Filter, schema: pa.Schema) -> pc.Expression | None:
    """Return the Arrow expression, or None if Spark has to filter itself.

    Spark filters if Arrow would decide differently or the value does not fit the column.
    """
    if isinstance(condition, Not):
        inner = expression(condition.child, schema)
        if inner is None:
            return None
        # Arrow's `isin` is false for null, where SQL's IN is null: NOT IN must not return nulls.
        valid = pc.field(condition.child.attribute[0]).is_valid() if isinstance(condition.child, In) else None
        return ~inner if valid is None else ~inner & valid
    if len(condition.attribute) != 1 or condition.attribute[0] not in schema.names:
        return None
    column = pc.field(condition.attribute[0])
    if isinstance(condition, IsNull | IsNotNull):
        return column.is_null() if isinstance(condition, IsNull) else column.is_valid()
    return _with_value(condition, column, schema.field(condition.attribute[0]).type)


def _with_value(condition: Filter, column: pc.Expression, type_: pa.DataType) -> pc.Expression | None:
    if type(condition) in _TEXTS:
        return _TEXTS[type(condition)](column, condition.value) if pa.types.is_string(type_) else None
    if not _same_order(type_):
        return None
    if isinstance(condition, EqualNullSafe) and condition.value is None:
        return column.is_null()
    if isinstance(condition, In):
        values = [_scalar(value, type_) for value in condition.value]
        # Compared with None, because the scalar of false is false itself.
        known = [value.as_py() for value in values if value is not None]
        return column.isin(pa.array(known, type_)) if len(known) == len(values) else None
    value = _scalar(condition.value, type_)
    return None if value is None or type(condition) not in _COMPARED else _COMPARED[type(condition)](column, value)


def _same_order(type_: pa.DataType) -> bool:
    """Return whether Spark and Arrow order values of this type alike.

    In Spark a NaN is the greatest value and equals itself, and nanoseconds are cut to microseconds.
    """
    if pa.types.is_timestamp(type_):
        return bool(type_.unit != "ns")
    kinds = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_decimal, pa.types.is_string, pa.types.is_binary)
    return bool(pa.types.is_date(type_)) or any(kind(type_) for kind in kinds)


def _scalar(value: object, type_: pa.DataType) -> pa.Scalar | None:
    if value is None:
        return None
    try:
        if pa.types.is_timestamp(type_):
            # A safe cast: a value that the column cannot represent exactly is left to Spark.
            return pa.scalar(value, pa.timestamp("us", type_.tz)).cast(type_)
        return pa.scalar(value, type_)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None
