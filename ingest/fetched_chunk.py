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
    format: str | None = None  # the name of the messages' format, once they are decoded


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
            timestamps=np.concatenate(times) if times else None,
        ),
        sum(part.size for part in parts),
        headers=None if first.headers is None else [header for part in parts for header in part.headers or ()],
        timestamp_types=None
        if first.timestamp_types is None
        else [one for part in parts for one in part.timestamp_types or ()],
    )
