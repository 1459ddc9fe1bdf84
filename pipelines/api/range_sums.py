"""The hashes of one side of a verification, summed by key range, and the keys that differ in some ranges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.pipelines.api.compared_columns import ComparedColumns, Int64s, Key, Rows


@dataclass(frozen=True, slots=True)
class KeyDiffers:
    """A key with a difference.

    `how`: missing in the table, extra in it, changed, or doubled (several source rows have the key).
    """

    how: str
    key: Mapping[str, object]


class RangeSums:
    """The sums of one side by key range, and the keys of some ranges."""

    def __init__(self, compared: ComparedColumns) -> None:
        self._compared = compared
        self._sums: dict[int, int] = {}
        self._counts: Counter[int] = Counter()
        self.rows = 0
        self.found: dict[Key, int] = {}
        self.doubled: set[Key] = set()

    def add(self, rows: Rows) -> None:
        _, hashes, numbers = rows
        distinct, place = np.unique(numbers, return_inverse=True)
        sums = np.zeros(len(distinct), np.int64)
        np.add.at(sums, place, hashes * 0x9E3779B1 & 0xFFFFFFFFFFFF)
        counts = np.bincount(place, minlength=len(distinct))
        for number, total, count in zip(distinct.tolist(), sums.tolist(), counts.tolist(), strict=True):
            self._sums[number] = self._sums.get(number, 0) + total
            self._counts[number] += count
        self.rows += len(hashes)

    def differs_from(self, other: RangeSums) -> Int64s:
        numbers = sorted(self._sums.keys() | other._sums.keys())
        return np.array([number for number in numbers if self._of(number) != other._of(number)], np.int64)

    def _of(self, number: int) -> tuple[int, int]:
        return self._sums.get(number, 0), self._counts[number]

    def look_into(self, numbers: Int64s, every: Iterator[Rows]) -> None:
        for keys, hashes, of_row in every:
            chosen = np.flatnonzero(np.isin(of_row, numbers))
            if len(chosen):
                lists = [column.take(pa.array(chosen)).to_pylist() for column in keys.columns]
                for key, hashed in zip(zip(*lists, strict=True), hashes[chosen].tolist(), strict=True):
                    if key in self.found:
                        self.doubled.add(key)
                    self.found[key] = hashed


def differing_keys(
    names: Sequence[str], source: RangeSums, table: RangeSums, most: int
) -> tuple[tuple[KeyDiffers, ...], dict[str, int]]:
    """Return the first keys of each kind of difference, and the number of keys per kind."""
    ours, theirs = table.found, source.found
    ways: dict[str, list[Key]] = {
        "missing": [key for key in theirs if key not in ours],
        "extra": [key for key in ours if key not in theirs],
        "changed": [key for key, hashed in theirs.items() if ours.get(key, hashed) != hashed],
        "doubled": list(source.doubled),
    }
    shown = [
        KeyDiffers(how, dict(zip(names, key, strict=True)))
        for how, keys in ways.items()
        for key in sorted(keys, key=str)[:most]
    ]
    return tuple(shown), {how: len(keys) for how, keys in ways.items() if keys}
