"""Rows with later changes of the log undone, without a server."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.formats.change import ChangeBatch, SourceField, SourceSchema
from penstock.ingest.database.past_rows import keys_before
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

SCHEMA = SourceSchema("mysql", "shop", "t", (SourceField("id", "int"), SourceField("v", "varchar(9)")), ("id",))


def rows(*values: tuple[int, str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": key, "v": text} for key, text in values], SCHEMA_OF_ROWS)


SCHEMA_OF_ROWS = pa.schema([("id", pa.int32()), ("v", pa.string())])


def changes(*found: tuple[int, int, int, tuple[int, str]]) -> ChangeBatch:
    """Changes as (position, place within the event, kind, row)."""
    positions = np.array([item[0] for item in found], np.int64)
    subs, kinds = np.array([item[1] for item in found], np.int32), np.array([item[2] for item in found], np.int8)
    batch = rows(*(item[3] for item in found))
    return ChangeBatch(batch, kinds, positions, subs, SCHEMA, np.full(len(found), -1, np.int64))


def before(now: Sequence[tuple[int, str]], *found: ChangeBatch) -> list[tuple[int, str]]:
    def all_of_them(keys: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.ones(len(keys), np.bool_)

    kept = keys_before([ChangeBatch.inserts(SCHEMA, rows(*now))], found, all_of_them)
    return sorted((row["id"], row["v"]) for batch in kept for row in batch.rows.to_pylist())


def test_the_first_change_of_a_key_is_found_in_any_order_of_batches() -> None:
    later = changes((90, 0, UPDATE_BEFORE, (1, "b")), (90, 1, UPDATE_AFTER, (1, "c")), (95, 0, DELETE, (3, "z")))
    first = changes((50, 0, UPDATE_BEFORE, (1, "a")), (50, 1, UPDATE_AFTER, (1, "b")), (60, 0, INSERT, (4, "new")))
    now = [(1, "c"), (2, "same"), (4, "new")]
    assert before(now, later, first) == before(now, first, later) == [(1, "a"), (2, "same"), (3, "z")]


def test_rows_of_an_event_are_ordered_by_their_place() -> None:
    twice = changes((50, 2, UPDATE_BEFORE, (1, "b")), (50, 3, UPDATE_AFTER, (1, "c")), (50, 0, UPDATE_BEFORE, (1, "a")))
    assert before([(1, "c")], twice) == [(1, "a")]


def test_changes_alone_give_the_rows_that_they_changed() -> None:
    found = changes((1, 0, UPDATE_BEFORE, (1, "a")), (1, 1, UPDATE_AFTER, (1, "b")), (2, 0, INSERT, (2, "x")))
    kept = keys_before([], [found], lambda keys: np.ones(len(keys), np.bool_))
    assert [row for batch in kept for row in batch.rows.to_pylist()] == [{"id": 1, "v": "a"}]
