"""Cells found in windows: the same as those found one by one, in rows of COPY and of the log."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.ingest.database.buffers import SPARE, with_spare_bytes
from penstock.ingest.database.cells import Cells
from penstock.ingest.postgres.errors import UnexpectedMessage
from penstock.ingest.postgres.log.messages import images_at
from penstock.ingest.postgres.received import Received
from penstock.ingest.postgres.relation import PgType
from penstock.ingest.postgres.values.copy_rows import cells_of
from penstock.ingest.postgres.values.windows import Shape
from tests.unit.ingest.postgres.pgoutput import row as logged_row

Row = list[bytes | None]


def copied_row(values: Sequence[bytes | None]) -> bytes:
    cells = (struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value for value in values)
    return struct.pack(">h", len(values)) + b"".join(cells)


def copied(rows: list[Row], shapes: list[Shape]) -> list[Cells]:
    return list(cells_of(Received.of([copied_row(row) for row in rows]), shapes))


def logged(rows: list[Row], shapes: list[Shape]) -> list[Cells]:
    made = [logged_row(row) for row in rows]
    ends = np.cumsum([len(row) for row in made])
    starts = ends - np.array([len(row) for row in made])
    images = images_at(with_spare_bytes(b"".join(made)), starts, ends, shapes)
    assert images.end.tolist() == ends.tolist()
    assert not np.any(images.unchanged)
    return images.cells


SHAPES = st.one_of(
    st.sampled_from((1, 2, 4, 8, 16)).map(lambda width: Shape(width, width)),
    st.builds(Shape, st.none(), st.integers(1, 40)),
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Shape], list[Row]]:
    """Columns, and rows whose values mostly have the width of their column."""
    shapes = draw(st.lists(SHAPES, min_size=1, max_size=24))
    odd = draw(st.sampled_from((0, 0, 1, 5)))  # of ten values

    def value(shape: Shape) -> st.SearchStrategy[bytes | None]:
        if shape.width is None or draw(st.integers(0, 9)) < odd:
            return st.one_of(st.none(), st.binary(max_size=40), st.binary(min_size=100, max_size=300))
        return st.binary(min_size=shape.width, max_size=shape.width)

    rows = draw(st.lists(st.tuples(*map(value, shapes)).map(list), min_size=1, max_size=4))
    return shapes, rows


@pytest.mark.parametrize("find", [copied, logged])
@given(tables())
def test_cells_are_those_of_the_rows(
    find: Callable[[list[Row], list[Shape]], list[Cells]], table: tuple[list[Shape], list[Row]]
) -> None:
    shapes, rows = table
    cells = find(rows, shapes)
    assert len(cells) == len(shapes)
    for place, column in enumerate(cells):
        ends = column.start + column.length
        content = [column.data[a:b].tobytes() for a, b in zip(column.start.tolist(), ends.tolist(), strict=True)]
        found = [None if null else cell for cell, null in zip(content, column.null.tolist(), strict=True)]
        assert found == [row[place] for row in rows]
        assert column.head is not None
        for head, value in zip(column.head, found, strict=True):
            # What is behind a short value belongs to other cells.
            assert value is None or head[: len(value)].tobytes() == value[: len(head)]
        # Arrow's reference to a value is made of bytes before it; without these, the value is looked up.
        for row in (column, replace(column, view=None), column.chosen(np.arange(len(rows)))):
            assert row.values(pa.binary()).to_pylist() == found


@pytest.mark.parametrize("width", [8, 9])
def test_a_row_that_ends_within_its_last_column_is_an_error(width: int) -> None:
    rows = [copied_row([bytes(8)]), copied_row([bytes(8)])[:-1]]
    shape = Shape(8, 8) if width == 8 else Shape()
    with pytest.raises(UnexpectedMessage, match="ends before its last column"):
        list(cells_of(Received.of(rows), [shape]))


def test_a_window_ends_before_a_column_that_would_exceed_it() -> None:
    values: Row = [bytes([place]) * 16 for place in range(3 * SPARE // 16)]
    found = copied([values, values], [Shape(16, 16)] * len(values))
    assert [bytes(cells.head[1]) for cells in found if cells.head is not None] == values


def test_shapes_of_types() -> None:
    assert Shape.of(PgType("int8")) == Shape(8, 8)
    assert Shape.of(PgType("text")) == Shape.of(PgType("", element=PgType("int4"))) == Shape()
    # A header of 8 bytes, three groups before the point and one after it.
    assert Shape.of(PgType("numeric", 12, 2)) == Shape(None, 16)
