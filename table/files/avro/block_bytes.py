"""The bytes of Avro blocks, and the numbers and texts at known places of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from penstock.byte_buffers import at_every_byte
from penstock.table.files.avro.sizes import LONGEST_NUMBER, NUMBER, Bytes, Kind, value_sizes

Places = npt.NDArray[np.int64]
# Zeros behind the bytes, so that reads of a fixed width do not run out of bounds.
_PADDING = 32

# The bytes of a number within eight bytes, by its size.
_MASKS = np.array([(1 << 8 * min(size, 8)) - 1 for size in range(LONGEST_NUMBER + 1)], np.uint64)
# Every other group of 7, 14 and 28 bits in a word of eight bytes.
EVEN = np.array([0x007F007F007F007F, 0x00003FFF00003FFF, 0x000000000FFFFFFF], np.uint64)
ODD = np.array([0x7F007F007F007F00, 0x3FFF00003FFF0000, 0x0FFFFFFF00000000], np.uint64)


class BlockBytes:
    """The bytes of blocks, and the sizes of the values that begin at each of them, for the given kinds.

    Zeros follow the blocks, at least `padding` of them, which read as empty values.
    """

    def __init__(self, blocks: Sequence[bytes], kinds: Collection[Kind], padding: int) -> None:
        self.end = sum(map(len, blocks))
        self.data: Bytes = np.frombuffer(b"".join([*blocks, bytes(_PADDING + padding)]), np.uint8)
        self.sizes = value_sizes(self.data, {(NUMBER, False), *kinds})

    def long_sizes(self, places: Places, *, nullable: bool) -> Places:
        """Return the sizes of the texts at these places, for which `sizes` has 0. ValueError if one is not a text."""
        starts = places + 1 if nullable else places
        numbers, ends = self.numbers(starts)
        if (nullable and (self.data[places] != 2).any()) or (numbers < 0).any():
            raise ValueError("the bytes are not a valid record")
        # Lengths of damaged blocks may be so large that the sum would wrap.
        return ends - places + np.minimum(numbers, len(self.data))

    def numbers(self, places: Places) -> tuple[Places, Places]:
        """Return the numbers that begin at these places, and where they end."""
        sizes = self.sizes[NUMBER, False][places]
        longest = int(sizes.max(initial=0))
        if longest > LONGEST_NUMBER:
            raise ValueError("a number does not end")
        groups = at_every_byte(self.data, "V8")[places].view("<u8")
        groups &= _MASKS[sizes]
        # The seven bits of each byte are moved together: bytes to groups of 14 bits, these to 28 bits, these to 56.
        for step in range(3 if longest > 4 else 2 if longest > 2 else 1):
            odd = groups & ODD[step]
            odd >>= np.uint64(1 << step)
            groups &= EVEN[step]
            groups |= odd
        for byte in range(8, longest):
            long = np.flatnonzero(sizes > byte)
            part = self.data[places[long] + byte].astype(np.uint64) & np.uint64(0x7F)
            groups[long] |= part << np.uint64(7 * byte)
        # Zigzag: the lowest bit is the sign.
        sign = (groups & np.uint64(1)).view(np.int64)
        groups >>= np.uint64(1)
        numbers = groups.view(np.int64)
        numbers ^= -sign
        return numbers, places + sizes
