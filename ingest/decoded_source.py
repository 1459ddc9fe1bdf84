"""A source that decodes the messages of another source by a message format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from penstock.formats import decode, format_named
from penstock.formats.change import DecodeOptions, DecodeResult
from penstock.formats.joined_batches import joined_batches
from penstock.ingest.deferred_ranges import DeferringSource
from penstock.ingest.fetched_messages import FetchedMessages, joined
from penstock.ingest.paired_messages import LookingBack, whole_pairs
from penstock.ingest.source import Barrier, ConfirmingSource, Limit, Offsets, Range, SmallBatchSource, Source

if TYPE_CHECKING:
    from penstock.formats.debezium.schema_registry import SchemaRegistry

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
        # Between two ranges, messages of pairs are looked up, which ends a fetch of several ranges.
        if isinstance(self.source, AheadSource) and format_named(self.format).leads is None:
            self.source.read_next(ranges)

    def fetched(self, range_: Range) -> Iterator[FetchedMessages]:
        """Yield the messages of a range, those of a pair together."""
        fetches, form = self.source.read(range_), format_named(self.format)
        leads = form.leads
        if leads is None:
            return fetches
        if not isinstance(self.source, LookingBack):
            return whole_pairs(fetches, leads, lambda: None, lambda _: False)
        source = self.source
        return whole_pairs(
            fetches,
            leads,
            lambda: source.last_before(range_),
            lambda last: source.is_shown_next(range_, last),
            form.follows or (lambda _: False),
        )

    def chunks(self, range_: Range, options: DecodeOptions) -> Iterator[DecodedChunk]:
        return self.decoded(self.fetched(range_), options)

    def decoded(self, fetches: Iterable[FetchedMessages], options: DecodeOptions) -> Iterator[DecodedChunk]:
        """Yield the messages of a range as decoded chunks."""
        # The client has connections and a cache of schemas, which cannot be pickled: it is created in the process
        # that decodes.
        if self.registry is not None:
            options = replace(options, registry=self.registry.client())
        for fetched in widened(fetches):
            decoded = decode(self.format, fetched.messages, options)
            decoded.batches = joined_batches(decoded.batches)
            # A batch of the result belongs to one table, so this is the mean number of rows of a table.
            _remember(fetched.topic, len(fetched.messages) / max(1, len(decoded.batches)))
            yield DecodedChunk(decoded, len(fetched.messages), fetched.size, replace(fetched, format=self.format))

    def confirm(self, ranges: Sequence[Range], end: Offsets) -> None:
        if isinstance(self.source, ConfirmingSource):
            self.source.confirm(ranges, end)

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
