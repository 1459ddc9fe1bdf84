"""A chunk as of an exact binlog position, without a lock: rows read between two positions, merged with the binlog.

The binlog between the positions is applied to the rows, whether or not they already reflect it. The result is the chunk
as of the later position, so that the stream continues from there without gap or repetition (the DBLog algorithm).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.errors import SourceError
from penstock.formats.change import ChangeBatch, ImageRule
from penstock.ingest.database.past_rows import log_order, row_numbers
from penstock.ingest.mysql.binlog.decode import Decoder
from penstock.ingest.mysql.binlog.dump import dumping
from penstock.ingest.mysql.binlog.event_stream import DumpRequest
from penstock.ingest.mysql.binlog.options import TheseTables
from penstock.ingest.mysql.binlog.rolled_back import RolledBackRows, is_taken_back
from penstock.ingest.mysql.binlog.server_positions import latest, settled, snapshot_position
from penstock.ingest.mysql.binlog.unpack import unpacked
from penstock.ingest.mysql.position import file_number
from penstock.ingest.mysql.server.catalog import quoted
from penstock.ingest.mysql.server.connection import ask, connected, server_facts
from penstock.ingest.mysql.snapshot.chunk import Chunk, key_rows
from penstock.ingest.mysql.snapshot.read import SnapshotOptions, chunk_batches
from penstock.row_kinds import INSERT, UPDATE_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.byte_buffers import Bools
    from penstock.ingest.mysql.binlog.options import BinlogOptions
    from penstock.ingest.mysql.binlog.rolled_back import Span
    from penstock.ingest.mysql.binlog.segment import Segment
    from penstock.ingest.mysql.position import LogPosition
    from penstock.ingest.mysql.server.address import ServerAddress
    from penstock.ingest.mysql.server.connection import Connection

_TRIES = 3
_BLOCK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class ExactChunk:
    """The chunk's rows as of `high`: changes of its keys up to `high` are included, later ones are not."""

    batches: tuple[ChangeBatch, ...]
    high: LogPosition


def read_exact(
    server: ServerAddress,
    chunk: Chunk,
    snapshot: SnapshotOptions,
    log: BinlogOptions,
    server_id: int,
    oddities: Counter[str] | None = None,
) -> ExactChunk:
    """Return the chunk as of the binlog position after reading it.

    Holds the chunk in memory. The table must have a key.

    All keys after the last chunk count as part of it. If the table is altered during the read, the chunk is read again.
    """
    chunk = chunk.open_end
    for _ in range(_TRIES):
        with connected(server) as connection:
            facts = server_facts(connection)
            if facts.is_mariadb:
                # MariaDB's snapshots know their binlog position: no changes have to be applied.
                high = snapshot_position(connection, facts, keep=True)
                return ExactChunk(tuple(chunk_batches(connection, chunk, snapshot, oddities)), high)
            # Changes before `low` are visible to the read that follows; changes after `high` come through the stream.
            low = settled(connection, facts, server, server_id)
            rows = list(chunk_batches(connection, chunk, snapshot, oddities))
            high = latest(connection, facts)
            if (low.file, low.pos) == (high.file, high.pos):
                return ExactChunk(tuple(rows), high)
            name = (chunk.database, chunk.table)
            options = replace(log, choice=TheseTables(frozenset([name])), images={name: ImageRule("all")})
            changes = changes_between(server, low, high, options, server_id)
            if not changes:
                return ExactChunk(tuple(rows), high)
            # Other columns mean that the table was altered between the positions.
            if len({_columns(batch) for batch in [*rows, *changes]}) == 1:
                merged = as_of_high(rows, changes, lambda keys: in_chunk(connection, chunk, keys))
                return ExactChunk(tuple(merged), high)
    raise SourceError(
        "the table was altered every time this chunk of its snapshot was read",
        table=f"{chunk.database}.{chunk.table}",
        retryable=True,
    )


def _columns(batch: ChangeBatch) -> tuple[tuple[str, str | None], ...]:
    return tuple((field.name, field.type) for field in batch.schema.fields)


def changes_between(
    server: ServerAddress, low: LogPosition, high: LogPosition, options: BinlogOptions, server_id: int
) -> list[ChangeBatch]:
    """Return the changes logged from `low` to `high`, across files; `pos` includes the file number to keep the order.

    Changes that were rolled back are left out.
    """
    decoder, rolled_back = Decoder(options, rolled_back=None), RolledBackRows()
    changes: list[tuple[str, ChangeBatch]] = []
    with dumping(server, DumpRequest(low, server_id)) as segments:
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
    return [replace(one, positions=one.positions + (file_number(file) << 40)) for file, one in kept if len(one)]


def _remaining(batch: ChangeBatch, spans: Sequence[Span]) -> ChangeBatch:
    return batch.filter(~is_taken_back(batch.positions, spans)) if spans else batch


def _is_past(segment: Segment, high: LogPosition) -> bool:
    number, last = file_number(segment.file), file_number(high.file)
    return number > last or (number == last and segment.after >= high.pos)


def as_of_high(
    rows: Sequence[ChangeBatch], changes: Sequence[ChangeBatch], is_in_chunk: Callable[[pa.Table], Bools]
) -> list[ChangeBatch]:
    """Return the rows with the changes applied, as inserts.

    The last image of a key wins; a before image or a delete removes it. A key that appears only in the changes is kept
    if it belongs to the chunk, which only the server can decide (`is_in_chunk`). Keys are compared by their bytes: the
    binlog contains them as they are stored.
    """
    batches = [*rows, *changes]
    schema = batches[0].schema
    whole = pa.Table.from_batches([batch.rows for batch in batches]).combine_chunks()
    keys = row_numbers(whole.select(list(schema.primary_keys)))
    from_log = np.repeat([False, True], [sum(map(len, rows)), sum(map(len, changes))])
    kinds = np.concatenate([batch.kinds for batch in batches])
    # The last sort key counts most: rows that were read, then changes in the order of the log.
    order = np.lexsort((*log_order(batches), from_log))
    last = np.zeros(int(keys.max()) + 1 if len(keys) else 0, np.int64)
    last[keys[order]] = order  # the last assignment per key wins
    stays = np.zeros(len(keys), np.bool_)
    stays[last] = np.isin(kinds[last], [INSERT, UPDATE_AFTER])
    # A key that was not read may belong to another chunk.
    in_rows = np.zeros(len(last), np.bool_)
    in_rows[keys[~from_log]] = True
    doubtful = np.flatnonzero(stays & from_log & ~in_rows[keys])
    if len(doubtful):
        stays[doubtful] = is_in_chunk(whole.take(pa.array(doubtful)).select(list(schema.primary_keys)))
    index = np.sort(np.flatnonzero(stays))
    kept = whole.take(pa.array(index)).combine_chunks()
    return [ChangeBatch.inserts(schema, batch) for batch in kept.to_batches() if len(batch)]


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
