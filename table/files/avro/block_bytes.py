"""The bytes of Avro blocks, and the numbers and texts at known places of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from penstock.byte_buffers import zigzag_numbers
from penstock.table.files.avro.sizes import Bytes, Kind, value_sizes

Places = npt.NDArray[np.int64]
# Zeros behind the bytes, so that reads of a fixed width do not run out of bounds.
_PADDING = 32


class BlockBytes:
    """The bytes of blocks, and the sizes of the values that begin at each of them, for the given kinds.

    Zeros follow the blocks, at least `padding` of them, which read as empty values.
    """

    def __init__(self, blocks: Sequence[bytes], kinds: Collection[Kind], padding: int) -> None:
        self.end = sum(map(len, blocks))
        self.data: Bytes = np.frombuffer(b"".join([*blocks, bytes(_PADDING + padding)]), np.uint8)
        self.sizes = value_sizes(self.data, kinds)

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
        found, ends, endless = zigzag_numbers(self.data, places)
        if len(endless):
            raise ValueError("a number does not end")
        return found, ends
