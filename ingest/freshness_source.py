"""A source whose batches defer records for tables with a freshness, with and without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from penstock.formats.change import DecodeOptions
from penstock.ingest.decoded_source import AheadSource, ChangeSource, DecodedChunk, DecodedSource
from penstock.ingest.deferred_ranges import DeferredRanges, DeferringSource, deferring_source, next_end
from penstock.ingest.freshness import FreshnessRules
from penstock.ingest.source import ConfirmingSource, Limit, Offsets, Range, SmallBatchSource


@dataclass(frozen=True, slots=True)
class FreshnessSource:
    """A `ChangeSource` over one that can defer ranges. `clock` returns milliseconds since 1970."""

    source: ChangeSource
    rules: FreshnessRules
    clock: Callable[[], int]

    def initial_offsets(self) -> Offsets:
        return self.source.initial_offsets()

    def available(self) -> Offsets:
        return self.source.available()

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        # Removed rules apply until all tables have the deferred records.
        if not self.rules and not DeferredRanges.of(start).rules:
            return self.source.latest_offsets(start, limit, until)
        return next_end(self.deferring, self.rules, start, limit, until, self.clock)

    @property
    def deferring(self) -> DeferringSource:
        return deferring_source(self.source)

    def plan(self, start: Offsets, end: Offsets, tasks: int) -> list[Range]:
        return self.source.plan(start, end, tasks)

    def small_weight(self) -> int:
        return self.source.small_weight() if isinstance(self.source, SmallBatchSource) else 0

    def read_next(self, ranges: Sequence[Range]) -> None:
        if isinstance(self.source, AheadSource):
            self.source.read_next(ranges)

    def chunks(self, range_: Range, options: DecodeOptions) -> Iterator[DecodedChunk]:
        return self.source.chunks(range_, options)

    def confirm(self, ranges: Sequence[Range], end: Offsets) -> None:
        if isinstance(self.source, ConfirmingSource):
            self.source.confirm(ranges, end)

    def at_barrier(self) -> bool:
        return self.source.at_barrier()

    def lag(self, offsets: Offsets) -> dict[str, int]:
        return self.source.lag(offsets)

    def mirror(self, offsets: Offsets) -> None:
        self.source.mirror(offsets)

    def close(self) -> None:
        self.source.close()


def source_of_messages(source: ChangeSource) -> DecodedSource | None:
    """Return the source of messages that this source reads, None if it reads no messages."""
    inner = source.source if isinstance(source, FreshnessSource) else source
    return inner if isinstance(inner, DecodedSource) else None
