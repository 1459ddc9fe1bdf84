"""The chunks that a source of messages fetches, and a source that decodes them by a message format."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np

from penstock.formats import decode
from penstock.formats.change import DecodeOptions, DecodeResult, Messages
from penstock.ingest.deferred_ranges import DeferringSource
from penstock.ingest.source import Barrier, Limit, Offsets, Range, SmallBatchSource, Source

if TYPE_CHECKING:
    from penstock.formats.debezium.schema_registry import SchemaRegistry

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


# The cost per row falls with the number of rows of the same table in a chunk. If chunks have fewer than FEW rows per
# table, as in topics with many tables, they are joined until they have WIDE_ROWS or WIDE_BYTES.
FEW = 200
WIDE_ROWS = 60_000
WIDE_BYTES = 64 << 20

TOPICS_KEPT = 1000

# The number of rows per table in the latest chunk, by topic.
_rows_together: dict[str, float] = {}


@dataclass(frozen=True, slots=True)
class DecodedChunk:
    """Part of a range. `fetched` is the undecoded chunk, None for sources that yield changes themselves.

    `barriers` are changes of whole tables, which are alone in their batch. `lacks_rows_of` names source tables with
    rows that no range contains: these tables have to be read again after the batch.
    """

    decoded: DecodeResult
    messages: int
    bytes: int
    fetched: FetchedMessages | None = None
    barriers: tuple[Barrier, ...] = ()
    lacks_rows_of: tuple[tuple[str, str], ...] = ()


class RegistryProvider(Protocol):
    """The settings of a schema registry: they are sent to tasks, the client stays in the process that uses it."""

    def client(self) -> SchemaRegistry: ...


class MessageSource(Source, Protocol):
    """A source whose ranges yield undecoded messages."""

    def read(self, range_: Range) -> Iterator[FetchedMessages]: ...


@runtime_checkable
class AheadSource(Protocol):
    """A source that reads several ranges faster if it knows them beforehand."""

    def read_next(self, ranges: Sequence[Range]) -> None:
        """Say which ranges are read next in this process, in this order. Nothing must depend on it."""
        ...


class ChangeSource(Source, Protocol):
    """A source whose ranges are decoded already: the interface from which the job reads."""

    def chunks(self, range_: Range, options: DecodeOptions) -> Iterator[DecodedChunk]: ...

    def at_barrier(self) -> bool:
        """Return whether the last planned batch ends before a change of a whole table, or applies one.

        The next batch then starts at once, regardless of the trigger interval: other tables wait for it, and readers
        may see an empty table.
        """
        ...


@dataclass(frozen=True, slots=True)
class DecodedSource:
    """A `ChangeSource` of messages in one format."""

    source: MessageSource
    format: str
    registry: RegistryProvider | None = None

    def initial_offsets(self) -> Offsets:
        return self.source.initial_offsets()

    def available(self) -> Offsets:
        return self.source.available()

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        return self.source.latest_offsets(start, limit, until)

    def plan(self, start: Offsets, end: Offsets, tasks: int) -> list[Range]:
        return self.source.plan(start, end, tasks)

    def small_weight(self) -> int:
        return self.source.small_weight() if isinstance(self.source, SmallBatchSource) else 0

    @property
    def deferring(self) -> DeferringSource | None:
        return self.source if isinstance(self.source, DeferringSource) else None

    def read_next(self, ranges: Sequence[Range]) -> None:
        if isinstance(self.source, AheadSource):
            self.source.read_next(ranges)

    def fetched(self, range_: Range) -> Iterator[FetchedMessages]:
        """Yield the messages of a range."""
        return self.source.read(range_)

    def chunks(self, range_: Range, options: DecodeOptions) -> Iterator[DecodedChunk]:
        return self.decoded(self.source.read(range_), options)

    def decoded(self, fetches: Iterable[FetchedMessages], options: DecodeOptions) -> Iterator[DecodedChunk]:
        """Yield the messages of a range as decoded chunks."""
        # The client has connections and a cache of schemas, which cannot be pickled: it is created in the process
        # that decodes.
        if self.registry is not None:
            options = replace(options, registry=self.registry.client())
        for fetched in widened(fetches):
            decoded = decode(self.format, fetched.messages, options)
            # A batch of the result belongs to one table and one layout, so this is the mean number of rows that are
            # decoded together.
            _remember(fetched.topic, len(fetched.messages) / max(1, len(decoded.batches)))
            yield DecodedChunk(decoded, len(fetched.messages), fetched.size, replace(fetched, format=self.format))

    def at_barrier(self) -> bool:
        return False  # messages are changes of rows

    def lag(self, offsets: Offsets) -> dict[str, int]:
        return self.source.lag(offsets)

    def mirror(self, offsets: Offsets) -> None:
        self.source.mirror(offsets)

    def close(self) -> None:
        self.source.close()


def _remember(topic: str, together: float) -> None:
    # File sources count each file as a topic, so the number is unbounded.
    if len(_rows_together) >= TOPICS_KEPT:
        _rows_together.clear()
    _rows_together[topic] = together


def widened(fetches: Iterable[FetchedMessages]) -> Iterator[FetchedMessages]:
    """Yield the chunks of a range unchanged, or several joined if their topic has few rows per table in a chunk."""
    waiting: list[FetchedMessages] = []
    for fetched in fetches:
        waiting.append(fetched)
        rows, size = sum(len(chunk.messages) for chunk in waiting), sum(chunk.size for chunk in waiting)
        if _rows_together.get(fetched.topic, FEW) >= FEW or rows >= WIDE_ROWS or size >= WIDE_BYTES:
            yield joined(waiting)
            waiting = []
    if waiting:
        yield joined(waiting)
