"""Frames of PostgreSQL's protocol in received bytes: the complete ones that contain data of a COPY.

A frame has a kind of one byte, its length in four bytes, which counts these four, and its content.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

from penstock.byte_buffers import at_every_byte
from penstock.ingest.database.frame_chains import chained

if TYPE_CHECKING:
    from penstock.byte_buffers import Bytes, Int64s

COPY_DATA = ord("d")
HEAD = 5  # bytes before the content
_PART = 1 << 18
_length_at = Struct(">I").unpack_from


def data_frames(data: Bytes, filled: int) -> tuple[Int64s, int]:
    """Return where the data frames begin, and where the first frame begins that is incomplete or of another kind.

    `data` begins with a frame. Only its first `filled` bytes were received.
    """
    # Each letter d may be the kind of a frame, if the bytes after it are a possible length.
    places = _candidates(data, max(filled - HEAD + 1, 0))
    ends = places + 1 + at_every_byte(data, ">u4")[places + 1].astype(np.int64)
    possible = (ends <= filled) & (ends >= places + HEAD)
    places, ends = places[possible], ends[possible]
    if not len(places) or places[0] != 0:
        return _followed(data, filled)
    frames = chained(places, ends)
    if frames is None:
        return _followed(data, filled)
    places, ends = frames
    return places, int(ends[-1])


def _candidates(data: Bytes, size: int) -> Int64s:
    """Return where the first bytes have the letter d and a zero after it: few frames have 16 MiB.

    The bytes are looked at in parts that fit into the cache.
    """
    found = []
    for at in range(0, size, _PART):
        end = min(at + _PART, size)
        candidate = data[at:end] == COPY_DATA
        candidate &= data[at + 1 : end + 1] == 0
        found.append(np.flatnonzero(candidate) + at)
    return np.concatenate([np.zeros(0, np.int64), *found])


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
