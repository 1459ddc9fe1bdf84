"""Batches of one source schema become one, in message order; others stay as they are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.formats.change import ChangeBatch, SourceField, SourceSchema
from penstock.formats.joined_batches import joined_batches
from penstock.row_kinds import INSERT, UPDATE_AFTER, UPDATE_BEFORE


def schema(table: str) -> SourceSchema:
    return SourceSchema("text", "db", table, (SourceField("name"),))


def batch(table: str, positions: list[int], subs: list[int] | None = None, kind: int = INSERT) -> ChangeBatch:
    rows = pa.RecordBatch.from_arrays([pa.array([f"row {number}" for number in positions])], ["name"])
    kinds, times = np.full(len(positions), kind, np.int8), np.array(positions, np.int64) * 10
    return ChangeBatch(rows, kinds, np.array(positions), np.array(subs or [1] * len(positions)), schema(table), times)


def test_rows_of_one_table_come_in_the_order_of_their_messages() -> None:
    parts = [
        batch("a", [5, 7], kind=UPDATE_AFTER),
        batch("b", [1]),
        batch("a", [2, 9]),
        batch("a", [7], [0], UPDATE_BEFORE),
    ]
    joined, other = joined_batches(parts)
    assert other is parts[1]
    assert joined.schema == schema("a")
    assert joined.positions.tolist() == [2, 5, 7, 7, 9]
    assert joined.subs.tolist() == [1, 1, 0, 1, 1]
    assert joined.kinds.tolist() == [INSERT, UPDATE_AFTER, UPDATE_BEFORE, UPDATE_AFTER, INSERT]
    assert joined.event_times.tolist() == [20, 50, 70, 70, 90]
    assert joined.rows.to_pydict() == {"name": ["row 2", "row 5", "row 7", "row 7", "row 9"]}


def test_a_batch_for_each_table_is_returned_as_it_is() -> None:
    batches = [batch("a", [1]), batch("b", [0])]
    assert joined_batches(batches) is batches


def test_columns_whose_types_follow_their_values_are_not_joined() -> None:
    numbers = batch("a", [1])
    texts = ChangeBatch(
        pa.RecordBatch.from_arrays([pa.array([5])], ["name"]),
        numbers.kinds,
        np.array([3]),
        numbers.subs,
        numbers.schema,
        numbers.event_times,
    )
    assert joined_batches([numbers, texts]) == [numbers, texts]


def test_rows_without_columns_are_not_joined() -> None:
    empty = pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), 1, [None]))
    bare = SourceSchema("text", "db", "a", ())
    parts = [
        ChangeBatch(empty, np.array([INSERT], np.int8), np.array([at]), np.array([1], np.int32), bare, np.array([0]))
        for at in (1, 2)
    ]
    assert joined_batches(parts) == parts
