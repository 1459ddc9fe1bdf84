"""Compares many canal-json messages with known frames, and finds the parts of messages that have one.

All messages of a block are joined to one text, and compared with their frames at once, also if they are of several
tables. An unknown frame is made from the first message that needs it, and only this message is parsed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.canal.frame_bytes import gaps_in
from penstock.formats.canal.known_frames import MOST_ALIKE, KnownFrames
from penstock.formats.canal.message_frame import EDGE, MessageFrame, frame_of
from penstock.formats.change import Int64s
from penstock.formats.json_bytes import Bytes, Mask

# The first messages of a block without a known frame, from which the ways to look frames up are learned.
_ATTEMPTS = 3
# Of a block, or one for so many messages of a larger one, since parsing messages for frames that nothing else has would
# cost more than it saves.
MOST_LEARNED, LEARNED_OF = 200, 40
# Of the messages that are looked up alike, fewer with one frame do not make another one likely.
_FEW_ALIKE = 4
_WORD = 8
_ARRAY = ord("[")
# The parts of a message (gap, document, gap, document, gap), and the bytes between it and the next message.
_PARTS = 6
# Odd random numbers, by which the words at the edges of a message are weighted in its signature.
_WEIGHTS = np.random.default_rng(7).integers(1 << 62, 1 << 63, 2 * EDGE // _WORD, dtype=np.uint64) | np.uint64(1)
_SHIFT = np.uint64(29)
# The places, frames, bounds of parts and event times of some messages.
Found: TypeAlias = tuple[Int64s, Int64s, Int64s, Int64s]


@dataclass(frozen=True, slots=True)
class FramedMessages:
    """Messages of a block that have frames: their places in it in order, frames, event times, and parts.

    `edges` are where their parts begin and where the last one ends. The documents in `parts` are not known to be JSON.
    """

    places: Int64s
    frames: Int64s
    times: Int64s
    parts: pa.Array

    def documents(self, places: Int64s, parts: Int64s) -> pa.Array:
        """Return one part of each of some messages."""
        return pc.take(self.parts, pa.array(_PARTS * places + parts), boundscheck=False)


class FramedBlock:
    """Some messages as one text, and their sizes."""

    def __init__(self, values: Sequence[bytes], sizes: Int64s) -> None:
        self.values, self.sizes, self.text = values, sizes, b"".join(values)
        self._learnable = max(MOST_LEARNED, len(values) // LEARNED_OF)
        self.ends = np.cumsum(self.sizes)
        self.begins = self.ends - self.sizes
        self.data: Bytes = np.frombuffer(self.text, np.uint8)

    def framed(self, known: KnownFrames, fewest: int) -> FramedMessages:
        """Return the messages that have frames; new frames become known.

        A frame has a fixed cost, so nothing is compared if a frame has fewer messages than `fewest` on average.
        """
        known.make_room()
        known.kinds = 0
        left = np.flatnonzero(self.sizes >= 2 * EDGE)
        found: list[Found] = []
        number, attempts = 0, _ATTEMPTS
        while len(left):
            if number < len(known.edges):
                left = self._matched(known, known.edges[number], left, fewest, found)
                number += 1
                continue
            if not attempts:
                break
            attempts -= 1
            frame = frame_of(self.values[int(left[0])])
            if frame is None or frame.edges in known.edges:
                left = left[1:]
            else:
                known.add(frame, int(self._signatures(frame.edges, left[:1])[0]))
        return self._together(found)

    def _matched(self, known: KnownFrames, edges: bytes, left: Int64s, fewest: int, found: list[Found]) -> Int64s:
        """Add the messages with frames that are looked up by these edges to `found`, and return the others."""
        kinds, kind_of = np.unique(self._signatures(edges, left), return_inverse=True)
        # Messages that are like no others have no frame, and need no larger blocks.
        known.kinds = max(known.kinds, int(np.count_nonzero(np.bincount(kind_of) >= _FEW_ALIKE)))
        if len(kinds) * fewest > len(left):
            return left
        signatures = kinds.tolist()
        waiting = [list(known.of(edges, signature)) for signature in signatures]
        hopeless: set[int] = set()
        counts: Counter[int] = Counter()
        for _ in range(MOST_ALIKE + 1):
            frames = np.full(len(signatures), -1)
            learned: list[int] = []
            for kind in np.unique(kind_of).tolist():
                if waiting[kind]:
                    frames[kind] = waiting[kind].pop(0)
                elif kind not in hopeless and self._learnable:
                    self._learnable -= 1
                    learned.append(kind)
                    # When numbers grow, the ones in the middle have as many digits as most of them.
                    alike = left[kind_of == kind]
                    typical = self.values[int(alike[len(alike) // 2])]
                    frames[kind] = _learned(known, edges, signatures[kind], typical)
            chosen = frames[kind_of]
            candidates = np.flatnonzero(chosen >= 0)
            if not len(candidates):
                break
            same, bounds, times = self._compared(known, left[candidates], chosen[candidates])
            found.append((left[candidates[same]], chosen[candidates[same]], bounds[same], times[same]))
            counts.update({frame: count for frame, count in enumerate(np.bincount(found[-1][1]).tolist()) if count})
            rest: Mask = np.ones(len(left), np.bool_)
            rest[candidates[same]] = False
            # If a frame fits few of the messages that it was just learned from, more frames of them would fit few, too.
            # A frame from earlier messages proves nothing: its numbers may have fewer digits, or its declaration may
            # have changed.
            taken = np.bincount(kind_of[candidates[same]], minlength=len(kinds))
            hopeless.update(kind for kind in learned if taken[kind] < _FEW_ALIKE)
            left, kind_of = left[rest], kind_of[rest]
        for signature in signatures:
            known.prefer(edges, signature, counts)
        return left

    def _signatures(self, edges: bytes, places: Int64s) -> np.ndarray:
        """Return a number for each message that depends on the bytes at its edges."""
        masks = np.frombuffer(edges, "<u8")
        words = np.ndarray((len(self.text) - _WORD + 1,), "<u8", self.data, 0, (1,))
        sums = np.zeros(len(places), np.uint64)
        for number, (mask, weight) in enumerate(zip(masks, _WEIGHTS, strict=True)):
            if mask:
                offset = _WORD * number
                at = self.begins[places] + offset if offset < EDGE else self.ends[places] + (offset - 2 * EDGE)
                product = (words[at] & mask) * weight
                product ^= product >> _SHIFT
                sums += product
        return sums

    def _compared(self, known: KnownFrames, places: Int64s, frames: Int64s) -> tuple[Mask, Int64s, Int64s]:
        """Return which messages have these frames, where their parts begin and end, and their event times."""
        arrays = known.arrays
        bounds = np.empty((len(places), _PARTS), np.int64)
        bounds[:, 0], bounds[:, 5] = self.begins[places], self.ends[places]
        bounds[:, 1] = bounds[:, 0] + arrays.begin[frames]
        bounds[:, 4] = bounds[:, 5] - arrays.end[frames]
        # Without a second document, the parts in front of the last gap are empty.
        bounds[:, 2] = bounds[:, 4]
        two = np.flatnonzero(arrays.has_old[frames])
        middles = self._middles(known.frames, places[two], frames[two])
        bounds[two, 2] = np.where(middles < 0, 0, self.begins[places[two]] + middles)
        bounds[:, 3] = bounds[:, 2] + arrays.between[frames]
        same: Mask = (bounds[:, 1] < bounds[:, 2]) & (bounds[:, 3] <= bounds[:, 4])
        # An update whose `old` is null has no frame: it is a bad record.
        old = np.minimum(bounds[two, 4 - arrays.data_place[frames[two]]], len(self.data) - 1)
        same[two] &= self.data[old] == _ARRAY
        likely, times = np.flatnonzero(same), np.empty(len(same), np.int64)
        same[likely], times[likely] = self._have_gaps(known.frames, bounds[likely], frames[likely])
        return same, bounds, times

    def _middles(self, frames: Sequence[MessageFrame], places: Int64s, numbers: Int64s) -> Int64s:
        """Return where the gap between two documents begins in each message, below 0 if it is not there."""
        middles = np.empty(len(places), np.int64)
        for number in np.unique(numbers).tolist():
            of_frame = np.flatnonzero(numbers == number)
            middles[of_frame] = frames[number].middles([self.values[place] for place in places[of_frame].tolist()])
        return middles

    def _have_gaps(self, frames: Sequence[MessageFrame], bounds: Int64s, numbers: Int64s) -> tuple[Mask, Int64s]:
        """Return which messages have the gaps of their frames, by the bounds of their parts, and their event times."""
        same, times = np.empty(len(bounds), np.bool_), np.empty(len(bounds), np.int64)
        for number in np.unique(numbers).tolist():
            of_frame = np.flatnonzero(numbers == number)
            same[of_frame], times[of_frame] = gaps_in(self.data, frames[number], bounds[of_frame])
        return same, times

    def _parts(self, bounds: Int64s) -> pa.Array:
        """Return the six parts of each message, in the order of the text. The sixth ends where the next one begins."""
        offsets = np.empty(bounds.size + 1, np.int32)
        offsets[:-1], offsets[-1] = bounds.reshape(-1), len(self.text)
        return pa.Array.from_buffers(pa.binary(), bounds.size, [None, pa.py_buffer(offsets), pa.py_buffer(self.text)])

    def _together(self, found: Sequence[Found]) -> FramedMessages:
        if not found:
            nothing = np.zeros(0, np.int64)
            return FramedMessages(nothing, nothing, nothing, pa.array([], pa.binary()))
        places, frames, bounds, times = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = np.argsort(places)
        return FramedMessages(places[order], frames[order], times[order], self._parts(bounds[order]))


def _learned(known: KnownFrames, edges: bytes, signature: int, message: bytes) -> int:
    """Return the number of the message's frame, which becomes known; -1 if it is not looked up by these edges."""
    frame = frame_of(message)
    return known.add(frame, signature) if frame is not None and frame.edges == edges else -1
