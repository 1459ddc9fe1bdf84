"""The places of the server's packets in a buffer that fills up; payloads that span several packets are joined.

A packet has the length of its payload in three bytes, a number that counts packets in one byte, and the payload.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

from penstock.byte_buffers import at_every_byte
from penstock.ingest.database.frame_chains import chained

if TYPE_CHECKING:
    from penstock.byte_buffers import Bytes, Int64s

HEADER = 4
# A payload of this length continues in the next packet.
FULL_PACKET = 0xFFFFFF
_length_at = Struct("<HB").unpack_from
# Fewer bytes are not worth a search in all of them, and longer payloads are found by their lengths.
_SEARCHED, _LONG_TEXT = 1 << 14, 1 << 13
_PART = 1 << 18


class PacketHeads:
    """The packets that were found from the beginning of a buffer up to `at`, where the next one begins."""

    def __init__(self, *, of_texts: bool) -> None:
        self._of_texts = of_texts
        self.at = self.count = 0
        self._pieces: list[Int64s] = []
        self._joined_ends: dict[int, int] = {}

    def start_over(self, raw: memoryview, filled: int) -> None:
        """Forget the packets, and find those in another buffer."""
        self.at = self.count = 0
        self._pieces, self._joined_ends = [], {}
        self.go_on(raw, filled)

    def go_on(self, raw: memoryview, filled: int) -> None:
        """Find the packets that have become complete, now that the buffer is filled up to here."""
        if self._of_texts and filled - self.at >= _SEARCHED:
            heads, self.at = text_heads(np.frombuffer(raw, np.uint8), self.at, filled)
            # Where the search finds no packet, numbers without digits or long texts are sent.
            self._of_texts = len(heads) > 0
            self._add(heads)
        found: list[int] = []
        self.at = _followed(raw, self.at, filled, found, self._joined_ends, self.count)
        self._add(np.array(found, np.int64))

    def _add(self, heads: Int64s) -> None:
        if len(heads):
            self._pieces.append(heads)
            self.count += len(heads)

    def bounds(self) -> tuple[Int64s, Int64s]:
        """Return where the payloads start and end."""
        heads = np.concatenate([np.zeros(0, np.int64), *self._pieces])
        ends = np.append(heads[1:], self.at) if len(heads) else heads
        for place, end in self._joined_ends.items():
            ends[place] = end
        return heads + HEADER, ends

    @property
    def bounds_of_first(self) -> tuple[int, int]:
        """The start and the end of the first payload."""
        heads = np.concatenate([heads[:2] for heads in self._pieces[:2]])
        end = int(heads[1]) if len(heads) > 1 else self.at
        return int(heads[0]) + HEADER, self._joined_ends.get(0, end)

    @property
    def bounds_of_last(self) -> tuple[int, int]:
        """The start and the end of the last payload."""
        return int(self._pieces[-1][-1]) + HEADER, self._joined_ends.get(self.count - 1, self.at)


def text_heads(data: Bytes, at: int, filled: int) -> tuple[Int64s, int]:
    """Return where packets of texts begin, from the one at `at` on, and where the first one begins that is left out.

    That one is long or incomplete, or it is the last one. No packet is found where zeros are frequent in payloads.
    """
    places = _candidates(data, at, filled)
    headers = at_every_byte(data, "<u4")[places]
    ends = places + HEADER + (headers & 0xFFFF)
    # The next packet has the next number, which few bytes in a text have by chance.
    is_followed = data[np.minimum(ends, filled - HEADER) + 3] - (headers >> 24).astype(np.uint8) == 1
    is_followed &= ends <= filled - HEADER
    places, ends = places[is_followed], ends[is_followed]
    frames = chained(places, ends) if len(places) and places[0] == at else None
    if frames is None:
        return np.zeros(0, np.int64), at
    return frames[0], int(frames[1][-1])


def _candidates(data: Bytes, at: int, filled: int) -> Int64s:
    """Return where a length of less than 8 KiB may be.

    Its third byte is zero and its second one small, as bytes of texts are not. The bytes are looked at in parts that
    fit into the cache.
    """
    found = []
    for begin in range(at, filled - HEADER + 1, _PART):
        end = min(begin + _PART, filled - HEADER + 1)
        candidate = data[begin + 2 : end + 2] == 0
        candidate &= data[begin + 1 : end + 1] < _LONG_TEXT >> 8
        found.append(np.flatnonzero(candidate) + begin)
    return np.concatenate([np.zeros(0, np.int64), *found])


def _followed(raw: memoryview, at: int, filled: int, found: list[int], joined_ends: dict[int, int], before: int) -> int:
    """Note where packets begin, from the one at `at` on, by their lengths; return where the next one begins.

    `before` counts the packets before these.
    """
    note, last = found.append, filled - HEADER
    while at <= last:
        length, high = _length_at(raw, at)
        if high:
            length |= high << 16
            if length == FULL_PACKET:
                joined = _joined(raw, at, filled)
                if joined is None:
                    return at
                joined_ends[before + len(found)] = joined[0]
                note(at)
                at = joined[1]
                continue
        note(at)
        at += HEADER + length
    # The last one may be incomplete.
    return found.pop() if at > filled else at


def _joined(raw: memoryview, at: int, filled: int) -> tuple[int, int] | None:
    """Join a payload that spans several packets in place; return its end and the start of the next packet.

    None if the last of its packets is incomplete.
    """
    pieces, place = [], at
    while place + HEADER <= filled:
        length = raw[place] | raw[place + 1] << 8 | raw[place + 2] << 16
        if place + HEADER + length > filled:
            return None
        pieces.append((place + HEADER, length))
        place += HEADER + length
        if length < FULL_PACKET:
            end = at + HEADER
            for start, size in pieces:
                # Slices of equal length, so the buffer keeps its size. The pieces move to the front, over the
                # headers between them.
                raw[end : end + size] = raw[start : start + size]
                end += size
            return end, place
    return None
