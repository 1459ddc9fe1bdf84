"""A PostgreSQL database as a `ChangeSource`.

Offsets are a `PgProgress`: the position in the log, the tables still to be read, and the complete content of the batch,
so that a batch planned once is the same however often it is read.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import PenstockError, SourceError
from penstock.formats.change import ChangeBatch, DecodeOptions, SourceSchema
from penstock.ingest.database.requested_resets import unread_before_reset
from penstock.ingest.database.source import CHUNK_WEIGHT, DatabaseSource
from penstock.ingest.decoded_source import DecodedChunk
from penstock.ingest.postgres.captured_tables import captured
from penstock.ingest.postgres.gone_partitions import reported
from penstock.ingest.postgres.offsets import PgProgress, barrier_json
from penstock.ingest.postgres.planner import PgPlanner
from penstock.ingest.postgres.read_range import (
    AS_OF,
    BARRIERS,
    CHUNK,
    EMPTIED,
    IGNORED,
    KEYS,
    LOG,
    MOVED,
    PARTS,
    PLANNED,
    SAMPLE,
    WITHOUT,
    PgRangeReading,
)
from penstock.ingest.postgres.server.catalog import relations
from penstock.ingest.postgres.server.connection import connected, kept_connected
from penstock.ingest.postgres.server.lsn import lsn_text, parse_lsn
from penstock.ingest.postgres.server.slot import confirm, copied_slot, slot_facts
from penstock.ingest.postgres.settings import PgSettings
from penstock.ingest.postgres.snapshot.chunks import first_chunk
from penstock.ingest.postgres.table_as_of import SlotLog, table_as_of
from penstock.ingest.source import ComparisonPoint, Offsets, Range

log = logging.getLogger(__name__)


class PgSource(DatabaseSource[PgSettings, PgPlanner]):
    """A `ChangeSource` over one database."""

    def new_planner(self) -> PgPlanner:
        return PgPlanner(self.settings)

    def progress_at(self, offsets: Offsets) -> PgProgress:
        return PgProgress.from_json(offsets)

    def position_at(self, offsets: Offsets) -> int:
        return parse_lsn(offsets["log"])

    def available(self) -> Offsets:
        return {"log": lsn_text(self.planner.end())}

    def plan(self, start: Offsets, end: Offsets, tasks: int) -> list[Range]:
        """Return the ranges: chunks first, then the log, whose changes must follow the rows read."""
        progress = PgProgress.from_json(end)
        batch = progress.batch
        planned = {PLANNED: [progress.server, progress.timeline, lsn_text(batch.start)]}
        as_of: dict[str, Any] = {AS_OF: lsn_text(batch.as_of)} if batch.as_of else planned
        unread = unread_before_reset(self.settings, progress)
        parts: list[tuple[str, dict[str, Any], int]] = [
            (f"{chunk.schema}.{chunk.table}/{chunk.number}", {CHUNK: chunk.to_json(), **as_of}, CHUNK_WEIGHT)
            for chunk in batch.chunks
            if chunk.name not in unread
        ]
        if batch.barriers:
            parts.append(("barriers", {BARRIERS: [barrier_json(barrier) for barrier in batch.barriers]}, 1))
        if batch.ignored:
            parts.append(("ignored", {IGNORED: list(batch.ignored)}, 1))
        # One range for the whole log of the batch, because a slot has one reader at a time.
        if progress.log > batch.start:
            first, last = lsn_text(batch.start), lsn_text(progress.log)
            content: dict[str, Any] = {
                LOG: [first, last],
                "binary": self.repeated(self.planner.log_format.is_binary),
            }
            if progress.versions:
                content[KEYS] = {
                    str(version.oid): [*name, list(version.key)] for name, version in progress.versions.items()
                }
                content[PARTS] = {
                    str(version.oid): list(version.parts) for version in progress.versions.values() if version.parts
                }
            if progress.sample is not None:
                content[SAMPLE] = progress.sample.to_json()
            if without := dict.fromkeys([*batch.without, *unread]):
                content[WITHOUT] = [list(name) for name in without]
            moved = reported(progress)
            if moved:
                content[MOVED] = [[*name, lsn_text(position)] for name, position in moved.items()]
            if batch.emptied:
                content[EMPTIED] = [list(name) for name in batch.emptied]
            parts.append((first, content, progress.log - batch.start))
        skips = self.skips_if_lost(progress.reread)
        return [
            Range(number, place, content | skips, None, weight) for number, (place, content, weight) in enumerate(parts)
        ]

    def chunks(self, range_: Range, options: DecodeOptions) -> Iterator[DecodedChunk]:
        return PgRangeReading(self.settings, range_.start, options).chunks()

    def lag(self, offsets: Offsets) -> dict[str, int]:
        """Return the bytes of the log after these offsets, and the tables that are still to be read."""
        if "server" not in offsets:
            return {}
        progress = PgProgress.from_json(offsets)
        behind = max(0, self.planner.end() - progress.log)
        return {"log": behind} | {f"{schema}.{table}": 1 for schema, table in progress.unread}

    def mirror(self, offsets: Offsets) -> None:
        """Confirm the start of the batch that these offsets end, so that the server can remove older WAL.

        Not its end: until the checkpoint has noted the batch, a restart reads it again.
        """
        if "server" not in offsets:
            return
        progress = PgProgress.from_json(offsets)
        try:
            with kept_connected(self.settings.server) as connection:
                confirm(connection, progress.slot, progress.batch.start)
        except PenstockError as error:
            log.warning("event=position_not_confirmed slot=%s reason=%s", progress.slot, error.message)


_REMEDY = "or verify while nothing writes to the table"


@dataclass(slots=True)
class PgComparison:
    """A `ComparableSource`. Holds one block of rows, and the changes of a table since the position, in memory."""

    source: PgSource
    _kept: ExitStack = field(default_factory=ExitStack, repr=False)
    _slot: str = ""

    def tables(self) -> list[SourceSchema]:
        self._keep_log()
        with connected(self.source.settings.server) as connection:
            oids = [table.oid for table in captured(connection, self.source.settings)]
            return [relation.source_schema for relation in relations(connection, oids).values()]

    def _keep_log(self) -> None:
        """Keep the log from the pipeline's position on, while the pipeline itself continues."""
        if not self._slot:
            settings = self.source.settings
            holder = self._kept.enter_context(connected(settings.server))
            self._slot = copied_slot(holder, settings.slot)

    def release(self) -> None:
        # The copy of the slot goes with its connection.
        self._kept.close()
        self._slot = ""

    def newest(self, reached: Sequence[Offsets]) -> ComparisonPoint | None:
        found = [(PgProgress.from_json(offsets), offsets) for offsets in reached if "server" in offsets]
        if not found:
            return None
        # If two batches end at the same position, the later one may have read rows that the first one lacks.
        progress, offsets = max(found, key=lambda pair: (pair[0].log, pair[0].is_settled))
        if not progress.is_settled:
            raise SourceError(
                "the snapshots of some tables are still being read: they can be compared once the log has passed"
                " their position",
                position=lsn_text(progress.log),
                settles_at=lsn_text(progress.settle) if progress.settle else None,
                hint="verify again after the next batches",
                retryable=True,
            )
        self._require_log(progress.log)
        return ComparisonPoint(offsets, lsn_text(progress.log))

    def _require_log(self, position: int) -> None:
        """Raise a retryable SourceError if the pipeline has moved its slot beyond this position."""
        self._keep_log()
        with connected(self.source.settings.server) as connection:
            kept = slot_facts(connection, self._slot)
        if kept is None or kept.confirmed > position:
            raise SourceError(
                "the pipeline has continued meanwhile, and the log of this position is not kept any more",
                slot=self.source.settings.slot,
                position=lsn_text(position),
                kept_from=None if kept is None else lsn_text(kept.confirmed),
                hint="verify again",
                retryable=True,
            )

    def rows_at(self, table: SourceSchema, point: ComparisonPoint) -> Iterator[tuple[ChangeBatch, Mapping[str, int]]]:
        self._keep_log()
        settings = self.source.settings
        name = (str(table.database), str(table.table))
        with connected(settings.server) as connection:
            facts = {table.name: table for table in captured(connection, self.source.settings)}
            whole = first_chunk(connection, facts[name]) if name in facts else None
        if whole is None:
            return
        oddities: Counter[str] = Counter()
        slot_log = SlotLog(settings.server, self._slot, settings.publication.name, _REMEDY, settings.demand)
        last: ChangeBatch | None = None
        for batch in table_as_of(slot_log, whole, PgProgress.from_json(point.offsets).log, oddities):
            if last is not None:
                yield last, {}
            last = batch
        # Counts of nulled values come with the last rows.
        if last is not None:
            yield last, +oddities
