"""Reading of one range of a batch in a task: from a snapshot chunk or a binlog range to changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.formats.change import ChangeBatch, DecodeResult, ImagePolicy, Int64s, SourceSchema
from penstock.ingest.database.skipped_parts import unless_skipped
from penstock.ingest.database.table_parts import PartRead
from penstock.ingest.decoded_source import DecodedChunk
from penstock.ingest.mysql.binlog.decode import Decoder
from penstock.ingest.mysql.binlog.dump import dumping
from penstock.ingest.mysql.binlog.event_stream import BLOCK_BYTES, DumpRequest
from penstock.ingest.mysql.binlog.gtid import outside
from penstock.ingest.mysql.binlog.log_sample import compared
from penstock.ingest.mysql.binlog.options import BinlogOptions
from penstock.ingest.mysql.binlog.resume import require_position_of, require_read
from penstock.ingest.mysql.binlog.rolled_back import without_rolled_back
from penstock.ingest.mysql.binlog.unpack import unpacked
from penstock.ingest.mysql.ddl.history import DefinitionVersion, HistoryPart
from penstock.ingest.mysql.definition import schema_of
from penstock.ingest.mysql.errors import ServerIdClash
from penstock.ingest.mysql.generated_values import GeneratedValues
from penstock.ingest.mysql.offsets import barrier_from, chunk_from, range_from
from penstock.ingest.mysql.position import LogPosition, TransactionSet, transaction_set
from penstock.ingest.mysql.server.connection import server_facts
from penstock.ingest.mysql.settings import FollowSettings
from penstock.ingest.mysql.shown_times import in_zone
from penstock.ingest.mysql.snapshot.chunk_as_of import read_as_of
from penstock.ingest.mysql.snapshot.read import SnapshotOptions, read_chunk
from penstock.ingest.mysql.table_choice import AllBut, TableChoice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.ingest.mysql.binlog.range_cutter import BinlogRange
    from penstock.ingest.mysql.binlog.segment import Segment
    from penstock.ingest.mysql.server.address import ServerAddress
    from penstock.ingest.mysql.server.connection import Connection


def read_range(
    server: ServerAddress,
    part: BinlogRange,
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
    start = LogPosition(part.file, part.start, begun=part.begun)
    request = DumpRequest(start, server_id, until=part.until, block_bytes=block_bytes)
    with dumping(server, request) as segments:
        same = compared(segments, part.file, part.sample)
        yield from range_batches(same, part, options, oddities, block_bytes)


def range_batches(
    segments: Iterable[Segment],
    part: BinlogRange,
    options: BinlogOptions,
    oddities: Counter[str] | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[ChangeBatch]:
    """Yield the changes of a range from given segments."""
    settled = [end for _, end in part.rolled_back]
    decoder = Decoder(options, Counter() if oddities is None else oddities, settled)
    known: TransactionSet | None = None
    open_is_known, first = False, True
    for segment in segments:
        if first:
            first = False
            # Which server wrote the log, and with it the form of its GTIDs, is known from the first segment on.
            known = transaction_set(part.known, mariadb=segment.mariadb) if part.known else None
            for body in part.maps:
                decoder.remember_map(body, mariadb=segment.mariadb)
        if known is not None:
            keep, open_is_known = outside(known, segment, open_is_known)
            segment = segment.chosen(keep)
        for plain in unpacked(segment, block_bytes):
            yield from decoder.decode(without_rolled_back(plain, part.rolled_back))


# Bits for the row number within an event. The other 39 are for the position: a log file has less than 2^39 bytes.
_ROW_BITS = 24
_OTHER_IDS = (
    "leave out the option server-id, so that each attempt of a task has a separate id; or set a range that no other "
    "reader has, with more ids than tasks run at once, and without spark.speculation if the server is MariaDB"
)
CHUNK, LOG, DEFINED, BARRIERS, IGNORED = "chunk", "log", "defined", "barriers", "ignored"
PLANNED = "planned"  # the server of the batch, and the transactions of its log up to the end of the batch
UNREAD = "unread"  # tables whose changes are not read: their targets are or will be emptied, and they are read again
FOLDS_NAMES = "folds_names"  # the server keeps names of tables in lower case


@dataclass(frozen=True, slots=True)
class MySqlRangeReader:
    """The reading of one range; `start` is the range as the planner made it."""

    settings: FollowSettings
    start: Mapping[str, Any]
    wanted: ImagePolicy  # of the target tables

    def chunks(self) -> Iterator[DecodedChunk]:
        """Yield the decoded changes of the range."""
        oddities: Counter[str] = Counter()
        if BARRIERS in self.start:
            yield DecodedChunk(
                DecodeResult(), 0, 0, barriers=tuple(barrier_from(barrier) for barrier in self.start[BARRIERS])
            )
            return
        if IGNORED in self.start:
            yield DecodedChunk(DecodeResult(skipped=Counter(self.start[IGNORED])), 0, 0)
            return
        yield from unless_skipped(self._changes(oddities), self.start)
        if oddities:
            yield DecodedChunk(DecodeResult(skipped=oddities), 0, 0)

    def _changes(self, oddities: Counter[str]) -> Iterator[DecodedChunk]:
        part = PartRead(self.settings.language, self.start.get(CHUNK, {}).get("where", ""))
        finished = map(self._finished, self._batches(oddities, part))
        for change in part.rows((batch for batch in finished if batch is not None), oddities):
            yield DecodedChunk(DecodeResult([change]), len(change), change.rows.nbytes)

    def _batches(self, oddities: Counter[str], part: PartRead) -> Iterator[ChangeBatch]:
        try:
            yield from self._parts(oddities, part)
        except ServerIdClash as error:
            # With few ids, two tasks may have the same one, or two attempts of a task.
            error.facts["range_of_the_pipeline"] = "{}-{}".format(*self.settings.server_ids)
            error.hint = _OTHER_IDS
            raise

    def _parts(self, oddities: Counter[str], part: PartRead) -> Iterator[ChangeBatch]:
        settings, start = self.settings, self.start
        server_id = settings.server_id(int(start.get("reader", 0)))
        if DEFINED in start:
            yield from (_empty(DefinitionVersion.from_json(version)) for version in start[DEFINED])
        elif CHUNK in start:
            chunk = chunk_from(start[CHUNK])
            options = SnapshotOptions(settings.rules, demand=part.demand(settings.demand), zone=settings.zone)
            if "as_of" in start:
                at = LogPosition.from_json(start["as_of"])
                log_options, check = self._log_options(), self._check_position
                yield from read_as_of(settings.server, chunk, at, options, log_options, server_id, oddities, check)
            else:
                yield from read_chunk(settings.server, chunk, options, oddities, self._check_server)
        else:
            log = range_from(start[LOG])
            yield from read_range(settings.server, log, self._log_options(), server_id, oddities=oddities)

    def _check_server(self, connection: Connection) -> None:
        require_read(connection, server_facts(connection), *self.start[PLANNED])

    def _choice(self) -> TableChoice:
        unread = frozenset((database, table) for database, table in self.start.get(UNREAD, ()))
        return AllBut(self.settings.tables, unread) if unread else self.settings.tables

    def _check_position(self, connection: Connection) -> None:
        require_position_of(server_facts(connection), self.start[PLANNED][0])
        self._check_server(connection)

    def _log_options(self) -> BinlogOptions:
        versions: dict[tuple[str, str], tuple[DefinitionVersion, ...]] = {}
        for record in self.start["history"]:
            version = DefinitionVersion.from_json(record)
            versions[version.name] = (*versions.get(version.name, ()), version)
        part = HistoryPart(versions)
        return BinlogOptions(
            choice=self._choice(),
            definitions=part,
            rules=self.settings.rules,
            policy=self.wanted,
            missing=GeneratedValues(self.settings.server, self.settings.rules, self.settings.demand),
            folds_names=FOLDS_NAMES in self.start,
        )

    def _finished(self, batch: ChangeBatch) -> ChangeBatch | None:
        """Return a batch in the form that tables accept, None for a table without key that is not captured.

        Comments and instants are removed where they are not wanted.
        """
        if not (batch.schema.primary_keys or self.settings.keyless):
            return None
        batch = replace(batch, schema=self._with_comments(batch.schema))
        if LOG in self.start:
            batch = replace(batch, positions=_row_places(batch))
        return in_zone(batch, self.settings.zone)

    def _with_comments(self, schema: SourceSchema) -> SourceSchema:
        """Return the schema with the comments that apply.

        Comments of new tables and columns always apply; changed comments apply only if comments follow ALTER TABLE.
        """
        if self.settings.comments:
            # An empty comment clears the one that may have existed before.
            fields = tuple(replace(field, comment=field.comment or "") for field in schema.fields)
            return replace(schema, fields=fields, comment=schema.comment or "")
        if DEFINED in self.start:
            return replace(schema, comments_follow=False)
        return replace(schema, fields=tuple(replace(field, comment=None) for field in schema.fields), comment=None)


def _row_places(batch: ChangeBatch) -> Int64s:
    """Return a position per row instead of per event, so that a bad row does not affect other rows of its event."""
    places: Int64s = np.minimum(batch.subs >> 1, (1 << _ROW_BITS) - 1).astype(np.int64)
    places += batch.positions << _ROW_BITS
    return places


def _empty(version: DefinitionVersion) -> ChangeBatch:
    """Return a batch without rows, which declares the columns that a table has from now on."""
    if version.definition is None:
        raise ValueError("a dropped table has no columns")
    schema = schema_of(version.definition)
    columns = pa.RecordBatch.from_arrays([pa.nulls(0)] * len(schema.fields), names=[f.name for f in schema.fields])
    return ChangeBatch.inserts(schema, columns)
