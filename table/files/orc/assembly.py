"""Assembly of an ORC file from stripes that Arrow wrote, each as a separate file.

The assembly works around three limits of Arrow's writer. For timestamps before 1970 it writes negative nanoseconds,
which Java's reader rejects; the nanoseconds of such a stripe come from a second file whose timestamps contain only
nanoseconds. Arrow writes CHAR as STRING, where Java expects the CHAR type. And its statistics contain whole texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.table.orc_metadata.protobuf import Message
from penstock.table.orc_metadata.tail import (
    HEADER,
    INDEX_STREAMS,
    OrcTail,
    OrcType,
    Part,
    Stream,
    stream_message,
    stripe_message,
)
from penstock.table.orc_metadata.text_bounds import has_long_bounds, with_short_bounds, with_short_index

_TIMESTAMP_STATISTICS = 9
_OWN = 1 << 40  # files that were just written: their statistics are as large as their texts


class OrcAssembly:
    """An ORC file that is written stripe by stripe to a stream."""

    def __init__(self, stream: Any, char_lengths: Mapping[int, int]) -> None:
        """Start a file. `char_lengths` has the length of each ORC column that is a CHAR."""
        self._stream, self._char_lengths = stream, char_lengths
        self._like: OrcTail | None = None
        self._stripes: list[Message] = []
        self._statistics: list[Message] = []
        self._values: list[tuple[int, bool]] = []  # for each column: the number of values, and whether some are null
        self._rows = 0
        self._offset = 0

    def add(self, whole: pa.Buffer, nanoseconds: pa.Buffer | None) -> None:
        """Append the stripes of an ORC file. `nanoseconds` is the same file with only nanoseconds in its timestamps."""
        tail = OrcTail(pa.BufferReader(whole), _OWN)
        finer = None if nanoseconds is None else OrcTail(pa.BufferReader(nanoseconds), _OWN)
        if self._like is None:
            self._like = tail
            self._write(HEADER)
        for number in range(len(tail.stripes)):
            self._add_stripe(tail, finer, number)
        self._count(tail)
        tail.forget()

    def _add_stripe(self, tail: OrcTail, finer: OrcTail | None, number: int) -> None:
        start, index_length = self._offset, 0
        nanos = (
            {}
            if finer is None
            else {part.column: part for part in finer.parts(number) if part.kind == Stream.SECONDARY}
        )
        statistics = tail.metadata.messages(1)[number].messages(1)
        long = {column for column, statistic in enumerate(statistics) if has_long_bounds(statistic)}
        streams = []
        for part in tail.parts(number):
            is_index = part.kind in INDEX_STREAMS
            if is_index and finer is not None:
                continue  # the index points into the nanosecond streams that are replaced
            is_nanos = part.kind == Stream.SECONDARY and part.column in nanos and finer is not None
            # Everything but the nanoseconds comes from the file that has the true seconds.
            data = _bytes(finer, nanos[part.column]) if is_nanos and finer else _bytes(tail, part)
            if part.kind == Stream.ROW_INDEX and part.column in long:
                data = tail.framed(with_short_index(tail.message(part.offset, part.length)).encode())
            self._write(data)
            index_length += len(data) if is_index else 0
            streams.append(stream_message(part.kind, part.column, len(data)))
        length = self._offset - start
        footer = Message(list(tail.stripe_footers[number].fields))
        footer.put_messages(1, streams)
        data = tail.framed(footer.encode())
        self._write(data)
        # Field numbers here and below are those of ORC's protobuf messages: 5 is the number of rows of a stripe.
        rows = tail.stripes[number].integer(5)
        self._stripes.append(stripe_message(start, index_length, length - index_length, len(data), rows))
        kept = statistics if finer is None else _without_seconds(tail, statistics)
        self._statistics.append(Message())
        self._statistics[-1].put_messages(1, [with_short_bounds(statistics) for statistics in kept])

    def _count(self, tail: OrcTail) -> None:
        # Of the statistics of each column, 1 is the number of values, and 10 says whether there are nulls.
        found = [(message.integer(1), bool(message.integer(10))) for message in tail.footer.messages(7)]
        before = self._values or [(0, False)] * len(found)
        self._values = [(a + b, c or d) for (a, c), (b, d) in zip(before, found, strict=True)]
        self._rows += tail.footer.integer(6)

    def close(self) -> None:
        """Write the metadata that follows the stripes. The stream stays open."""
        tail = self._like
        if tail is None:
            raise ValueError("an ORC file without stripes has no types")
        metadata = Message()
        metadata.put_messages(1, self._statistics)
        # In the footer, 1 is the length of the header, 2 that of the content, 3 the stripes, 4 the types, 6 the
        # number of rows, and 7 the statistics. All other fields are those of the first stripe's file.
        footer = Message(list(tail.footer.fields))
        footer.put(1, len(HEADER))
        footer.put(2, self._offset)
        footer.put_messages(3, self._stripes)
        footer.put_messages(4, [self._type(column, type_) for column, type_ in enumerate(tail.types)])
        footer.put(6, self._rows)
        # Bounds are kept only per stripe: bounds of the whole file would have to be merged type by type.
        footer.put_messages(7, [Message([(1, 0, count), (10, 0, int(nulls))]) for count, nulls in self._values])
        self._write(tail.ending(tail.framed(metadata.encode()), footer))

    def _type(self, column: int, type_: Message) -> Message:
        if column not in self._char_lengths:
            return type_
        changed = Message(list(type_.fields))
        changed.put(1, OrcType.CHAR)
        # 4 is the maximum length of a type.
        changed.put(4, self._char_lengths[column])
        return changed

    def _write(self, data: bytes | pa.Buffer) -> None:
        self._stream.write(data)
        self._offset += len(data)


def _bytes(tail: OrcTail, part: Part) -> bytes:
    return bytes(tail.source.read_at(part.length, part.offset))


def _without_seconds(tail: OrcTail, columns: Sequence[Message]) -> list[Message]:
    """Return a stripe's statistics without the bounds of timestamps, which lack the fraction of a second."""
    return [
        Message([field for field in column.fields if field[0] != _TIMESTAMP_STATISTICS])
        if place in tail.timestamps
        else column
        for place, column in enumerate(columns)
    ]
