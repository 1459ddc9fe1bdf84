"""A chunk of undecoded messages with their origin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from penstock.formats.change import Messages

# parts of a record that are fetched only if requested, because they cost time
Extra: TypeAlias = Literal["key", "timestamp", "headers"]


@dataclass(frozen=True, slots=True)
class Fetched:
    """Messages of one partition in order; `topic` is the file's name if files are read.

    Parts that were not requested are None.
    """

    topic: str
    partition: int
    messages: Messages
    size: int  # bytes of all values
    headers: Sequence[Sequence[tuple[str, bytes | None]] | None] | None = None
    timestamp_types: Sequence[int] | None = None
    format: str | None = None  # the name of the messages' format, once they are decoded


def joined(parts: Sequence[Fetched]) -> Fetched:
    """Return consecutive chunks as one; a single chunk is returned unchanged."""
    first = parts[0]
    if len(parts) == 1:
        return first
    messages = [part.messages for part in parts]
    times = [one.timestamps for one in messages if one.timestamps is not None]
    return Fetched(
        first.topic,
        first.partition,
        Messages(
            values=[value for one in messages for value in one.values],
            offsets=np.concatenate([one.offsets for one in messages]),
            keys=None if first.messages.keys is None else [key for one in messages for key in one.keys or ()],
            timestamps=np.concatenate(times) if times else None,
        ),
        sum(part.size for part in parts),
        headers=None if first.headers is None else [one for part in parts for one in part.headers or ()],
        timestamp_types=None
        if first.timestamp_types is None
        else [one for part in parts for one in part.timestamp_types or ()],
    )
