"""A chunk of undecoded messages with what is known about where they came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.formats.change import Messages

Extra: TypeAlias = Literal["key", "timestamp", "headers"]  # parts of a record that not everybody pays for


@dataclass(frozen=True, slots=True)
class Fetched:
    """Messages of one place in order; `topic` is the file's name where files are read.

    What was not asked for is None.
    """

    topic: str
    partition: int
    messages: Messages
    size: int  # bytes of all values
    headers: Sequence[Sequence[tuple[str, bytes | None]] | None] | None = None
    timestamp_types: Sequence[int] | None = None
