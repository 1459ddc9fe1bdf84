"""Small ranges of messages that are read together, as one chunk.

The rows of a table are decoded, fitted and packed at once, which has a fixed cost. In a topic with many tables, or in
many topics with one table each, a range has few rows of a table. Ranges that follow each other are then joined.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from penstock.errors import PenstockError
from penstock.formats import decode
from penstock.formats.change import DecodeOptions, Int64s
from penstock.formats.joined_batches import joined_batches
from penstock.ingest.decoded_source import WIDE_BYTES, DecodedChunk, DecodedSource
from penstock.ingest.fetched_messages import FetchedMessages, joined
from penstock.ingest.source import Range

# Ranges with more rows per table gain little.
FEW_ROWS = 1_000
# The messages of joined ranges are in memory together. The limits apply to the size that the previous batch predicts;
# the messages that are then fetched may exceed it up to twice. A process that reads a batch alone has the memory of
# several tasks.
MOST_ROWS = 120_000
MOST_BYTES = WIDE_BYTES
MOST_BYTES_ALONE = 2 * MOST_BYTES
PLACES_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class RangeShape:
    """The messages and bytes of a range per unit of its weight, and its messages per table."""

    messages: float
    bytes: float
    of_table: float


# The shape of the latest range of each place, the place that was read longest ago first. Each file is a place of its
# own, which is not read again.
_shapes: dict[str, RangeShape] = {}


def remember(range_: Range, messages: int, size: int, tables: int) -> None:
    """Remember the shape of a range, for the next one at its place."""
    _shapes.pop(range_.place, None)
    if len(_shapes) >= PLACES_KEPT:
        del _shapes[next(iter(_shapes))]
    weight = max(1, range_.weight)
    _shapes[range_.place] = RangeShape(messages / weight, size / weight, messages / max(1, tables))


def joinable(ranges: Sequence[Range], most_bytes: int = MOST_BYTES) -> Iterator[Sequence[Range]]:
    """Yield the ranges in order, several at once if they are small and follow each other in their batch.

    Together they have at most `most_bytes` of messages, as far as that is known.

    The first range of a place is read alone, because its shape is not known.
    """
    run: list[tuple[Range, RangeShape]] = []
    for range_ in ranges:
        # Looked up once: shapes change while earlier ranges are read.
        shape = _shapes.get(range_.place)
        thin = shape if shape is not None and shape.of_table < FEW_ROWS else None
        # Rows of other ranges must not be between those of joined ranges, which get the number of the first one.
        if run and (thin is None or range_.number != run[-1][0].number + 1):
            yield from _even_parts(run, most_bytes)
            run = []
        if thin is None:
            yield [range_]
        else:
            run.append((range_, thin))
    if run:
        yield from _even_parts(run, most_bytes)


def _even_parts(run: Sequence[tuple[Range, RangeShape]], most_bytes: int) -> Iterator[Sequence[Range]]:
    """Yield a run of ranges in as few parts as the limits allow, of about the same size."""
    weights = np.array([range_.weight for range_, _ in run])
    messages = weights * [shape.messages for _, shape in run] / MOST_ROWS
    shares = np.maximum(messages, weights * [shape.bytes for _, shape in run] / most_bytes)
    parts = max(1, int(np.ceil(shares.sum())))
    # A range belongs to the part that contains its middle. A last range without messages has its middle at the end of
    # the last part.
    middles = (np.cumsum(shares) - shares / 2) * parts / max(shares.sum(), 1e-9)
    part_of = np.minimum(middles.astype(int), parts - 1).tolist()
    for _, group in itertools.groupby(zip(part_of, run, strict=True), key=itemgetter(0)):
        yield [range_ for _, (range_, _) in group]


def fetched_together(
    source: DecodedSource, ranges: Sequence[Range], most_bytes: int
) -> list[list[FetchedMessages]] | None:
    """Return the messages of each range.

    Return None if one range cannot be read, or if there are more than twice as many messages as the limits allow. The
    caller then reads the ranges one after the other, and the reader of the faulty range reports its error.
    """
    parts: list[list[FetchedMessages]] = []
    rows = size = 0
    try:
        for range_ in ranges:
            parts.append([])
            for chunk in source.fetched(range_):
                parts[-1].append(chunk)
                rows, size = rows + len(chunk.messages), size + chunk.size
                if rows > 2 * MOST_ROWS or size > 2 * most_bytes:
                    return None
    except PenstockError as error:
        if error.retryable:
            raise
        return None
    return parts


@dataclass(frozen=True, slots=True)
class JoinedRanges:
    """The messages of several ranges as one chunk, in which the offset of a message is its number.

    `bounds` are the numbers of the first message of each range, and the number of all messages. `sizes` are bytes.
    """

    ranges: Sequence[Range]
    fetched: FetchedMessages
    bounds: Int64s
    sizes: Sequence[int]

    @classmethod
    def of(cls, ranges: Sequence[Range], parts: Sequence[Sequence[FetchedMessages]]) -> JoinedRanges:
        """Return these ranges, which have at least one message."""
        counts = [sum(len(chunk.messages) for chunk in part) for part in parts]
        bounds = np.cumsum([0, *counts], dtype=np.int64)
        whole = joined([chunk for part in parts for chunk in part])
        messages = replace(whole.messages, offsets=np.arange(bounds[-1], dtype=np.int64))
        fetched = replace(whole, messages=messages, ids=None)
        return cls(ranges, fetched, bounds, [sum(chunk.size for chunk in part) for part in parts])

    def decoded(self, source: DecodedSource, options: DecodeOptions) -> Iterator[DecodedChunk]:
        """Yield all messages as one chunk."""
        if source.registry is not None:
            options = replace(options, registry=source.registry.client())
        content, messages = decode(source.format, self.fetched.messages, options), len(self.fetched.messages)
        content.batches = joined_batches(content.batches)
        yield DecodedChunk(content, messages, self.fetched.size, replace(self.fetched, format=source.format))

    def edges(self, positions: Int64s) -> list[int]:
        """Return the number of the first row of each range, and the number of all rows, from the sorted positions."""
        edges: list[int] = np.searchsorted(positions, self.bounds).tolist()
        return edges

    def numbers(self, positions: Int64s) -> Int64s:
        """Return the number of the range of each row, given its position."""
        # A range without messages begins where the next one does.
        return self.ranges[0].number + np.searchsorted(self.bounds, positions, side="right") - 1
