"""Rows that a caller passes to a writer: what is refused before anything of them is written, and how to pass it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import penstock
from penstock.table.buckets.input_rows import RowRefused, RowRules, kinds_of
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


def _zeros(kind: pa.DataType, count: int, size: int) -> pa.Array:
    """Return values of `size` zeros, which take no memory while nobody writes to them."""
    offsets = pa.array(np.arange(count + 1) * size, pa.int64() if kind == pa.large_binary() else pa.int32())
    return pa.Array.from_buffers(kind, count, [None, offsets.buffers()[1], pa.py_buffer(np.zeros(count * size, "u1"))])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(lambda: [_zeros(pa.binary(), 1, 800 << 20)] * 3, id="chunks"),
        pytest.param(lambda: [_zeros(pa.large_binary(), 3, 800 << 20)], id="large", marks=pytest.mark.slow),
    ],
)
def test_rows_of_more_than_two_gib_are_several_batches(tmp_path: Path, data: Callable[[], list[pa.Array]]) -> None:
    table = new_table(tmp_path, [("id", "BIGINT NOT NULL"), ("data", "BYTES")])
    given = pa.table({"id": [1, 2, 3], "data": pa.chunked_array(data())})
    fitted = RowRules.of(table._store.schema()).fit(given, ["+I", "+U", "-D"])
    assert [batch.column("id").to_pylist() for batch, _ in fitted] == [[1], [2], [3]]
    assert [list(kinds) for _, kinds in fitted] == [[0], [2], [3]]
    assert {batch.column("data").type for batch, _ in fitted} == {pa.binary()}


def test_doubles_of_a_decimal_column_are_rounded_half_up(tmp_path: Path) -> None:
    table = new_table(tmp_path, [("id", "INT"), ("price", "DECIMAL(3, 1)")], keys=("id",))
    with table.writer() as writer:
        writer.write(pa.table({"id": [1, 2, 3], "price": [0.25, 0.35, -2.5]}))
        with pytest.raises(RowRefused, match="'price' does not fit"):
            writer.write(pa.table({"id": [4], "price": [99.95]}))
        writer.commit()
    assert [str(price) for _, price in content(table)] == ["0.3", "0.4", "-2.5"]


def test_doubles_within_rows_and_arrays_are_rounded_half_up(tmp_path: Path) -> None:
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("shop")
    columns = [("id", "INT"), ("r", "ROW<price DECIMAL(3, 1)>"), ("a", "ARRAY<DECIMAL(3, 1)>")]
    table = catalog.create_table("shop.prices", columns, primary_keys=["id"])
    with table.writer() as writer:
        writer.write(pa.table({"id": [1], "r": [{"price": 0.25}], "a": [[0.35, -2.25]]}))
        writer.commit()
    assert content(table) == [(1, {"price": Decimal("0.3")}, [Decimal("0.4"), Decimal("-2.3")])]


def test_decimals_of_a_double_column_become_the_closest_doubles(tmp_path: Path) -> None:
    table = new_table(tmp_path, [("id", "INT"), ("price", "DOUBLE")], keys=("id",))
    with table.writer() as writer:
        writer.write(pa.table({"id": [1, 2], "price": [Decimal("58459.20"), Decimal("-92.94")]}))
        writer.commit()
    assert content(table) == [(1, 58459.2), (2, -92.94)]
