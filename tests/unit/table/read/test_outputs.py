"""Rows as other engines read them."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from penstock.table.read.outputs import from_start


def test_duckdb_reads_structures_below_structures_that_begin_in_the_middle_of_a_batch() -> None:
    rows = pa.table({"id": range(4), "outer": [{"a": n, "inner": {"b": n}} for n in range(4)]}).to_batches()[0]
    sliced = rows.slice(1, 2)
    with pytest.raises(duckdb.Error, match="below an offset"):  # otherwise the copy is not needed any more
        duckdb.from_arrow(pa.Table.from_batches([sliced])).fetchall()
    copied = from_start(sliced)
    assert copied.equals(sliced)
    assert duckdb.from_arrow(pa.Table.from_batches([copied])).fetchall() == [
        (n, {"a": n, "inner": {"b": n}}) for n in (1, 2)
    ]


def test_other_batches_are_not_copied() -> None:
    rows = pa.table({"id": range(4), "outer": [{"a": n} for n in range(4)]}).to_batches()[0]
    assert from_start(rows) is rows
    assert from_start(rows.select(["id"]).slice(1)).column(0).offset == 1
