"""Reading of one range of a batch in a task: from a chunk or a part of the log to changes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.formats.change import ChangeBatch, DecodeResult, ImagePolicy
from penstock.ingest.database.skipped_parts import unless_skipped
from penstock.ingest.database.table_parts import PartRead
from penstock.ingest.decoded_source import DecodedChunk
from penstock.ingest.postgres.errors import SlotLost, SlotMissing
from penstock.ingest.postgres.gone_partitions import ROWS_MOVED, tables_with_gone, warn_of_gone
from penstock.ingest.postgres.log.decode import LogDecoder
from penstock.ingest.postgres.log.messages import MessageBlock
from penstock.ingest.postgres.log.partitions import LoggedPartition, LoggedPartitions
from penstock.ingest.postgres.log.stream import WalRange, streamed
from penstock.ingest.postgres.log.unchanged import completed
from penstock.ingest.postgres.offsets import barrier_from
from penstock.ingest.postgres.relation import FULL, NeedsText
from penstock.ingest.postgres.server.catalog import Types, logged_relation
from penstock.ingest.postgres.server.connection import connected, kept_connected
from penstock.ingest.postgres.server.log_sample import LogSample, require_same_log
from penstock.ingest.postgres.server.lsn import parse_lsn
from penstock.ingest.postgres.server.server_identity import (
    identity_and_slot,
    require_read,
    require_same_server,
    require_written,
)
from penstock.ingest.postgres.server.slot import free_slot, readable_slot, require_slot
from penstock.ingest.postgres.snapshot.chunks import KeyChunk, read_chunk
from penstock.ingest.postgres.table_as_of import SlotLog, chunk_as_of

if TYPE_CHECKING:
    from penstock.formats.demand import DemandPolicy
    from penstock.ingest.postgres.relation import LoggedRelation, Relation
    from penstock.ingest.postgres.server.connection import PgConnection
    from penstock.ingest.postgres.settings import PgSettings

CHUNK, LOG, BARRIERS, AS_OF, WITHOUT = "chunk", "log", "barriers", "as_of", "without"
PLANNED = "planned"  # the server of the batch, its timeline, and the position at which the log of the batch begins
EMPTIED = "emptied"  # tables that the first transaction empties
KEYS = "keys"  # the name and the primary key of known tables, by their numbers
PARTS = "parts"  # what the plan knows of the partitions of known tables, by their numbers
MOVED = "moved"  # tables whose rows left with partitions, as the plan knows, and the position until then
SAMPLE = "sample"  # of the log before the end of the range
IGNORED = "ignored"  # changes of whole tables that are not followed
TRUNCATE = "truncate"
DROPPED = "dropped-table"


log = logging.getLogger(__name__)
_REMEDY = "then start with --resnapshot, which reads the tables again"
_DROPPED = "it was created or renamed after the last batch and is gone: its primary key is not known any more"
_KEPT = "its rows stay in the target table; read the table again with --reset TABLE"


@dataclass(slots=True)
class PgRangeReading:
    """The reading of one range; `start` is the range as the planner made it."""

    settings: PgSettings
    start: Mapping[str, Any]
    wanted: ImagePolicy  # of the target tables

    def chunks(self) -> Iterator[DecodedChunk]:
        """Yield the decoded changes of the range."""
        if BARRIERS in self.start:
            barriers = tuple(map(barrier_from, self.start[BARRIERS]))
            yield DecodedChunk(DecodeResult(), 0, 0, barriers=barriers)
            return
        if IGNORED in self.start:
            yield DecodedChunk(DecodeResult(skipped=Counter(self.start[IGNORED])), 0, 0)
            return
        # The next plan finds the same and reads the tables again; a slot that is only ahead may be right by then.
        lost = (SlotLost, SlotMissing) if self.settings.rereads_when_lost else ()
        yield from unless_skipped(self._changes(), self.start, lost)

    def _changes(self) -> Iterator[DecodedChunk]:
        oddities: Counter[str] = Counter()
        if CHUNK in self.start:
            chunk = KeyChunk.from_json(self.start[CHUNK])
            part = PartRead(self.settings.language, chunk.where)
            for batch in part.rows(self._chunk(chunk, part.demand(self.settings.demand), oddities), oddities):
                yield DecodedChunk(DecodeResult([batch]), len(batch), batch.rows.nbytes)
        else:
            yield from self._log(oddities)
        if oddities:
            yield DecodedChunk(DecodeResult(skipped=oddities), 0, 0)

    def _chunk(self, chunk: KeyChunk, demand: DemandPolicy | None, oddities: Counter[str]) -> Iterator[ChangeBatch]:
        settings = self.settings
        if AS_OF not in self.start:
            return read_chunk(settings.server, chunk, oddities, demand, self._check_server)
        slot_log = SlotLog(
            settings.server, settings.slot, settings.publication.name, _REMEDY, demand, settings.follows_truncate
        )
        return chunk_as_of(slot_log, chunk, parse_lsn(self.start[AS_OF]), oddities)

    def _check_server(self, connection: PgConnection) -> None:
        system, timeline, position = self.start[PLANNED]
        require_read(connection, system, timeline, parse_lsn(position))

    def _log(self, oddities: Counter[str]) -> Iterator[DecodedChunk]:
        binary, done = bool(self.start["binary"]), 0
        while True:
            counted: Counter[str] = Counter()
            try:
                for chunk, rows in self._messages(counted, done, binary=binary):
                    done = rows
                    oddities.update(counted)
                    counted.clear()
                    yield chunk
            except NeedsText:
                # The server sends all values in one format: read the range again as text, without the rows so far.
                binary = False
            else:
                oddities.update(counted)
                return

    def _messages(self, oddities: Counter[str], done: int, *, binary: bool) -> Iterator[tuple[DecodedChunk, int]]:
        """Yield the changes after the first `done` rows, with the number of rows so far."""
        settings = self.settings
        first, last = (parse_lsn(position) for position in self.start[LOG])
        part = WalRange(settings.slot, (settings.publication.name,), first, last, binary)
        with ExitStack() as stack:
            catalog = stack.enter_context(kept_connected(settings.server))
            # Checked here as well: the slot may have been moved or dropped since the batch was planned, and the server
            # may have been restored: its reader would wait for the end of the range, or read another log.
            identity, slot = identity_and_slot(catalog, settings.slot)
            require_written(catalog, identity, last)
            if SAMPLE in self.start:
                require_same_log(settings.server, identity, LogSample.from_json(self.start[SAMPLE]))
            readable_slot(catalog, settings.slot, slot, first)
            if slot is not None and slot.is_active:
                free_slot(catalog, settings.slot, first)
            stream = stack.enter_context(connected(settings.server, replication=True))
            require_same_server(stream, identity)
            types = Types(catalog)

            def described(logged: LoggedRelation) -> Relation | None:
                return self._described(catalog, types, logged, oddities, binary=binary)

            decoder = LogDecoder(described, self.wanted, oddities)
            partitions = LoggedPartitions()
            # Again: another reader may have confirmed changes as long as this one waited for it.
            checked = partial(require_slot, catalog, settings.slot, first)
            for messages in streamed(stream, part, checked):
                block = MessageBlock.of(messages)
                partitions.take(block)
                found, truncations = decoder.decode(block)
                # If TRUNCATE is followed, the batch before has emptied the tables.
                for truncation in truncations if not settings.follows_truncate else ():
                    oddities[TRUNCATE] += 1
                    log.warning(
                        "event=truncate_not_followed table=%s.%s note=%s", truncation.database, truncation.table, _KEPT
                    )
                batches = [completed(catalog, batch, oddities, settings.demand) for batch in found]
                batches = [_after(batch, max(done, self._first_row(batch))) for batch in batches]
                decoded = DecodeResult([batch for batch in batches if len(batch)], truncations=truncations)
                yield DecodedChunk(decoded, sum(map(len, decoded.batches)), messages.size), decoder.rows
            self._count_gone(catalog, partitions.found, oddities)

    def _count_gone(self, catalog: PgConnection, partitions: list[LoggedPartition], oddities: Counter[str]) -> None:
        """Count the tables that lost partitions which no plan has seen. If that is followed, the planner does it."""
        if self.settings.follows_truncate:
            return
        left_out = {(schema, table) for schema, table in self.start.get(WITHOUT, ())}
        parts = self.start.get(PARTS, {})  # ranges that an older release planned have none
        names = {oid: (schema, table) for oid, (schema, table, _) in self.start.get(KEYS, {}).items()}
        tables = {name: parts.get(oid, ()) for oid, name in names.items() if name not in left_out}
        moved = {(schema, table): parse_lsn(position) for schema, table, position in self.start.get(MOVED, ())}
        found = tables_with_gone(catalog, partitions, tables, moved)
        warn_of_gone(found)
        oddities.update({ROWS_MOVED: len(found)} if found else {})

    def _first_row(self, batch: ChangeBatch) -> int:
        """Return the number of the first row of a table that is applied: rows before TRUNCATE are not."""
        name = [batch.schema.database, batch.schema.table]
        return next((rows for *table, rows in self.start.get(EMPTIED, ()) if table == name), 0)

    def _described(
        self, catalog: PgConnection, types: Types, logged: LoggedRelation, oddities: Counter[str], *, binary: bool
    ) -> Relation | None:
        name = [logged.schema, logged.table]
        if name in self.start.get(WITHOUT, ()) or not self.settings.tables.includes(logged.schema, logged.table):
            return None
        relation = logged_relation(catalog, types, logged, self._last_key(logged))
        if relation is None:
            oddities[DROPPED] += 1
            log.warning("event=rows_of_dropped_table_left_out table=%s.%s note=%s", *name, _DROPPED)
        if relation is None or not relation.key or not self._is_planned(name):
            return None
        if binary and not relation.is_binary:
            raise NeedsText
        return relation

    def _is_planned(self, name: list[str]) -> bool:
        """Return whether the plan knew a table of this name. Another is read as a whole once a plan has found it.

        A name that a table had before it was renamed may be known to no plan.
        """
        known = self.start.get(KEYS)
        return not self.settings.reads_new_tables or known is None or any(table[:2] == name for table in known.values())

    def _last_key(self, logged: LoggedRelation) -> tuple[str, ...] | None:
        """Return the primary key that a table of this name had when the batch was planned."""
        known = self.start.get(KEYS)
        if known is None and logged.identity != FULL:  # planned by an older release
            return tuple(column.name for column in logged.columns if column.in_identity)
        schema, table, key = (known or {}).get(str(logged.oid), (None, None, ()))
        return tuple(key) if (schema, table) == (logged.schema, logged.table) else None


def _after(batch: ChangeBatch, done: int) -> ChangeBatch:
    """Return the rows with numbers from `done` on."""
    return batch if not done else batch.filter(batch.positions >= done)
