"""Columns of text that are put together from parts and pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.byte_buffers import Int64s


def repeated(text: str, count: int) -> pa.Array:
    return pa.array([text], pa.string()).take(pa.array(np.zeros(count, np.int64)))


def joined(*parts: pa.Array | str) -> pa.Array:
    """Return the parts of each row one after another; null if one of them is."""
    return pc.binary_join_element_wise(*parts, "")


def in_places(pieces: Sequence[pa.Array], places: Sequence[Int64s], count: int) -> pa.Array:
    """Return `count` values made of pieces. `places` are the positions of the values of each piece; others are null."""
    if len(pieces) == 1 and len(places[0]) == count:
        # The only piece is in order, because places ascend.
        return pieces[0]
    if not pieces:
        return pa.nulls(count, pa.string())
    index = np.full(count, -1, np.int64)
    begin = 0
    for piece, place in zip(pieces, places, strict=True):
        index[place] = np.arange(begin, begin + len(piece))
        begin += len(piece)
    return pa.concat_arrays(pieces).take(pa.array(index, mask=index < 0))
