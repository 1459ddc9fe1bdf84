"""Stable sorting of key arrays by permutation: equal keys stay in their original order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.table.values.buffers import Ints, Words
from penstock.table.values.sort_keys import Keys

# The bytes of keys that are compared at once.
_COMPARED = 1 << 20
# numpy sorts integers of 16 bits digit by digit. Two such sorts cost a third of sorting packed words, where the words
# need vector instructions that the processor executes slowly, and as much where they are quick. A third one would not.
_DIGIT_BITS, _MOST_BITS = 16, 32


def stable_order(keys: Keys, sorted_runs: bool) -> Ints:
    """Return the permutation that sorts `keys`.

    With `sorted_runs`, the keys are concatenated sorted runs, the oldest first; the stable sort detects the runs and
    merges them. If the keys are not sorted runs after all, the result is still correct and only takes longer.
    """
    return argsort_runs(keys) if sorted_runs else argsort_flush(keys)


def argsort_runs(keys: Keys) -> Ints:
    """Return the permutation that sorts keys that consist of sorted runs."""
    if keys.dtype.kind == "i" or len(keys) < 2:
        return np.argsort(keys, kind="stable")
    words, exact = _leading_words(keys)
    order = np.argsort(words, kind="stable")
    if not exact:
        _settle_ties(order, words[order], keys)
    return order


def argsort_flush(keys: Keys) -> Ints:
    """Return the permutation that sorts keys in any order.

    Words of few bits are sorted by their digits. Otherwise the leading bits of the key and the row number share a word.
    """
    count = len(keys)
    if count < 2:
        return np.arange(count)
    words, exact = _leading_words(keys)
    # Fewer bits are then needed for the words, and fewer of them are lost to the row numbers.
    words = words - words.min()
    if int(words.max()).bit_length() <= _MOST_BITS:
        order = _by_digits(words.astype(np.uint32))
        if not exact:
            _settle_ties(order, words[order], keys)
        return order
    bits = (count - 1).bit_length()
    spill = max(0, int(words.max()).bit_length() + bits - 64)
    packed = (words >> np.uint64(spill)) << np.uint64(bits) | np.arange(count, dtype=np.uint64)
    # The row numbers make all words distinct, so an unstable sort suffices and equal keys keep their order.
    packed.sort()
    places: Ints = (packed & np.uint64((1 << bits) - 1)).view(np.int64)
    if spill or not exact:
        _settle_ties(places, packed >> np.uint64(bits), keys)
    return places


def _by_digits(words: npt.NDArray[np.uint32]) -> Ints:
    order: Ints = np.argsort(words.astype(np.uint16), kind="stable")
    high = (words >> np.uint32(_DIGIT_BITS)).astype(np.uint16)
    # The second sort is stable, so that words with an equal high digit keep the order of their low digits.
    if high.any():
        order = order[np.argsort(high[order], kind="stable")]
    return order


def _leading_words(keys: Keys) -> tuple[Words, bool]:
    """Return up to eight bytes of every key as one unsigned word in the order of the keys.

    The second result says whether the words contain the whole keys.
    """
    if keys.dtype.kind == "i":
        return keys.view(np.uint64) ^ np.uint64(1 << 63), True
    width = keys.dtype.itemsize
    matrix = np.frombuffer(np.ascontiguousarray(keys), np.uint8).reshape(-1, width)
    # Leading bytes that all keys share do not distinguish keys.
    skip = _shared_bytes(matrix, width - 8)
    lead = np.zeros((len(keys), 8), np.uint8)
    part = matrix[:, skip : skip + 8]
    lead[:, : part.shape[1]] = part
    return lead.view(">u8")[:, 0].astype(np.uint64), width - skip <= 8


def _shared_bytes(matrix: npt.NDArray[np.uint8], most: int) -> int:
    """Return how many leading bytes all keys share, at most this many."""
    skip, block = 0, 1
    while skip < most:
        part = matrix[:, skip : min(skip + block, most)]
        differ = (part != part[0]).any(axis=0)
        if differ.any():
            return skip + int(differ.argmax())
        skip += part.shape[1]
        # Most keys differ early; in long ones, more bytes are compared at once.
        block = min(2 * block, max(1, _COMPARED // len(matrix)))
    return max(0, most)


def _settle_ties(order: Ints, lead: Words, keys: Keys) -> None:
    """Sort, in place, the ranges of `order` in which unequal keys have the same leading word."""
    ties = np.flatnonzero(lead[1:] == lead[:-1])
    unequal = keys[order[ties]] != keys[order[ties + 1]]
    if not unequal.any():
        return
    # `stretch` numbers the ranges of equal leading words. Only ranges with unequal keys are sorted again.
    stretch = np.cumsum(np.r_[False, lead[1:] != lead[:-1]])
    mixed = np.zeros(stretch[-1] + 1, np.bool_)
    mixed[stretch[ties[unequal]]] = True
    rows = np.flatnonzero(mixed[stretch])
    equal = order[rows]
    # The ranges follow each other in key order, so one sort over all of them keeps each range in its place.
    order[rows] = equal[np.argsort(keys[equal], kind="stable")]
