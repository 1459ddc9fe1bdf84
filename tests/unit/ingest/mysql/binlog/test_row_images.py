"""Row images of updates: each before image has its after image in the same event."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.ingest.database.buffers import with_spare_bytes
from penstock.ingest.mysql.binlog.row_images import partial_rows, whole_rows
from penstock.ingest.mysql.binlog.row_layout import LocatedImages, RowImageLayout, locate_images

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
