"""A chunk as it was at one exact position, without a lock: rows read between two positions, and the log between them.

The log between the positions takes back and puts forward what the rows may or may not have seen; behind it stands the
chunk at the later position, so that the stream goes on from there with neither gap nor repetition (DBLog's way).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SourceError
from penstock.formats.change import INSERT, UPDATE_AFTER, ChangeBatch, ImageRule
from penstock.ingest.mysql.binlog.decode import Decoder
from penstock.ingest.mysql.binlog.dump import DumpRequest, dumping
from penstock.ingest.mysql.binlog.options import TheseTables
from penstock.ingest.mysql.binlog.resume import latest, settled, snapshot_position
from penstock.ingest.mysql.binlog.unpack import unpacked
from penstock.ingest.mysql.position import file_number
from penstock.ingest.mysql.server.checks import quoted
from penstock.ingest.mysql.server.connection import ask, connected, server_facts
from penstock.ingest.mysql.snapshot.chunks import Chunk
from penstock.ingest.mysql.snapshot.literals import key_rows
from penstock.ingest.mysql.snapshot.read import SnapshotOptions, chunk_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from penstock.ingest.mysql.binlog.options import DecodeOptions
    from penstock.ingest.mysql.binlog.segment import Segment
    from penstock.ingest.mysql.byte_view import Bools
    from penstock.ingest.mysql.position import LogPosition
    from penstock.ingest.mysql.server.connection import Connection, ServerAddress

_TRIES = 3
_BLOCK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class ExactChunk:
    """The chunk's rows as of `high`: events of its keys up to there are in them, later ones are not."""

    batches: tuple[ChangeBatch, ...]
    high: LogPosition


def read_exact(
    server: ServerAddress,
    chunk: Chunk,
    snapshot: SnapshotOptions,
    log: DecodeOptions,
    server_id: int,
    oddities: Counter[str] | None = None,
) -> ExactChunk:
    """The chunk as of the position at which its reading ended. Holds the chunk. The table must have a key.

    All keys behind the last chunk count as its own. Altered while it is read, a chunk is read again.
    """
    chunk = chunk.open_end
    for _ in range(_TRIES):
        with connected(server) as connection:
            facts = server_facts(connection)
            if facts.is_mariadb:
                # Its snapshots know their place in the log: nothing has to be laid over.
                high = snapshot_position(connection, facts, keep=True)
                return ExactChunk(tuple(chunk_batches(connection, chunk, snapshot, oddities)), high)
            low = settled(connection, facts)
            rows = list(chunk_batches(connection, chunk, snapshot, oddities))
            high = latest(connection, facts)
            if (low.file, low.pos) == (high.file, high.pos):
                return ExactChunk(tuple(rows), high)
            name = (chunk.database, chunk.table)
            options = replace(log, choice=TheseTables(frozenset([name])), images={name: ImageRule("all")})
            changes = list(changes_between(server, low, high, options, server_id))
            if not changes:
                return ExactChunk(tuple(rows), high)
            if len({_columns(batch) for batch in [*rows, *changes]}) == 1:
                merged = as_of_high(rows, changes, lambda keys: in_chunk(connection, chunk, keys))
                return ExactChunk(tuple(merged), high)
    raise SourceError(
        "the table was altered each time this chunk was read", table=f"{chunk.database}.{chunk.table}", retryable=True
    )


def _columns(batch: ChangeBatch) -> tuple[tuple[str, str | None], ...]:
    return tuple((field.name, field.type) for field in batch.schema.fields)


def changes_between(
    server: ServerAddress, low: LogPosition, high: LogPosition, options: DecodeOptions, server_id: int
) -> Iterator[ChangeBatch]:
    """The changes logged from `low` to `high`, across files; `pos` is raised by the file's number to stay in order."""
    decoder = Decoder(options)
    with dumping(server, DumpRequest(low, server_id)) as segments:
        for segment in segments:
            until = high.pos if segment.file == high.file else None
            part = segment if until is None else segment.chosen(segment.pos < until)
            for plain in unpacked(part, _BLOCK_BYTES):
                for batch in decoder.decode(plain):
                    yield replace(batch, pos=batch.pos + (file_number(segment.file) << 40))
            if _is_past(segment, high):
                return


def _is_past(segment: Segment, high: LogPosition) -> bool:
    number, last = file_number(segment.file), file_number(high.file)
    return number > last or (number == last and segment.after >= high.pos)


def as_of_high(
    rows: Sequence[ChangeBatch], changes: Sequence[ChangeBatch], is_in_chunk: Callable[[pa.Table], Bools]
) -> list[ChangeBatch]:
    """Rows with the changes applied, as insertions. The last image of a key wins; an image before or a deletion removes
    it; one that appears is kept if it belongs to the chunk, which only the server can tell (`is_in_chunk`).

    Keys are compared by their bytes: the log has them as they are stored.
    """
    batches = [*rows, *changes]
    schema = batches[0].schema
    whole = pa.Table.from_batches([batch.columns for batch in batches]).combine_chunks()
    keys = row_numbers(whole.select(list(schema.primary_keys)))
    from_log = np.repeat([False, True], [sum(map(len, rows)), sum(map(len, changes))])
    kinds = np.concatenate([batch.kinds for batch in batches])
    order = np.lexsort((joined(batches, "sub"), joined(batches, "pos"), from_log))
    last = np.zeros(int(keys.max()) + 1 if len(keys) else 0, np.int64)
    last[keys[order]] = order  # the last assignment stays
    stays = np.zeros(len(keys), np.bool_)
    stays[last] = np.isin(kinds[last], [INSERT, UPDATE_AFTER])
    in_rows = np.zeros(len(last), np.bool_)
    in_rows[keys[~from_log]] = True
    doubtful = np.flatnonzero(stays & from_log & ~in_rows[keys])
    if len(doubtful):
        stays[doubtful] = is_in_chunk(whole.take(pa.array(doubtful)).select(list(schema.primary_keys)))
    index = np.sort(np.flatnonzero(stays))
    kept = whole.take(pa.array(index)).combine_chunks()
    return [insertions(batches[0], batch) for batch in kept.to_batches() if len(batch)]


def joined(batches: Sequence[ChangeBatch], name: str) -> npt.NDArray[np.int64]:
    return np.concatenate([getattr(batch, name).astype(np.int64) for batch in batches])


def row_numbers(keys: pa.Table) -> npt.NDArray[np.int64]:
    """A number for every distinct key; rows may be taken whole for one."""
    codes = [_comparable(column.combine_chunks()).dictionary_encode("encode") for column in keys.columns]
    numbers = np.stack([code.indices.to_numpy(zero_copy_only=False).astype(np.int64) for code in codes], axis=1)
    _, number = np.unique(numbers, axis=0, return_inverse=True)
    flat: npt.NDArray[np.int64] = number.reshape(-1).astype(np.int64)
    return flat


def _comparable(column: pa.Array) -> pa.Array:
    # Lists are those of SET columns, whose labels hold no commas.
    return pc.binary_join(column, ",") if pa.types.is_list(column.type) else column


def insertions(like: ChangeBatch, columns: pa.RecordBatch) -> ChangeBatch:
    count = len(columns)
    return ChangeBatch(
        like.schema,
        columns,
        np.full(count, INSERT, np.uint8),
        np.arange(count, dtype=np.int64),
        np.zeros(count, np.int32),
        np.full(count, -1, np.int64),
    )


def in_chunk(connection: Connection, chunk: Chunk, keys: pa.Table) -> Bools:
    """Which of these keys lie within the chunk's bounds, by the server's own comparison."""
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
