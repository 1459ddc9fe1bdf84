"""The chunks of messages that a source fetches."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal, Protocol, TypeAlias

import numpy as np

from penstock.formats.change import Messages

# parts of a record that are fetched only if requested, because they cost time
Extra: TypeAlias = Literal["key", "timestamp", "headers"]


class MessageIds(Protocol):
    """The ids of messages by their number in a chunk."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> str: ...


@dataclass(frozen=True, slots=True)
class FetchedMessages:
    """Messages of one partition in order; `topic` is the file's name if files are read.

    Parts that were not requested are None.
    """

    topic: str
    partition: int
    messages: Messages
    size: int  # bytes of all values
    headers: Sequence[Sequence[tuple[str, bytes | None]] | None] | None = None
    timestamp_types: Sequence[int] | None = None
    ids: MessageIds | None = None  # how the source names the messages, if not by their offsets
    format: str | None = None  # the name of the messages' format, once they are decoded

    def part(self, start: int, stop: int) -> FetchedMessages:
        """Return the messages with numbers in [start, stop)."""
        messages = self.messages.slice(start, stop)
        return replace(
            self,
            messages=messages,
            size=sum(map(len, filter(None, messages.values))),
            headers=None if self.headers is None else self.headers[start:stop],
            timestamp_types=None if self.timestamp_types is None else self.timestamp_types[start:stop],
            ids=None if self.ids is None else _PartOfIds(self.ids, start, stop),
        )


@dataclass(frozen=True, slots=True)
class _PartOfIds:
    """The ids of some messages of a chunk."""

    whole: MessageIds
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, number: int) -> str:
        return self.whole[self.start + number]


class _ChainedIds:
    """The ids of several chunks as one sequence, which asks each chunk only for the ids that are needed."""

    def __init__(self, parts: Sequence[MessageIds]) -> None:
        self._parts, self._ends = parts, list(accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, number: int, /) -> str:
        part = bisect_right(self._ends, number)
        return self._parts[part][number - (self._ends[part - 1] if part else 0)]


def joined(parts: Sequence[FetchedMessages]) -> FetchedMessages:
    """Return consecutive chunks as one; a single chunk is returned unchanged."""
    first = parts[0]
    if len(parts) == 1:
        return first
    messages = [part.messages for part in parts]
    times = [message.timestamps for message in messages if message.timestamps is not None]
    return FetchedMessages(
        first.topic,
        first.partition,
        Messages(
            values=[value for message in messages for value in message.values],
            offsets=np.concatenate([message.offsets for message in messages]),
            keys=None if first.messages.keys is None else [key for message in messages for key in message.keys or ()],
            # The times of messages are one array without nulls, and dead letters of some ranges may have none.
            timestamps=np.concatenate(times) if len(times) == len(parts) else None,
        ),
        sum(part.size for part in parts),
        headers=None if first.headers is None else [header for part in parts for header in part.headers or ()],
        timestamp_types=None
        if first.timestamp_types is None
        else [type_ for part in parts for type_ in part.timestamp_types or ()],
        ids=None if first.ids is None else _ChainedIds([part.ids for part in parts if part.ids is not None]),
    )
