"""The walk over many events against a walk over one byte after another."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.ingest.database.buffers import with_spare_bytes
from penstock.ingest.mysql.binlog.row_layout import LocatedImages, RowImageLayout, locate_images

Row = list[bytes | None]
layouts = st.lists(st.sampled_from([0, 1, 2, 3, 5, 8, -1, -2, -3, -4]), min_size=1, max_size=20).map(tuple)


def random_row(widths: tuple[int, ...], dice: random.Random) -> Row:
    null_share = dice.choice([0, 0, 0.3])
    return [
        None if dice.random() < null_share else dice.randbytes(width if width >= 0 else dice.choice([0, 3, 40]))
        for width in widths
    ]


def stored(row: Row, widths: tuple[int, ...]) -> bytes:
    nulls = bytearray((len(row) + 7) // 8)
    body = b""
    for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
        if cell is None:
            nulls[place // 8] |= 1 << place % 8
        else:
            body += cell if width >= 0 else len(cell).to_bytes(-width, "little") + cell
    return bytes(nulls) + body


def place_events(events: list[list[Row]], widths: list[tuple[int, ...]]) -> tuple[bytes, np.ndarray, np.ndarray]:
    data, start, end = b"", [], []
    for rows in events:
        data += b"head"
        start.append(len(data))
        for number, row in enumerate(rows):
            data += stored(row, widths[number % len(widths)])
        end.append(len(data))
    return data, np.array(start, np.int64), np.array(end, np.int64)


def cells_of(images: object, data: np.ndarray, image: int) -> Row:
    row: Row = []
    for column in range(len(images.layout.widths)):  # type: ignore[attr-defined]
        at, length = images.cells(column)  # type: ignore[attr-defined]
        null = images.null[column][image]  # type: ignore[attr-defined]
        row.append(None if null else data[at[image] : at[image] + length[image]].tobytes())
    return row


@given(layouts, st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(0, 2**32))
def test_every_row_of_every_event_is_found_in_order(widths: tuple[int, ...], sizes: list[int], seed: int) -> None:
    dice = random.Random(seed)
    events = [[random_row(widths, dice) for _ in range(size)] for size in sizes]
    raw, start, end = place_events(events, [widths])
    data = with_spare_bytes(raw)
    images = locate_images(data, start, end, [RowImageLayout(widths)])[0]
    wanted = [(event, number, row) for event, rows in enumerate(events) for number, row in enumerate(rows)]
    assert list(zip(images.event.tolist(), images.step.tolist(), strict=True)) == [(e, n) for e, n, _ in wanted]
    for image, (_, _, row) in enumerate(wanted):
        assert cells_of(images, data, image) == row
    check_windows(images, data, [row for _, _, row in wanted])
    kept = np.array([image for image in range(len(wanted)) if dice.random() < 0.5], np.int64)
    check_windows(images.chosen(kept), data, [wanted[image][2] for image in kept])


def check_windows(images: LocatedImages, data: np.ndarray, rows: list[Row]) -> None:
    """Compare the cells that are read together with their neighbours, in an order of the columns and against it."""
    widths = images.layout.widths
    for column in [*range(len(widths)), *reversed(range(len(widths)))]:
        window = images.windowed(data, column)
        even = widths[column] >= 0 and all(row[column] is not None for row in rows)
        if window is None:
            continue
        assert even
        buffer, places = window
        assert len(places) == len(rows)
        for at, row in zip(places.positions, rows, strict=True):
            assert buffer[at : at + widths[column]].tobytes() == row[column]


def test_neighbours_of_fixed_width_without_nulls_are_read_together() -> None:
    widths = (4, 2, -1, 8, 1, 3, 2)
    rows: list[Row] = [[b"abcd", b"ef", b"x" * size, b"12345678", None, b"ghi", b"jk"] for size in (0, 9, 3)]
    raw, start, end = place_events([rows], [widths])
    data = with_spare_bytes(raw)
    images = locate_images(data, start, end, [RowImageLayout(widths)])[0]
    together = [column for column in range(len(widths)) if images.windowed(data, column) is not None]
    assert together == [0, 1, 5, 6], "a text, a null and a lone column are read by their positions"
    check_windows(images, data, rows)


@pytest.mark.parametrize("columns", [63, 64, 65, 128, 130])
def test_nulls_of_many_columns_are_found(columns: int) -> None:
    widths, dice = (2,) * columns, random.Random(columns)
    rows: list[Row] = [[dice.choice([b"ab", b"cd", None]) for _ in widths] for _ in range(5)]
    rows.append([None] * columns)
    raw, start, end = place_events([rows], [widths])
    images = locate_images(with_spare_bytes(raw), start, end, [RowImageLayout(widths)])[0]
    assert [cells_of(images, with_spare_bytes(raw), image) for image in range(6)] == rows


def test_before_and_after_images_may_have_different_layouts() -> None:
    widths = [(4,), (-1, 2)]
    events = [[[b"aaaa"], [b"x", b"11"], [b"bbbb"], [None, b"22"]]]
    raw, start, end = place_events(events, widths)
    before, after = locate_images(with_spare_bytes(raw), start, end, [RowImageLayout(w) for w in widths])
    assert [cells_of(before, with_spare_bytes(raw), image) for image in range(2)] == [[b"aaaa"], [b"bbbb"]]
    assert [cells_of(after, with_spare_bytes(raw), image) for image in range(2)] == [[b"x", b"11"], [None, b"22"]]


def test_selected_images_keep_their_cells() -> None:
    widths = (4, -1, 2, 8)
    dice = random.Random(7)
    rows = [random_row(widths, dice) for _ in range(20)]
    raw, start, end = place_events([rows], [widths])
    images = locate_images(with_spare_bytes(raw), start, end, [RowImageLayout(widths)])[0].chosen(np.array([3, 17]))
    assert [cells_of(images, with_spare_bytes(raw), image) for image in range(2)] == [rows[3], rows[17]]


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_truncated_row_is_refused(shift: int) -> None:
    raw, start, end = place_events([[[b"1234"], [b"5678"]]], [(4,)])
    with pytest.raises(ValueError, match="extends beyond"):
        locate_images(with_spare_bytes(raw), start, end + shift, [RowImageLayout((4,))])


@given(st.binary(min_size=10, max_size=300), layouts)
def test_random_bytes_are_a_value_or_index_error(raw: bytes, widths: tuple[int, ...]) -> None:
    try:
        locate_images(with_spare_bytes(raw), np.array([0]), np.array([len(raw)]), [RowImageLayout(widths)])
    except (ValueError, IndexError):
        pass


def test_an_empty_layout_terminates() -> None:
    with pytest.raises(ValueError, match="extends beyond"):
        locate_images(with_spare_bytes(b"abc"), np.array([0]), np.array([3]), [RowImageLayout(())])
