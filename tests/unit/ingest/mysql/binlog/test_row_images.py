"""Row images of updates: each before image has its after image in the same event."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.ingest.database.buffers import with_spare_bytes
from penstock.ingest.mysql.binlog.row_images import partial_rows, whole_rows
from penstock.ingest.mysql.binlog.row_layout import LocatedImages, RowImageLayout, locate_images
from penstock.row_kinds import DELETE, UPDATE_BEFORE

NARROW, WIDE = RowImageLayout((1,)), RowImageLayout((1, 1))


def located(*events: bytes, layouts: list[RowImageLayout]) -> list[LocatedImages]:
    ends = np.cumsum([len(event) for event in events])
    return locate_images(with_spare_bytes(b"".join(events)), ends - [len(event) for event in events], ends, layouts)


def image(*cells: int) -> bytes:
    return bytes([0, *cells])


def test_images_of_updates_become_rows_in_pairs() -> None:
    [images] = located(image(1) + image(2), image(3) + image(4), layouts=[NARROW])
    rows = whole_rows(images, np.array([5, 6]), np.array([True, True]))
    assert (rows.event.tolist(), rows.row.tolist()) == ([5, 5, 6, 6], [0, 0, 0, 0])
    assert rows.is_after.tolist() == [False, True, False, True]


def test_an_insert_may_have_an_odd_number_of_rows() -> None:
    [images] = located(image(1), image(3) + image(4), layouts=[NARROW])
    assert len(whole_rows(images, np.array([5, 6]), np.array([False, True]))) == 3


@pytest.mark.parametrize("events", [[image(1)], [image(1), image(3)], [image(1) + image(2) + image(3), image(4)]])
def test_an_update_without_its_second_image_is_refused(events: list[bytes]) -> None:
    """Such a row would be compared with the first row of the next event, or with none."""
    [images] = located(*events, layouts=[NARROW])
    with pytest.raises(ValueError, match="without its second image"):
        whole_rows(images, np.arange(len(events)), np.ones(len(events), np.bool_))


def test_a_partial_update_without_its_second_image_is_refused() -> None:
    found = located(image(1) + image(2, 3) + image(4), layouts=[NARROW, WIDE])
    with pytest.raises(ValueError, match="without its second image"):
        partial_rows(found, np.arange(1), [0], [0, 1])


@st.composite
def watched_cells(draw: st.DrawFn) -> tuple[bytes | None, bytes | None]:
    """A cell before an update and after it: often equal, or different in one byte."""
    before = draw(st.none() | st.binary(max_size=draw(st.sampled_from([3, 8, 9, 32, 33, 70]))))
    if not before or draw(st.booleans()):
        return before, draw(st.just(before) | st.none() | st.binary(max_size=40))
    place = draw(st.integers(0, len(before) - 1))
    return before, before[:place] + bytes([before[place] ^ draw(st.integers(0, 255))]) + before[place + 1 :]


@given(st.lists(watched_cells(), min_size=1, max_size=20))
def test_an_update_moves_a_row_if_the_bytes_of_a_watched_cell_differ(pairs: list[tuple[bytes | None, ...]]) -> None:
    stored = [b"\1" if cell is None else bytes([0, len(cell)]) + cell for pair in pairs for cell in pair]
    data = b"".join(stored)
    layout = RowImageLayout((-1,))
    [images] = locate_images(with_spare_bytes(data), np.array([0]), np.array([len(data)]), [layout])
    rows = whole_rows(images, np.array([0]), np.array([True]))
    changes = rows.as_changes(with_spare_bytes(data), np.zeros(len(rows), np.bool_), [0], keep_all=True)
    moved = [DELETE if before != after else UPDATE_BEFORE for before, after in pairs]
    assert changes.kinds[::2].tolist() == moved
