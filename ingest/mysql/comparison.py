"""Reads the tables of a server as of a binlog position, to compare them with target tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import SourceError
from penstock.formats.change import ChangeBatch, DecodeOptions, SourceSchema
from penstock.ingest.mysql.captured_tables import captured_facts
from penstock.ingest.mysql.definition import schema_of
from penstock.ingest.mysql.offsets import Progress, chunk_json
from penstock.ingest.mysql.read_range import CHUNK, MySqlRangeReader
from penstock.ingest.mysql.server.catalog import definitions
from penstock.ingest.mysql.server.connection import connected
from penstock.ingest.mysql.snapshot.chunks import next_chunks, start_chunks
from penstock.ingest.mysql.source import MySqlSource
from penstock.ingest.source import ComparisonPoint, Offsets

_CHUNKS_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class MySqlComparison:
    """A `ComparableSource`. Holds one chunk in memory."""

    source: MySqlSource

    def tables(self) -> list[SourceSchema]:
        settings = self.source.settings
        with connected(settings.server) as connection:
            names = [table.name for table in captured_facts(connection, settings)]
            return [schema_of(definition) for definition in definitions(connection, names).values()]

    def newest(self, reached: Sequence[Offsets]) -> ComparisonPoint | None:
        found = [(Progress.from_json(one), one) for one in reached if "server" in one]
        if not found:
            return None
        progress, offsets = max(found, key=lambda one: one[0].log.order)
        settled = progress.settle is None or not progress.log.is_before(progress.settle)
        if progress.reads_tables or progress.unsettled or not settled:
            raise SourceError(
                "the snapshots of some tables are still being read: they can be compared once the binlog has passed"
                " their position",
                position=progress.log,
                settles_at=progress.settle,
                hint="verify again after the next batches",
                retryable=True,
            )
        return ComparisonPoint(offsets, str(progress.log))

    def rows_at(self, table: SourceSchema, point: ComparisonPoint) -> Iterator[tuple[ChangeBatch, Mapping[str, int]]]:
        settings, progress = self.source.settings, Progress.from_json(point.offsets)
        known = self.source.definitions_for(progress)
        with connected(settings.server) as connection:
            facts = {one.name: one for one in captured_facts(connection, settings)}
            cursor = start_chunks(connection, facts[str(table.database), str(table.table)], settings.chunks)
            while not cursor.done:
                chunks, cursor = next_chunks(connection, cursor, _CHUNKS_AT_ONCE)
                for chunk in chunks:
                    start = {CHUNK: chunk_json(chunk), "as_of": progress.log.to_json(), **known}
                    yield from self._chunk(start)

    def _chunk(self, start: Mapping[str, Any]) -> Iterator[tuple[ChangeBatch, Mapping[str, int]]]:
        oddities: Counter[str] = Counter()
        last: ChangeBatch | None = None
        for part in MySqlRangeReader(self.source.settings, start, DecodeOptions()).chunks():
            oddities.update(part.decoded.skipped)
            for batch in part.decoded.batches:
                if last is not None:
                    yield last, {}
                last = batch
        if last is not None:  # counts of nulled values come with the last rows
            yield last, oddities
