"""Decimals from values of NUMERIC in the binary format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.byte_buffers import has_any
from penstock.ingest.database.buffers import as_128_bits, fixed
from penstock.ingest.postgres.values.odd_values import NOT_A_NUMBER, TOO_LARGE, nulled

if TYPE_CHECKING:
    from penstock.byte_buffers import Bools, Int64s
    from penstock.ingest.database.cells import Cells
    from penstock.ingest.postgres.relation import PgType

_NEGATIVE, _SPECIAL = 0x4000, 0xC000
_HEADER = 8
_HEAD = ((">i2", 0), (">i2", 2), (">u2", 4))
_DIGITS_OF_64_BITS = 18


def numerics(cells: Cells, kind: PgType, oddities: Counter[str]) -> pa.Array:
    """Return decimals; NaN, infinities, and numbers that do not fit become null and are counted."""
    precision, scale = kind.decimal or (0, 0)
    # A NUMERIC has a header (number of groups, weight, sign, scale) and groups of four decimal digits. The first
    # group counts 10000^weight, and zero groups at either end are left out.
    count, weight, sign = (cells.read(layout, at).astype(np.int64) for layout, at in _HEAD)
    wrong = cells.length != _HEADER + 2 * count
    if has_any(wrong) and has_any(wrong & ~cells.null):
        raise ValueError("a number has more or fewer groups of digits than it counts")
    null = nulled(cells.null, (sign & _SPECIAL) == _SPECIAL, NOT_A_NUMBER, oddities)
    count = np.where(null, 0, count) if has_any(null) else count
    numbers = _Numbers(cells, count, weight, -(-(precision - scale) // 4), -(-scale // 4), scale)
    # Digits before the first place and after the last one; both exist only in a NUMERIC without a declared size.
    spare = (count > 0) & ((weight >= numbers.whole) | (weight - count + 1 < -numbers.part))
    limit = 10 ** ((precision - scale) % 4)  # of the group at the first place, 1 if it may have all digits
    groups = numbers.summed(spare, limit) if precision <= _DIGITS_OF_64_BITS else numbers.groups(spare, limit)
    null = nulled(null, spare, TOO_LARGE, oddities)
    return fixed(pa.decimal128(precision, scale), as_128_bits(groups, sign == _NEGATIVE), null)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Numbers for a type that has room for `whole` groups before the point and `part` groups after it.

    Both methods return what `as_128_bits` needs, and set `spare` for numbers with digits for which there is no room.
    """

    cells: Cells
    count: Int64s
    weight: Int64s
    whole: int
    part: int
    scale: int

    def summed(self, spare: Bools, limit: int) -> list[tuple[int, Int64s]]:
        """Return the numbers as one group, if 64 bits have room for all. Each step adds one group of every number."""
        # The lowest place first: how many units of the scale a group counts there.
        units = np.array([10 ** max(4 * place + self.scale, 0) for place in range(-self.part, self.whole)], np.int64)
        stored = self.cells.first_bytes(_HEADER + 2 * len(units))[:, _HEADER:].view(">u2")
        total = np.zeros(len(self.count), np.int64)
        place = self.weight + self.part
        for step in range(min(len(units), int(self.count.max(initial=0)))):
            group = stored[:, step].astype(np.int64)
            is_behind = self.count <= step
            if has_any(is_behind):
                group[is_behind] = 0
            _check(group)
            if self.scale % 4:
                lowest = np.flatnonzero(place == 0)
                group[lowest] = self._shortened(group[lowest], spare, lowest)
            if limit > 1 and self.whole and has_any(too_large := group >= limit):
                spare |= (place == len(units) - 1) & too_large
            # A group at another place is of a number that is null in the end, so any product is good for it.
            group *= units.take(place, mode="clip")
            total += group
            place -= 1
        return [(_DIGITS_OF_64_BITS, total)]

    def groups(self, spare: Bools, limit: int) -> list[tuple[int, Int64s]]:
        """Return the groups of every number at each place, the highest first, with their digits."""
        found = [(4, group) for group in self._digits()]
        if self.scale % 4:
            group = self._shortened(found[-1][1], spare, slice(None))
            found[-1] = self.scale % 4, group
        if limit > 1 and self.whole:
            spare |= found[0][1] >= limit
        return found

    def _shortened(self, lowest: Int64s, spare: Bools, numbers: Int64s | slice) -> Int64s:
        """Return the groups at the lowest place with only the digits that the scale has room for."""
        group, rest = np.divmod(lowest, 10 ** (4 - self.scale % 4))
        spare[numbers] |= rest > 0
        return group

    def _digits(self) -> Iterator[Int64s]:
        """Yield the group of every number at each place, the highest first."""
        size = self.whole + self.part
        stored = self.cells.first_bytes(_HEADER + 2 * size)[:, _HEADER:].view(">u2")
        # Zeros before the groups stand for the places above the first one, which begins further down in smaller
        # numbers.
        padded = np.zeros((len(self.cells), 2 * size), np.int64)
        np.multiply(stored, np.arange(size) < self.count[:, None], out=padded[:, size:])
        _check(padded)
        first = np.arange(size, padded.size + size, 2 * size) - np.clip(self.whole - 1 - self.weight, 0, size)
        for step in range(size):
            yield padded.reshape(-1)[first + step]


def _check(groups: Int64s) -> None:
    if groups.max(initial=0) > 9999:
        raise ValueError("a group of a number has more than four digits")
