"""Comparison of the gaps of many messages with those of one frame, in pieces that stay in the CPU cache."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.formats.canal.message_frame import MessageFrame
from penstock.formats.change import Int64s
from penstock.formats.json_bytes import Bytes, Mask

# The bytes that are copied for one comparison.
_SLICE_BYTES = 48 << 10
_ZERO = ord("0")


def gaps_in(data: Bytes, frame: MessageFrame, bounds: Int64s) -> tuple[Mask, Int64s]:
    """Return which messages have the gaps of a frame, by the bounds of their parts, and their event times or -1."""
    same, times = np.ones(len(bounds), np.bool_), np.full(len(bounds), -1, np.int64)
    for part, offset, text in frame.texts:
        if (wrong := _differing(data, bounds[:, part] + offset, text)) is not None:
            same &= ~wrong
    for part, offset, count in frame.numbers:
        digits = _windows(data, count)[bounds[:, part] + offset].view(np.uint8).reshape(-1, count) - _ZERO
        # Bytes below "0" become numbers above 9, since the numbers have no sign.
        if digits.max(initial=0) > 9 or (count > 1 and not digits[:, 0].all()):
            same &= (digits <= 9).all(axis=1) & ((count == 1) | (digits[:, 0] > 0))
        if (part, offset) == frame.time:
            times = digits @ 10 ** np.arange(count - 1, -1, -1)
    return same, times


def _differing(data: Bytes, places: Int64s, text: bytes) -> Mask | None:
    """Return at which places the bytes are not these, None if they are everywhere."""
    wrong: Mask | None = None
    windows, expected = _windows(data, len(text)), np.frombuffer(text, np.uint8)
    for begin, end in _slices(len(places), len(text)):
        found = windows[places[begin:end]]
        if found.tobytes() != text * (end - begin):
            wrong = np.zeros(len(places), np.bool_) if wrong is None else wrong
            wrong[begin:end] = (found.view(np.uint8).reshape(end - begin, len(text)) != expected).any(axis=1)
    return wrong


def _windows(data: Bytes, size: int) -> np.ndarray:
    """Return overlapping windows of bytes as single elements, one per byte: only the chosen ones are copied."""
    return np.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))


def _slices(count: int, size: int) -> Iterator[tuple[int, int]]:
    step = max(1, _SLICE_BYTES // size)
    for begin in range(0, count, step):
        yield begin, min(begin + step, count)
