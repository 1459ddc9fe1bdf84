"""Frames of PostgreSQL's protocol in received bytes: the complete ones that contain data of a COPY.

A frame has a kind of one byte, its length in four bytes, which counts these four, and its content.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

from penstock.ingest.database.buffers import at_every_byte

if TYPE_CHECKING:
    from penstock.ingest.database.buffers import Bytes, Int64s

COPY_DATA = ord("d")
HEAD = 5  # bytes before the content
_ROUNDS = 4
_length_at = Struct(">I").unpack_from


def data_frames(data: Bytes, filled: int) -> tuple[Int64s, int]:
    """Return where the frames with data begin, and where the first frame begins that is incomplete or another.

    `data` begins with a frame. Only its first `filled` bytes were received.
    """
    # Each letter d may be the kind of a frame, if the bytes behind it are a possible length.
    places = np.flatnonzero(data[: max(filled - HEAD + 1, 0)] == COPY_DATA)
    places = places[data[places + 1] == 0]  # the content of few frames has 16 MiB
    ends = places + 1 + at_every_byte(data, ">u4")[places + 1].astype(np.int64)
    keep = (ends <= filled) & (ends >= places + HEAD)
    # It is one only if a frame ends there. In content this is the case nearly never.
    for _ in range(_ROUNDS):
        places, ends = places[keep], ends[keep]
        follows = np.zeros(filled + 1, np.bool_)
        follows[0] = follows[ends] = True
        keep = follows[places]
        if keep.all():
            break
    if not len(places) or places[0] != 0 or (ends[:-1] != places[1:]).any():
        return _followed(data, filled)
    return places, int(ends[-1])


def _followed(data: Bytes, filled: int) -> tuple[Int64s, int]:
    """Return the same, by going from frame to frame."""
    found, place, view = [], 0, data.data
    while place + HEAD <= filled and view[place] == COPY_DATA:
        end = place + 1 + _length_at(view, place + 1)[0]
        if not place + HEAD <= end <= filled:
            break
        found.append(place)
        place = end
    return np.array(found, np.int64), place
