"""Messages of a server as they were received: one buffer, and where each message begins and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.ingest.database.buffers import SPARE, with_spare_bytes

if TYPE_CHECKING:
    from penstock.byte_buffers import Bools, Bytes, Int64s


@dataclass(frozen=True, slots=True)
class Received:
    """Consecutive messages. The buffer ends with spare bytes; other bytes may be between the messages."""

    data: Bytes
    start: Int64s
    end: Int64s

    @classmethod
    def of(cls, messages: Sequence[bytes]) -> Received:
        lengths = np.fromiter(map(len, messages), np.int64, len(messages))
        end = np.cumsum(lengths)
        return cls(with_spare_bytes(b"".join(messages)), end - lengths, end)

    @classmethod
    def joined(cls, parts: Sequence[Received]) -> Received:
        """Return the messages of all parts in one buffer."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.of(())
        if all(part.data is parts[0].data for part in parts):
            starts, ends = [part.start for part in parts], [part.end for part in parts]
            return cls(parts[0].data, np.concatenate(starts), np.concatenate(ends))
        # Only the bytes from the first to the last message of each part are copied.
        firsts = [int(part.start[0]) if len(part) else 0 for part in parts]
        used = [
            part.data[first : int(part.end[-1]) if len(part) else 0] for part, first in zip(parts, firsts, strict=True)
        ]
        places = np.cumsum([0, *map(len, used)])
        moves = [place - first for place, first in zip(places[:-1].tolist(), firsts, strict=True)]
        return cls(
            np.concatenate([*used, np.zeros(SPARE, np.uint8)]),
            np.concatenate([part.start + move for part, move in zip(parts, moves, strict=True)]),
            np.concatenate([part.end + move for part, move in zip(parts, moves, strict=True)]),
        )

    def __len__(self) -> int:
        return len(self.start)

    @property
    def size(self) -> int:
        """The bytes of all messages."""
        return int((self.end - self.start).sum())

    def body(self, number: int) -> bytes:
        return self.data[self.start[number] : self.end[number]].tobytes()

    def chosen(self, keep: Bools) -> Received:
        return Received(self.data, self.start[keep], self.end[keep])
