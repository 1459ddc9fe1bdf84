"""Rows of more bytes than one array of Arrow can have."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import DecodeError
from penstock.table.values.buffers import bounded, one_batch, rows_at

ROOT = Path(__file__).parents[4]
PACKAGES = ("formats", "ingest", "pipelines", "schema_evolution", "table")


def _texts(size: int, count: int) -> pa.Table:
    """Return a chunk of one text for each row; all texts are in the same memory, which takes no space while it is 0."""
    body = pa.py_buffer(np.zeros(size, np.uint8))
    array = pa.Array.from_buffers(pa.binary(), 1, [None, pa.array([0, size], pa.int32()).buffers()[1], body])
    return pa.table({"id": np.arange(count), "text": pa.chunked_array([array] * count)})


@pytest.mark.slow
@pytest.mark.parametrize("places", [[2, 0], [1], [0, 1, 2], [3, 3]])
def test_rows_are_fetched_from_chunks_of_more_than_two_gib(places: list[int]) -> None:
    rows = _texts(600 << 20, 4)
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        rows.take(pa.array(places))
    found = rows_at(rows, np.array(places))
    assert found.column("id").to_pylist() == places
    assert [chunk.nbytes >> 20 for chunk in found.column("text").chunks] == [600] * len(places)


@pytest.mark.slow
def test_rows_that_are_repeated_beyond_two_gib_are_in_chunks() -> None:
    """A lookup repeats a row of a dimension for each row with its key, which was an error of Arrow without a name."""
    rows = _texts(800 << 20, 1)
    found = rows_at(rows, np.zeros(4, np.int64), absent=np.array([False, False, True, False]))
    assert found.column("id").to_pylist() == [0, 0, None, 0]
    assert [chunk.nbytes >> 20 for chunk in found.column("text").chunks if chunk.null_count == 0]
    assert sum(chunk.nbytes for chunk in found.column("text").chunks) >= 2400 << 20
    with pytest.raises(DecodeError, match=r"3 rows that repeat 1 rows of .* do not fit into one batch"):
        rows_at(rows.to_batches()[0], np.zeros(3, np.int64))


def test_absent_rows_are_null() -> None:
    rows = pa.table({"id": pa.array([1, 2]), "text": pa.array(["a", "b"])})
    places = np.array([1, 9, 0], np.int64)
    found = rows_at(rows, places, absent=places == 9)
    assert found.to_pylist() == [{"id": 2, "text": "b"}, {"id": None, "text": None}, {"id": 1, "text": "a"}]
    nothing = rows_at(rows.slice(0, 0), np.arange(2), absent=np.ones(2, np.bool_))
    assert nothing.to_pylist() == [{"id": None, "text": None}] * 2


def test_no_slice_is_larger_than_the_limit() -> None:
    sizes = [1, 1, 5000, 10, 10, 900, 900, 900, 0, 1]
    rows = pa.table({"id": range(len(sizes)), "text": ["x" * size for size in sizes]})
    for given in (rows, rows.combine_chunks().to_batches()[0]):
        parts = list(bounded(given, 1000))
        assert [number for part in parts for number in part.column("id").to_pylist()] == list(range(len(sizes)))
        assert all(part.nbytes <= 1000 or part.num_rows == 1 for part in parts)
        assert any(first.num_rows > 1 for first, _ in pairwise(parts))


@pytest.mark.slow
def test_rows_that_one_batch_cannot_have_are_refused() -> None:
    with pytest.raises(DecodeError, match="3 rows of 3774873636 bytes do not fit into one batch"):
        one_batch(_texts(1200 << 20, 3))
    assert one_batch(_texts(4, 3)).num_rows == 3
    assert one_batch(pa.table({"id": pa.array([], pa.int64())})).num_rows == 0


def test_no_code_keeps_one_of_the_batches_of_combined_chunks() -> None:
    """`combine_chunks` leaves a column of 2 GiB in several chunks, so that one of the batches lacks rows."""
    found = set()
    for file in (path for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "combine_chunks" not in text:
            continue
        tree = ast.parse(text)
        looped = {id(node.iter) for node in ast.walk(tree) if isinstance(node, ast.For | ast.comprehension)}
        found |= {
            f"{file.relative_to(ROOT)}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and re.search(r"\.combine_chunks\(\)\.to_batches$", ast.unparse(node.func))
            and id(node) not in looped
        }
    assert {place.partition(":")[0] for place in found} == {"table/values/buffers.py", "table/lookup/sorted_part.py"}
