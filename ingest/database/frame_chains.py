"""The frames of a protocol among places that look like frames: each frame begins where the one before it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from penstock.byte_buffers import Int64s

# With fewer frames than this for each place in the content that looks like a frame, it is cheaper to go from frame to
# frame.
_FEW = 4


def chained(places: Int64s, ends: Int64s) -> tuple[Int64s, Int64s] | None:
    """Return the places that are frames, and their ends; None if too many of them are not.

    Places are in order, and the first one is a frame. The chain ends before a frame that is not among them.
    """
    # Nearly always the next of these places is the next frame.
    others = np.flatnonzero(ends[:-1] != places[1:])
    if len(others) * _FEW > len(places):
        return None
    if not len(others):
        return places, ends
    following = np.searchsorted(places, ends[others])
    is_frame = np.ones(len(places), np.bool_)
    known = 0  # of the places before this one it is known whether they are frames
    for place, after, end in zip(others.tolist(), following.tolist(), ends[others].tolist(), strict=True):
        if place < known:
            continue  # in the content of a frame
        is_frame[place + 1 : after] = False
        known = after
        if after == len(places) or places[after] != end:
            is_frame[after:] = False
            break
    return places[is_frame], ends[is_frame]
