"""Reading of a binlog range in a task: from the dump to change batches."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.ingest.mysql.binlog.decode import Decoder
from penstock.ingest.mysql.binlog.dump import dumping
from penstock.ingest.mysql.binlog.event_stream import BLOCK_BYTES, DumpRequest
from penstock.ingest.mysql.binlog.gtid import outside
from penstock.ingest.mysql.binlog.unpack import unpacked
from penstock.ingest.mysql.position import LogPosition, TransactionSet, transaction_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.formats.change import ChangeBatch
    from penstock.ingest.mysql.binlog.options import BinlogOptions
    from penstock.ingest.mysql.binlog.range_cutter import LogRange
    from penstock.ingest.mysql.binlog.segment import Segment
    from penstock.ingest.mysql.server.address import ServerAddress


def read_range(
    server: ServerAddress,
    part: LogRange,
    options: BinlogOptions,
    server_id: int,
    *,
    oddities: Counter[str] | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[ChangeBatch]:
    """Yield the changes of a range, over a separate connection and with a separate replica identity.

    `pos` of a row is its event's position in the file and `sub` counts the rows at that position, so that (range, pos,
    sub) is the order of the binlog. Called again it yields the same rows. Holds one block of the binlog and its decoded
    rows in memory.
    """
    request = DumpRequest(LogPosition(part.file, part.start), server_id, until=part.until, block_bytes=block_bytes)
    with dumping(server, request) as segments:
        yield from range_batches(segments, part, options, oddities, block_bytes)


def range_batches(
    segments: Iterable[Segment],
    part: LogRange,
    options: BinlogOptions,
    oddities: Counter[str] | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[ChangeBatch]:
    """Yield the changes of a range from given segments."""
    decoder = Decoder(options, Counter() if oddities is None else oddities)
    known: TransactionSet | None = None
    open_is_known, first = False, True
    for segment in segments:
        if first:
            first = False
            known = transaction_set(part.known, mariadb=segment.mariadb) if part.known else None
            for body in part.maps:
                decoder.remember_map(body, mariadb=segment.mariadb)
        if known is not None:
            keep, open_is_known = outside(known, segment, open_is_known)
            segment = segment.chosen(keep)
        for plain in unpacked(segment, block_bytes):
            yield from decoder.decode(plain)
