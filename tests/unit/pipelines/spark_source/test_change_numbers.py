"""Numbers of changes that a query keeps, and the kinds of the rows that it leaves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.pipelines.spark_source.change_numbers import CHANGE, ends_with_old_row, kinds_for, numbered
from penstock.row_kinds import KIND_TEXTS, RowKinds
from penstock.table.read.update_pairs import whole_updates


def changes(kinds: str, ids: list[int]) -> tuple[RowKinds, pa.RecordBatch]:
    numbers = np.array([KIND_TEXTS.index(batch) for batch in kinds.split()], np.int8)
    return numbers, pa.record_batch({"id": ids})


def result(kinds: str, ids: list[int], kept: list[int], keys: list[int] | None = None) -> list[tuple[str, int]]:
    given, batch = changes(kinds, ids)
    columns = {"k": keys or ids, CHANGE: numbered(given, batch, ["id"], 10)}
    rows = pa.record_batch(columns).take(pa.array(kept, pa.int64()))
    left, found = kinds_for(rows, ["k"])
    return [(KIND_TEXTS[kind], key) for kind, key in zip(found, left["k"].to_pylist(), strict=True)]


def test_an_update_of_which_one_row_is_left_is_an_insert_or_a_delete() -> None:
    kinds, ids = "+I -U +U -D -U +U", [1, 2, 2, 3, 4, 4]
    assert result(kinds, ids, [0, 1, 2, 3, 4, 5]) == [("+I", 1), ("-U", 2), ("+U", 2), ("-D", 3), ("-U", 4), ("+U", 4)]
    # The old row of 2 and the new one of 4 are next to each other, and not one update.
    assert result(kinds, ids, [1, 5]) == [("-D", 2), ("+I", 4)]
    assert result(kinds, ids, [2, 4]) == [("+I", 2), ("-D", 4)]


def test_an_update_that_changes_the_key_of_the_target_moves_the_row() -> None:
    assert result("-U +U", [1, 1], [0, 1], [7, 8]) == [("-D", 7), ("+I", 8)]


def test_rows_of_two_keys_are_no_update() -> None:
    # As in a changelog whose old rows were left out.
    assert result("-U +U", [1, 2], [0, 1]) == [("-D", 1), ("+I", 2)]


@pytest.mark.parametrize("lengths", [[1, 1, 1, 1], [2, 2], [3, 1], [4]])
def test_both_rows_of_an_update_come_in_one_batch(lengths: list[int]) -> None:
    given, batch = changes("+I -U +U +I", [1, 2, 2, 3])
    rows = pa.record_batch({"id": batch["id"], CHANGE: numbered(given, batch, ["id"], 0)})
    starts = np.cumsum([0, *lengths[:-1]])
    parts = [rows.slice(start, length) for start, length in zip(starts, lengths, strict=True)]
    whole = list(whole_updates(iter(parts), ends_with_old_row))
    assert sum(batch.num_rows for batch in whole) == 4
    assert [KIND_TEXTS[kind] for batch in whole for kind in kinds_for(batch, ["id"])[1]] == ["+I", "-U", "+U", "+I"]
