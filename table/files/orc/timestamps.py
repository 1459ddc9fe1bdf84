"""ORC timestamps outside the range of years that Arrow's reader supports.

Arrow reads timestamps as nanoseconds, which cover only 1677 to 2262. So Arrow reads the file twice with different
metadata: once with timestamps declared as integers, which returns their seconds, and once with all seconds set to zero,
which returns the fractions.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from penstock.local_times import wall_clock
from penstock.table.files.orc.early_times import unrounded
from penstock.table.files.relayout import is_split_timestamp, moments
from penstock.table.orc_metadata.protobuf import Message
from penstock.table.orc_metadata.tail import (
    HEADER,
    INDEX_STREAMS,
    OrcTail,
    OrcType,
    Stream,
    stream_message,
    stripe_message,
)
from penstock.table.values.buffers import Ints, fixed_values


class SplicedFile(io.RawIOBase):
    """A file of parts of `source` with bytes between them.

    Parts are read on demand; only the added bytes are in memory.
    """

    def __init__(self, source: Any) -> None:
        super().__init__()
        self._source = source
        self._starts: list[int] = []
        self._parts: list[int | bytes] = []  # an offset in the source, or the bytes themselves
        self.size = 0
        self._place = 0

    def add(self, offset: int, length: int) -> None:
        """Append a part of the source."""
        self._append(offset, length)

    def add_bytes(self, data: bytes) -> None:
        """Append bytes."""
        self._append(data, len(data))

    def _append(self, part: int | bytes, length: int) -> None:
        if length:
            self._starts.append(self.size)
            self._parts.append(part)
            self.size += length

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + (0, self._place, self.size)[whence]
        return self._place

    def read(self, size: int = -1) -> bytes:
        end = self.size if size < 0 else min(self.size, self._place + size)
        found = []
        while self._place < end:
            number = bisect_right(self._starts, self._place) - 1
            start, part = self._starts[number], self._parts[number]
            stop = min(end, self._starts[number + 1] if number + 1 < len(self._starts) else self.size)
            skip, length = self._place - start, stop - self._place
            found.append(
                part[skip : skip + length] if isinstance(part, bytes) else self._source.read_at(length, part + skip)
            )
            self._place = stop
        return b"".join(found)


# ORC counts the seconds of timestamps from 2015-01-01.
EPOCH_2015 = 1_420_070_400
_DIRECT_V2 = 2
# Runs of the integer encodings of ORC, version 2 and version 1, each with the number of zeros it has.
_ZERO_RUN = 512, b"\xc1\xff\x00\x00"  # a delta run of 512 zeros
_ZERO_RUN_V1 = 130, b"\x7f\x00\x00"
_UTC = ("", "GMT", "UTC", "Etc/UTC", "Z")


def with_seconds(tail: OrcTail) -> SplicedFile:
    """Return the file with its timestamps declared as integers: seconds since 2015."""
    footer = Message(list(tail.footer.fields))
    footer.put_messages(4, [_as_integer(type_) for type_ in tail.types])
    spliced = SplicedFile(tail.source)
    # All stripes stay as they are. The metadata before the footer, with the stripe statistics, is left out: its bounds
    # are timestamps, and the columns are integers now.
    spliced.add(0, tail.footer_start - tail.postscript.integer(5))
    spliced.add_bytes(tail.ending(b"", footer))
    return spliced


def _as_integer(type_: Message) -> Message:
    if type_.integer(1) not in (OrcType.TIMESTAMP, OrcType.INSTANT):
        return type_
    changed = Message(list(type_.fields))
    changed.put(1, OrcType.LONG)
    return changed


def with_nanoseconds(tail: OrcTail) -> SplicedFile:
    """Return the file with all its timestamps in the first second of 2015."""
    spliced = SplicedFile(tail.source)
    spliced.add_bytes(HEADER)
    stripes = [_without_seconds(spliced, tail, stripe) for stripe in range(len(tail.stripes))]
    footer = Message(list(tail.footer.fields))
    footer.put_messages(3, stripes)
    spliced.add_bytes(tail.ending(b"", footer))
    return spliced


def _without_seconds(spliced: SplicedFile, tail: OrcTail, stripe: int) -> Message:
    start, rows = spliced.size, tail.stripes[stripe].integer(5)
    old = tail.stripe_footers[stripe]
    encodings = [message.integer(1) for message in old.messages(2)]
    counts = dict(enumerate(tail.value_counts()))
    streams = []
    for part in tail.parts(stripe):
        length = part.length
        # Indexes contain positions in the old streams.
        if part.kind in INDEX_STREAMS:
            continue
        if part.kind == Stream.DATA and part.column in tail.timestamps:
            # A column inside lists has more values than the stripe has rows. Zeros that are left over are not read.
            count = max(rows, counts.get(part.column, 0))
            zeros = tail.framed(_zeros(count, _ZERO_RUN if encodings[part.column] == _DIRECT_V2 else _ZERO_RUN_V1))
            spliced.add_bytes(zeros)
            length = len(zeros)
        else:
            spliced.add(part.offset, length)
        streams.append(stream_message(part.kind, part.column, length))
    data_length = spliced.size - start
    footer = Message([field for field in old.fields if field[0] != 3])
    footer.put_messages(1, streams)
    # The writer's zone: in GMT Arrow returns the numbers unchanged, and WriterClock applies the true zone.
    footer.fields.append((3, 2, b"GMT"))
    data = tail.framed(footer.encode())
    spliced.add_bytes(data)
    return stripe_message(start, 0, data_length, len(data), rows)


def _zeros(count: int, run: tuple[int, bytes]) -> bytes:
    length, data = run
    return data * -(-count // length)


class WriterClock:
    """The meaning of the timestamp numbers of one stripe: wall-clock time in the writer's zone, counted from its 2015.

    Java writes TIMESTAMP WITH LOCAL TIME ZONE by that wall clock too, although it declares to ORC that it does not.
    """

    def __init__(self, zone: str, *, is_java: bool) -> None:
        self._zone = None if zone in _UTC else zone
        self._is_java = is_java

    def moments(self, seconds: pa.Array, nanos: pa.Array, target: pa.DataType, column: str) -> pa.Array:
        """Return timestamps from the values read from the two spliced files."""
        fraction = _integers(nanos) - EPOCH_2015 * 10**9
        stamp = target.field(0).type if is_split_timestamp(target) else target
        whole = self._wall_seconds(_integers(seconds), fraction, instant=stamp.tz is not None)
        return moments(seconds, whole, fraction, target, column)

    def _wall_seconds(self, since_2015: Ints, nanos: Ints, *, instant: bool) -> Ints:
        if self._zone is None or (instant and not self._is_java):
            return unrounded(since_2015 + EPOCH_2015, nanos)
        # A timestamp without zone counts from the midnight of 2015-01-01 in the writer's zone.
        start = EPOCH_2015 if instant else int(datetime(2015, 1, 1, tzinfo=ZoneInfo(self._zone)).timestamp())
        true = unrounded(since_2015 + start, nanos)
        known = pa.Array.from_buffers(pa.timestamp("s", "UTC"), len(true), [None, pa.py_buffer(true)])
        return _integers(wall_clock(known, self._zone))


def _integers(array: pa.Array) -> Ints:
    return fixed_values(array, np.int64).view(np.int64)
