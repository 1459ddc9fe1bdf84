"""A sample of the log at a position: whether a server still has the log that was read up to there.

A server that was reset, or whose disk or memory was put back, gives names, positions and GTIDs again, for other
transactions. Once its log is longer than the position, only the events show it: they contain times of commits, numbers
of transactions, and rows.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from penstock.ingest.mysql.binlog.dump import dumping
from penstock.ingest.mysql.binlog.event_stream import DumpRequest
from penstock.ingest.mysql.binlog.segment import CHECKSUM, HEADER
from penstock.ingest.mysql.errors import BinlogReset, ChecksumMismatch, LogGap, UnsupportedBinlogEvent
from penstock.ingest.mysql.position import FIRST_EVENT, LogPosition, LogSample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.ingest.mysql.binlog.segment import Segment
    from penstock.ingest.mysql.server.address import ServerAddress

MOST_BYTES, _MOST_EVENTS = 16 << 10, 64
_DIGEST_BYTES = 16
# The time, the kind and the server of an event. Sizes and positions differ with the checksums that a reader asks for.
_KEPT_HEADER = 9


class _Digest:
    def __init__(self) -> None:
        self._hashed = blake2b(digest_size=_DIGEST_BYTES)

    def add(self, segment: Segment) -> None:
        for begin, end in zip(segment.start.tolist(), segment.end.tolist(), strict=True):
            self._hashed.update(segment.raw[begin : begin + _KEPT_HEADER])
            self._hashed.update(segment.raw[begin + HEADER : end])

    def text(self) -> str:
        return self._hashed.hexdigest()


def sample_before(segment: Segment, until: int, since: int = 0) -> LogSample | None:
    """Return a sample of the last events of a segment before a position; None if there are no suitable ones.

    Suitable are small events without a gap after them: a dump from a GTID set leaves transactions out.
    """
    stop = int(np.searchsorted(segment.pos, until))
    begin = max(int(np.searchsorted(segment.pos, since)), stop - _MOST_EVENTS)
    pos = segment.pos[begin:stop]
    ends = np.append(segment.pos[begin + 1 :], segment.after)[: len(pos)]
    sizes = segment.end[begin:stop] - segment.start[begin:stop]
    wrong = (ends - pos < sizes) | (ends - pos > sizes + CHECKSUM) | (ends > until)
    suitable = np.flatnonzero(~wrong & (sizes <= MOST_BYTES))
    if not len(suitable):
        return None
    last = int(suitable[-1])
    broken = np.flatnonzero(wrong[:last] | (pos[:last] < ends[last] - MOST_BYTES))
    first = int(broken[-1]) + 1 if len(broken) else 0
    digest = _Digest()
    digest.add(segment.chosen(np.arange(begin + first, begin + last + 1)))
    return LogSample(int(pos[first]), int(ends[last]), digest.text())


def with_sample(server: ServerAddress, position: LogPosition, server_id: int) -> LogPosition:
    """Return a position that no plan has reached with a sample of the first events of its file."""
    if position.pos <= FIRST_EVENT:
        return position
    until = min(position.pos, FIRST_EVENT + MOST_BYTES)
    request = DumpRequest(LogPosition(position.file, FIRST_EVENT), server_id, until=until)
    with dumping(server, request) as segments:
        for segment in segments:
            return replace(position, begun=segment.begun, sample=sample_before(segment, position.pos))
    return position


@contextmanager
def continued(server: ServerAddress, request: DumpRequest) -> Iterator[Iterator[Segment]]:
    """Open a dump as `dumping` does. Raise BinlogReset if the log is not the one of the start's sample."""
    start, sample = request.start, request.start.sample
    if sample is None or request.by_gtid:
        with dumping(server, request) as segments:
            yield segments
        return
    if sample.last != start.pos:
        require_same_log(server, start, request.server_id)
        with dumping(server, request) as segments:
            yield segments
        return
    with dumping(server, replace(request, start=replace(start, pos=sample.first))) as segments:
        yield _after_sample(segments, start, sample, lambda: require_same_log(server, start, request.server_id))


def require_same_log(server: ServerAddress, position: LogPosition, server_id: int) -> None:
    """Raise BinlogReset if the server's log is not the one of the position's sample.

    The log is read a second time before the error: damage on the way changes an event only once.
    """
    sample = position.sample
    if sample is None:
        return
    try:
        _look(server, position, sample, server_id)
    except (BinlogReset, ChecksumMismatch) as first:
        try:
            _look(server, position, sample, server_id)
        except ChecksumMismatch as second:
            # The position may be within an event of the other log, where nothing has a checksum.
            if isinstance(first, ChecksumMismatch) and first.facts == second.facts:
                raise _other_log(position.file, sample, second.message) from second
            raise


def _look(server: ServerAddress, position: LogPosition, sample: LogSample, server_id: int) -> None:
    request = DumpRequest(replace(position, pos=sample.first), server_id, until=sample.last)
    with dumping(server, request) as segments:
        try:
            _compared_until(segments, position.file, sample)
        except (LogGap, UnsupportedBinlogEvent) as error:  # the position is within an event of the other log
            raise _other_log(position.file, sample, error.message) from error


def _after_sample(
    segments: Iterator[Segment], position: LogPosition, sample: LogSample, require_sample: Callable[[], None]
) -> Iterator[Segment]:
    try:
        rest = _compared_until(segments, position.file, sample)
    except (LogGap, UnsupportedBinlogEvent, ChecksumMismatch):  # in the sample, or after it in the same block
        require_sample()
        raise
    if len(rest):
        yield rest
    yield from segments


def _compared_until(segments: Iterator[Segment], file: str, sample: LogSample) -> Segment:
    """Return the events of the segment with the end of the sample that follow it."""
    digest = _Digest()
    for segment in segments:
        if segment.file != file:
            break
        is_sampled = segment.pos < sample.last
        digest.add(segment.chosen(is_sampled))
        if segment.after >= sample.last:
            _require(digest, file, sample)
            return segment.chosen(~is_sampled)
    raise _other_log(file, sample, "it is shorter")


def compared(segments: Iterable[Segment], file: str, sample: LogSample | None) -> Iterator[Segment]:
    """Yield segments of a range that contains a sample. Raise BinlogReset before the one in which the sample ends."""
    digest = None if sample is None else _Digest()
    for segment in segments:
        if sample is not None and digest is not None:
            digest.add(segment.chosen((segment.pos >= sample.first) & (segment.pos < sample.last)))
            if segment.after >= sample.last:
                _require(digest, file, sample)
                digest = None
        yield segment
    if sample is not None and digest is not None:
        raise _other_log(file, sample, "it is shorter")


def _require(digest: _Digest, file: str, sample: LogSample) -> None:
    if digest.text() != sample.digest:
        raise _other_log(file, sample, "its events are others")


def _other_log(file: str, sample: LogSample, reason: str) -> BinlogReset:
    return BinlogReset(
        "the server's binlog is not the one that this pipeline read before: it has other events at the same position",
        position=f"{file}:{sample.last}",
        reason=reason,
        hint="the binlog was reset, or the server was restored or is another one: connect to the former server, or "
        "read the tables again (--resnapshot)",
    )
