"""128-bit fingerprints of keys: two 64-bit hashes over the words of the keys' BinaryRows, computed column by column.

Keys of a single column of at most 8 bytes never collide. For other keys a collision is very unlikely: with fifty
million keys, the probability is about 10^-23.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.buffers import Words, one_array
from penstock.table.values.row_columns import RowColumns, Tail, row_columns
from penstock.table.values.types import DataType

# Number of rows mixed at a time. The state and the temporary arrays then fit into the second-level cache.
_CHUNK = 32_768
_SEEDS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)
# The factors are constants of Murmur3 and xxHash. They must be odd: each step is then a bijection of 64-bit words, so
# that keys of a single word cannot collide.
_FACTORS = ((0x87C37B91114253D5, 0x4CF5AD432745937F), (0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))


Marks: TypeAlias = npt.NDArray[np.void]
MARK = np.dtype("V16")


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """The fingerprints of many keys as parallel arrays: the upper and the lower 64 bits of each."""

    high: Words
    low: Words

    @property
    def marks(self) -> Marks:
        """Return each fingerprint as one value of 16 bytes, for sets of them in numpy."""
        return np.stack([self.high, self.low], axis=1).view(MARK).ravel()


def fingerprints(columns: Sequence[pa.Array], types: Sequence[DataType]) -> Fingerprints:
    """Return the fingerprint of every row of these key columns."""
    arrays = [one_array(column, to_arrow(type_)) for column, type_ in zip(columns, types, strict=True)]
    count = len(arrays[0]) if arrays else 0
    found = Fingerprints(np.empty(count, np.uint64), np.empty(count, np.uint64))
    for start in range(0, count, _CHUNK):
        parts = row_columns([array.slice(start, _CHUNK) for array in arrays], types)
        for number, out in enumerate((found.high, found.low)):
            out[start : start + _CHUNK] = _hashed(parts, number)
    return found


def _hashed(parts: RowColumns, number: int) -> Words:
    state = np.full(parts.count, _SEEDS[number], np.uint64)
    # Keys have no null, so that their header is None. Equal rows of columns with nulls could have different
    # fingerprints in different chunks, because a chunk without nulls leaves the header out.
    if parts.header is not None:
        _mix_words(state, parts.header.view("<u8"), number)
    for slots in parts.slots:
        _mix(state, slots, number)
    for tail in parts.tails:
        _mix_tail(state, tail, number)
    return _finish(state)


def _mix_tail(state: Words, tail: Tail, number: int) -> None:
    """Mix in the variable part of a column. Rows whose tails have the same number of words are mixed together."""
    spans = tail.spans
    if len(spans) == 0:
        return
    # Sorted by size, the rows of each size are adjacent; `bounds` are the positions where the size changes.
    order = np.argsort(spans, kind="stable")
    bounds = np.flatnonzero(np.diff(spans[order], prepend=-1, append=-1))
    for begin, end in itertools.pairwise(bounds.tolist()):
        sized_rows = tail.take(order[begin:end])
        assert sized_rows.rows is not None
        words = np.ascontiguousarray(sized_rows.matrix(int(spans[order[begin]]))).view("<u8")
        # Indexing by row numbers copies, so the mixed state must be written back.
        mixed = state[sized_rows.rows]
        _mix_words(mixed, words, number)
        state[sized_rows.rows] = mixed


def _mix_words(state: Words, words: Words, number: int) -> None:
    for i in range(words.shape[1]):
        _mix(state, words[:, i], number)


def _mix(state: Words, words: Words, number: int) -> None:
    first, second = (np.uint64(factor) for factor in _FACTORS[number])
    state ^= words * first
    high = state << np.uint64(31)
    state >>= np.uint64(33)
    state |= high
    state *= second


def _finish(state: Words) -> Words:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        state ^= state >> np.uint64(33)
        state *= np.uint64(factor)
    state ^= state >> np.uint64(33)
    return state
