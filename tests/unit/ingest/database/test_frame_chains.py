"""Which places are frames: those that lie on the chain from the first one, as a walk from frame to frame finds them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.ingest.database.frame_chains import chained

PLACES = st.dictionaries(st.integers(1, 60), st.integers(1, 20), max_size=20)


def walked(ends: dict[int, int]) -> list[int]:
    at, passed = 0, []
    while at in ends:
        passed.append(at)
        at = ends[at]
    return passed


@given(PLACES, st.integers(1, 9))
def test_frames_are_those_of_a_walk(sizes: dict[int, int], first: int) -> None:
    ends = {place: place + size for place, size in sorted({0: first, **sizes}.items())}
    places = np.array(list(ends), np.int64)
    frames = chained(places, np.array(list(ends.values()), np.int64))
    others = sum(ends[place] != after for place, after in zip(places[:-1].tolist(), places[1:].tolist(), strict=True))
    if others * 4 > len(places):
        assert frames is None
    else:
        assert frames is not None
        assert frames[0].tolist() == walked(ends)
        assert frames[1].tolist() == [ends[place] for place in walked(ends)]


@given(st.integers(1, 30), st.integers(0, 200), st.integers(1, 9))
def test_a_place_within_a_frame_is_no_frame(size: int, number: int, first: int) -> None:
    """With many frames for each place, so that the answer is not None."""
    count = 201
    heads = np.arange(count, dtype=np.int64) * (size + 1)
    inner = int(heads[number]) + max(1, size // 2)
    ends = dict.fromkeys(heads.tolist(), 0) | {place: place + size + 1 for place in heads.tolist()}
    if inner not in ends:
        ends[inner] = inner + first
    ends = dict(sorted(ends.items()))
    frames = chained(np.array(list(ends), np.int64), np.array(list(ends.values()), np.int64))
    assert frames is not None
    assert frames[0].tolist() == walked(ends) == heads.tolist()
