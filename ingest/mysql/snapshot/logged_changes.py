"""The changes of a table between two binlog positions, and which of their keys belong to a chunk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.formats.change import ChangeBatch
from penstock.ingest.mysql.binlog.decode import Decoder
from penstock.ingest.mysql.binlog.event_stream import DumpRequest
from penstock.ingest.mysql.binlog.log_sample import continued
from penstock.ingest.mysql.binlog.rolled_back import RolledBackRows, is_taken_back
from penstock.ingest.mysql.binlog.unpack import unpacked
from penstock.ingest.mysql.position import file_number
from penstock.ingest.mysql.server.catalog import quoted
from penstock.ingest.mysql.server.connection import ask
from penstock.ingest.mysql.snapshot.chunk import Chunk, key_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.byte_buffers import Bools
    from penstock.ingest.mysql.binlog.options import BinlogOptions
    from penstock.ingest.mysql.binlog.rolled_back import Span
    from penstock.ingest.mysql.binlog.segment import Segment
    from penstock.ingest.mysql.position import LogPosition
    from penstock.ingest.mysql.server.address import ServerAddress
    from penstock.ingest.mysql.server.connection import Connection

_BLOCK_BYTES = 8 << 20


def changes_between(
    server: ServerAddress, low: LogPosition, high: LogPosition, options: BinlogOptions, server_id: int
) -> list[ChangeBatch]:
    """Return the changes logged from `low` to `high`, across files; `pos` includes the file number to keep the order.

    Changes that were rolled back are left out. Raise BinlogReset if the log is not the one of `low`.
    """
    decoder, rolled_back = Decoder(options, rolled_back=None), RolledBackRows()
    changes: list[tuple[str, ChangeBatch]] = []
    with continued(server, DumpRequest(low, server_id)) as segments:
        for segment in segments:
            until = high.pos if segment.file == high.file else None
            part = segment if until is None else segment.chosen(segment.pos < until)
            for plain in unpacked(part, _BLOCK_BYTES):
                rolled_back.follow(plain)
                changes += [(segment.file, batch) for batch in decoder.decode(plain)]
            if _is_past(segment, high):
                break
    kept = [(file, _remaining(batch, rolled_back.in_file(file))) for file, batch in changes]
    # Positions within a file are below 2^40.
    return [replace(batch, positions=batch.positions + (file_number(file) << 40)) for file, batch in kept if len(batch)]


def _remaining(batch: ChangeBatch, spans: Sequence[Span]) -> ChangeBatch:
    return batch.filter(~is_taken_back(batch.positions, spans)) if spans else batch


def _is_past(segment: Segment, high: LogPosition) -> bool:
    number, last = file_number(segment.file), file_number(high.file)
    return number > last or (number == last and segment.after >= high.pos)


def in_chunk(connection: Connection, chunk: Chunk, keys: pa.Table) -> Bools:
    """Return which of these keys are within the chunk's bounds, by the server's comparison rules."""
    if not chunk.key:
        return np.ones(len(keys), np.bool_)
    answers: list[bool] = []
    for rows in key_rows(connection, chunk, keys):
        texts = " UNION ALL ".join(_key_select(chunk, place, row) for place, row in enumerate(rows))
        answers += [bool(row[1]) for row in ask(connection, f"SELECT n, {chunk.condition} FROM ({texts}) k ORDER BY n")]
    return np.array(answers, np.bool_)


def _key_select(chunk: Chunk, place: int, literals: Sequence[str]) -> str:
    named = [f"{literal} AS {quoted(name)}" for literal, name in zip(literals, chunk.key, strict=True)]
    return f"SELECT {place} AS n, {', '.join(named)}"
