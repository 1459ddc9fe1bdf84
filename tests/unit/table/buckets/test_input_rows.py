"""Rows that a caller passes to a writer: what is refused before anything of them is written, and how to pass it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from penstock.table.buckets.input_rows import RowRefused, kinds_of
from tests.unit.table.tables import content, new_table


def test_rows_with_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    twice = pa.Table.from_arrays([pa.array([1]), pa.array(["a"]), pa.array(["b"])], ["id", "name", "name"])
    with table.writer() as writer:
        with pytest.raises(RowRefused, match="several columns named 'name'"):
            writer.write(twice)
        writer.write(pa.table({"id": [1], "name": ["a"]}))
        writer.commit()
    assert content(table) == [(1, "a", None)]


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (pd.DataFrame({"id": [1]}), "write pyarrow.table(rows)"),
        ({"id": [1]}, "write pyarrow.table(rows), with a list for each column"),
        ([{"id": 1}], "write pyarrow.Table.from_pylist(rows), with a dict for each row"),
    ],
)
def test_rows_in_another_form_are_refused_with_the_call_that_makes_them(
    tmp_path: Path, given: object, hint: str
) -> None:
    with new_table(tmp_path).writer() as writer, pytest.raises(RowRefused, match="must be a pyarrow Table") as refused:
        writer.write(given)  # type: ignore[arg-type]
    assert refused.value.hint == hint


def test_row_kinds_that_are_no_list_or_no_kinds_are_refused() -> None:
    with pytest.raises(RowRefused, match="not a text") as refused:
        kinds_of("+I", 1)
    assert refused.value.hint == "write kinds=['+I']"
    for number in (256, -1, 4, 1 << 40):  # 256 is 0 as a single byte
        with pytest.raises(RowRefused, match="unknown row kind"):
            kinds_of(np.array([number]), 1)
    assert list(kinds_of(np.array([3, 0]), 2)) == [3, 0]
