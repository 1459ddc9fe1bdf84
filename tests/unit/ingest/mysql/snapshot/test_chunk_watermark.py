"""Rows of a chunk with the changes of the binlog applied, without a server."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.formats.change import ChangeBatch
from penstock.ingest.mysql.snapshot.chunk_watermark import as_of_high
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from tests.unit.ingest.database.test_past_rows import SCHEMA, changes, rows


def after(read: Sequence[tuple[int, str]], *found: ChangeBatch, last: int = 9) -> list[tuple[int, str]]:
    """Return the chunk of the keys up to `last`."""

    def up_to_last(keys: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.asarray(keys.column("id").to_numpy() <= last)

    kept = as_of_high([ChangeBatch.inserts(SCHEMA, rows(*read))], found, up_to_last)
    return sorted((row["id"], row["v"]) for batch in kept for row in batch.rows.to_pylist())


def test_the_log_wins_over_a_row_that_was_read_before_its_change() -> None:
    updated = changes((50, 0, UPDATE_BEFORE, (1, "a")), (50, 1, UPDATE_AFTER, (1, "b")))
    deleted = changes((60, 0, DELETE, (2, "a")))
    assert after([(1, "a"), (2, "a"), (3, "a")], updated, deleted) == [(1, "b"), (3, "a")]


def test_changes_that_the_rows_already_reflect_change_nothing() -> None:
    updated = changes((50, 0, UPDATE_BEFORE, (1, "a")), (50, 1, UPDATE_AFTER, (1, "b")))
    inserted = changes((55, 0, INSERT, (2, "new")))
    assert after([(1, "b"), (2, "new")], updated, inserted) == [(1, "b"), (2, "new")]


def test_the_last_change_of_a_key_wins_in_any_order_of_batches() -> None:
    later = changes((90, 0, UPDATE_BEFORE, (1, "b")), (90, 1, UPDATE_AFTER, (1, "c")))
    first = changes((50, 0, UPDATE_BEFORE, (1, "a")), (50, 1, UPDATE_AFTER, (1, "b")))
    assert after([(1, "a")], later, first) == after([(1, "a")], first, later) == [(1, "c")]


def test_a_key_that_only_the_log_has_is_kept_within_the_chunk() -> None:
    inserted = changes((50, 0, INSERT, (4, "new")), (50, 1, INSERT, (12, "beyond")))
    assert after([(1, "a")], inserted) == [(1, "a"), (4, "new")]
