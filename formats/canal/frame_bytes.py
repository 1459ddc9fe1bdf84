"""Comparison of the gaps of many messages with those of one frame, in pieces that stay in the CPU cache."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.formats.canal.message_frame import GapBytes, MessageFrame
from penstock.formats.change import Int64s
from penstock.formats.json_bytes import Bytes, Mask

# The bytes that are copied for one comparison.
_SLICE_BYTES = 128 << 10


def gaps_in(data: Bytes, frame: MessageFrame, bounds: Int64s) -> tuple[Mask, Int64s]:
    """Return which messages have the gaps of a frame, by the bounds of their parts, and their event times or -1."""
    same, times = np.ones(len(bounds), np.bool_), np.full(len(bounds), -1, np.int64)
    for gap in frame.gap_bytes:
        size = gap.text.size
        # Overlapping windows of bytes as single elements, one per byte: only the chosen ones are copied.
        windows = np.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))
        for begin, end in _slices(len(bounds), size):
            found = windows[bounds[begin:end, gap.part]]
            _compare(found.view(np.uint8).reshape(end - begin, size), gap, same[begin:end], times[begin:end])
    return same, times


def _compare(found: Bytes, gap: GapBytes, same: Mask, times: Int64s) -> None:
    """Clear `same` where the bytes of messages are not those of a gap, and set their event times if it has them."""
    # Of equal bytes 0 is left, and of a digit its value: no other byte and "0" differ by a number below 10.
    found ^= gap.text
    wrong = found > gap.most
    if wrong.any():
        same &= ~wrong.any(axis=1)
    first = found[:, gap.leading]
    if not first.all():
        same &= first.all(axis=1)
    if gap.time is not None:
        begin, end = gap.time
        times[:] = found[:, begin:end] @ 10 ** np.arange(end - begin - 1, -1, -1)


def _slices(count: int, size: int) -> Iterator[tuple[int, int]]:
    step = max(1, _SLICE_BYTES // size)
    for begin in range(0, count, step):
        yield begin, min(begin + step, count)
