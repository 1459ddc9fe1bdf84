"""The frames of canal-json messages that a process has met, as arrays for comparing many messages at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.formats.canal.message_frame import DeclaredTable, MessageFrame
from penstock.formats.change import Int64s
from penstock.formats.json_bytes import Mask

# More frames, or more ways to look them up, are forgotten all at once.
MOST_FRAMES, MOST_EDGES = 4096, 8
# How many frames are tried of those found by the same bytes: first the one that most messages of the last block had,
# or a new one. Such frames differ in digits, for example.
MOST_ALIKE = 6


@dataclass(frozen=True)
class FrameArrays:
    """The frames by their number: lengths of gaps, operations, and places of documents."""

    frames: Sequence[MessageFrame]

    @cached_property
    def begin(self) -> Int64s:
        """Return the length of the gap at the begin of messages."""
        return self._lengths(0)

    @cached_property
    def between(self) -> Int64s:
        """Return the length of the gap between two documents, 0 if there is only one."""
        return np.array([frame.gaps[1].size if len(frame.gaps) > 2 else 0 for frame in self.frames], np.int64)

    @cached_property
    def end(self) -> Int64s:
        """Return the length of the gap at the end of messages."""
        return self._lengths(-1)

    @cached_property
    def has_old(self) -> Mask:
        """Return which frames have the document `old`."""
        return np.array([len(frame.gaps) > 2 for frame in self.frames], np.bool_)

    @cached_property
    def data_place(self) -> Int64s:
        """Return the number of `data` among the parts of a message: gap, document, gap, document, gap."""
        return np.array([1 if frame.data_first else 3 for frame in self.frames], np.int64)

    @cached_property
    def operation(self) -> np.ndarray:
        """Return the row kind of each frame."""
        return np.array([frame.operation for frame in self.frames], np.int8)

    def _lengths(self, gap: int) -> Int64s:
        return np.array([frame.gaps[gap].size for frame in self.frames], np.int64)


class KnownFrames:
    """The frames that this process has met, up to a limit. Blocks of messages without frames are soon skipped."""

    def __init__(self) -> None:
        self._forget()
        self._pause, self._next_pause = 0, 1
        self.kinds = 0  # how many kinds of messages the last block had that were looked up by the same bytes

    def _forget(self) -> None:
        self.frames: list[MessageFrame] = []
        self.tables: list[int] = []  # the number of each frame's table
        self.edges: list[bytes] = []
        self._table_numbers: dict[DeclaredTable, int] = {}
        self._found: dict[tuple[bytes, int], list[int]] = {}
        self._arrays: FrameArrays | None = None

    @property
    def arrays(self) -> FrameArrays:
        """Return the frames as arrays."""
        if self._arrays is None:
            self._arrays = FrameArrays(list(self.frames))
        return self._arrays

    def of(self, edges: bytes, signature: int) -> Sequence[int]:
        """Return the numbers of the frames that have this signature, the most likely one first."""
        return self._found.get((edges, signature), ())

    def add(self, frame: MessageFrame, signature: int) -> int:
        """Remember a frame by the signature of its messages, and return its number."""
        number = len(self.frames)
        self.frames.append(frame)
        self.tables.append(self._table_numbers.setdefault(frame.table, len(self._table_numbers)))
        self._arrays = None
        edges = frame.edges
        if edges not in self.edges:
            self.edges.append(edges)
        alike = self._found.setdefault((edges, signature), [])
        alike.insert(0, number)
        del alike[MOST_ALIKE:]
        return number

    def prefer(self, edges: bytes, signature: int, counts: Mapping[int, int]) -> None:
        """Let the frames that most messages have come first, by how many messages of a block have each frame."""
        self._found.get((edges, signature), []).sort(key=lambda number: -counts.get(number, 0))

    def make_room(self) -> None:
        """Forget all frames if there are too many. The numbers of frames change."""
        if len(self.frames) > MOST_FRAMES or len(self.edges) > MOST_EDGES:
            self._forget()

    def is_tried(self) -> bool:
        """Return whether the next messages are to be compared with frames."""
        if self._pause:
            self._pause -= 1
            return False
        return True

    def note(self, share: float) -> None:
        """Note which share of some messages had frames. If it was small, the next ones are not compared."""
        if share >= 0.5:
            self._next_pause = 1
        else:
            self._pause, self._next_pause = self._next_pause, min(2 * self._next_pause, 64)
