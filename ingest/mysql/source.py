"""A MySQL or MariaDB server as a `ChangeSource`, and its tables as of a binlog position, to compare them with targets.

Offsets are a `Progress`: the binlog position, the tables still to be read, and the complete content of the batch, so
that a batch planned once is the same however often it is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import SourceError
from penstock.formats.change import ChangeBatch, DecodeOptions, SourceSchema
from penstock.ingest.database.source import CHUNK_WEIGHT, DatabaseSource
from penstock.ingest.decoded_source import DecodedChunk
from penstock.ingest.mysql.binlog.log_sample import require_same_log
from penstock.ingest.mysql.binlog.range_cutter import BinlogRange
from penstock.ingest.mysql.binlog.resume import require_log
from penstock.ingest.mysql.captured_tables import captured_facts
from penstock.ingest.mysql.ddl.history import DefinitionVersion, SchemaHistory
from penstock.ingest.mysql.definition import NETWORK_BYTES, schema_of
from penstock.ingest.mysql.emptied_tables import unread_in
from penstock.ingest.mysql.errors import BinlogPurged
from penstock.ingest.mysql.offsets import BatchContent, Progress, barrier_json, chunk_json, range_json
from penstock.ingest.mysql.planner import Planner
from penstock.ingest.mysql.position import LogPosition, file_number
from penstock.ingest.mysql.read_range import (
    BARRIERS,
    CHUNK,
    DEFINED,
    FOLDS_NAMES,
    IGNORED,
    LOG,
    PLANNED,
    UNREAD,
    MySqlRangeReader,
)
from penstock.ingest.mysql.server.catalog import TableName, columns_with_values, definitions
from penstock.ingest.mysql.server.connection import connected, log_files, server_facts
from penstock.ingest.mysql.settings import FollowSettings
from penstock.ingest.mysql.snapshot.chunks import next_chunks, start_chunks
from penstock.ingest.source import ComparisonPoint, Offsets, Range, grouped

# Positions are ordered by the number of their file alone, so this one is after all real files.
_LAST_FILE = "end.999999999"
# The weight of a table that is a single chunk, which is usually small.
_WHOLE_TABLE_WEIGHT = 1 << 18


class MySqlSource(DatabaseSource[FollowSettings, Planner]):
    """A `ChangeSource` over one server."""

    def new_planner(self) -> Planner:
        return Planner(self.settings)

    def progress_at(self, offsets: Offsets) -> Progress:
        return Progress.from_json(offsets)

    def position_at(self, offsets: Offsets) -> LogPosition:
        return LogPosition.from_json(offsets["log"])

    def plans_again(self, error: SourceError, attempt: int) -> bool:
        # If the binlog was purged after the pipeline had read it, a new planner continues after the purged part.
        return error.retryable or (isinstance(error, BinlogPurged) and attempt == 0)

    def available(self) -> Offsets:
        return {"log": self.planner.end().to_json()}

    def plan(self, start: Offsets, end: Offsets, tasks: int) -> list[Range]:
        """Return the ranges: chunks, then new definitions, then the binlog, whose changes must follow the rows read."""
        progress = Progress.from_json(end)
        batch = progress.batch
        unread = unread_in(self.settings, progress)
        parts = [*_chunks(progress, unread), *_definitions(batch), *_log(batch, unread)]
        if not parts:
            return []
        if batch.log or batch.as_of:
            known = self._known(progress)
            parts = [
                (place, content | known, weight) if _reads_log(content) else (place, content, weight)
                for place, content, weight in parts
            ]
        skips = self.skips_if_lost(progress.reread, lambda: self._check_log(progress))
        ranges = [
            Range(number, place, content | skips, None, weight) for number, (place, content, weight) in enumerate(parts)
        ]
        # One server id per task: the server disconnects the older of two readers with the same id.
        for reader, group in enumerate(grouped(ranges, tasks)):
            for range_ in group:
                range_.start["reader"] = reader
        return ranges

    def _check_log(self, progress: Progress) -> None:
        """Raise PositionLost if the binlog of the batch that ends here is gone."""
        batch = progress.batch
        if batch.as_of is None and not batch.log:
            return
        start = batch.as_of or _start_of(batch.log[0])
        server = self.settings.server
        with connected(server) as connection:
            facts = server_facts(connection)
            if facts.uuid != progress.server:  # its log has other places
                return
            require_log(connection, facts, replace(start, gtid=progress.log.gtid))
        require_same_log(server, start, self.settings.server_id(-1))

    def _known(self, progress: Progress) -> dict[str, Any]:
        """Return the definitions that binlog readers need because the binlog does not contain them."""
        # The batch says itself where its part of the binlog starts: a first batch has no position before it.
        batch = progress.batch
        start = batch.as_of or LogPosition(batch.log[0].file, batch.log[0].start)
        return self._part(self.planner.recorded.at(progress), start, LogPosition(_after(progress.log), 0))

    def definitions_for(self, progress: Progress) -> dict[str, Any]:
        """Return the definitions for a binlog reader from this position to the end of the planned part."""
        return self._part(self.planner.recorded.complete(progress.server), progress.log, LogPosition(_LAST_FILE, 0))

    def _part(self, history: SchemaHistory, start: LogPosition, end: LogPosition) -> dict[str, Any]:
        with connected(self.settings.server) as connection:
            names_in_log = self.planner.names_in_log(connection, start)
        part = history.part(self.settings.tables, start, end)
        # With names in the log, only definitions with details that the log lacks are sent to tasks.
        versions = [
            version
            for found in part.versions.values()
            for version in found
            if not names_in_log or self.settings.comments or _has_details(version)
        ]
        folds = {FOLDS_NAMES: True} if history.lower_names else {}
        return {"history": [version.to_json() for version in versions], **folds}

    def chunks(self, range_: Range, options: DecodeOptions) -> Iterator[DecodedChunk]:
        return MySqlRangeReader(self.settings, range_.start, options).chunks()

    def lag(self, offsets: Offsets) -> dict[str, int]:
        """Return the bytes of binlog after these offsets, and the tables that are still to be read."""
        if "server" not in offsets:
            return {}
        progress = Progress.from_json(offsets)
        with connected(self.settings.server) as connection:
            files = log_files(connection)
        here = file_number(progress.log.file)
        behind = sum(size for name, size in files if file_number(name) >= here)
        waiting = {f"{database}.{table}": 1 for database, table in progress.unread}
        return {"log": behind - progress.log.pos} | waiting

    def columns_with_values(self, table: TableName) -> list[str]:
        # The planner requests reading for columns that a statement in the binlog adds.
        known = self.planner.recorded.columns(table)
        with connected(self.settings.server) as connection:
            filled = columns_with_values(connection, table, is_mariadb=server_facts(connection).is_mariadb)
        return [name for name in filled if name not in known]

    def mirror(self, offsets: Offsets) -> None:
        """Do nothing: a server does not store the positions of its readers."""


def _after(position: LogPosition) -> str:
    """Return a file name that sorts after this position's file."""
    return f"end.{file_number(position.file) + 1}"


def _start_of(part: BinlogRange) -> LogPosition:
    return LogPosition(part.file, part.start, begun=part.begun, sample=part.sample)


Part = tuple[str, dict[str, Any], int]


def _planned(progress: Progress) -> dict[str, Any]:
    return {PLANNED: [progress.server, progress.log.gtid]}


def _chunks(progress: Progress, unread: Collection[TableName]) -> Iterator[Part]:
    batch = progress.batch
    as_of = _planned(progress)
    if batch.as_of is not None:
        as_of["as_of"] = batch.as_of.to_json()
    for chunk in batch.chunks:
        if (chunk.database, chunk.table) in unread:
            continue
        weight = CHUNK_WEIGHT if chunk.lower or not chunk.is_last else _WHOLE_TABLE_WEIGHT
        yield f"{chunk.database}.{chunk.table}/{chunk.number}", {CHUNK: chunk_json(chunk), **as_of}, weight


def _definitions(batch: BatchContent) -> Iterator[Part]:
    if batch.defined:
        yield "definitions", {DEFINED: [version.to_json() for version in batch.defined]}, 1
    if batch.ignored:
        yield "definitions", {IGNORED: list(batch.ignored)}, 1
    if batch.barriers:
        yield "barriers", {BARRIERS: [barrier_json(barrier) for barrier in batch.barriers]}, 1


def _log(batch: BatchContent, unread: Collection[TableName]) -> Iterator[Part]:
    marks = {UNREAD: [list(name) for name in unread]} if unread else {}
    for part in batch.log:
        yield f"{part.file}:{part.start}", {LOG: range_json(part), **marks}, part.bytes


def _reads_log(content: Mapping[str, Any]) -> bool:
    return LOG in content or "as_of" in content


def _has_details(version: DefinitionVersion) -> bool:
    """Return whether the binlog omits details of this table: booleans, addresses, uuids."""
    if version.definition is None:
        return True
    return any(
        column.type.base in NETWORK_BYTES or (column.type.base == "tinyint" and column.type.size == 1)
        for column in version.definition.columns
    )


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
        found = [(Progress.from_json(offsets), offsets) for offsets in reached if "server" in offsets]
        if not found:
            return None
        progress, offsets = max(found, key=lambda pair: pair[0].log.order)
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
            facts = {table.name: table for table in captured_facts(connection, settings)}
            cursor = start_chunks(connection, facts[str(table.database), str(table.table)], settings.chunks)
            while not cursor.done:
                chunks, cursor = next_chunks(connection, cursor, _CHUNKS_AT_ONCE)
                for chunk in chunks:
                    as_of = {**_planned(progress), "as_of": progress.log.to_json()}
                    start = {CHUNK: chunk_json(chunk), **as_of, **known}
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
        # Counts of nulled values come with the last rows.
        if last is not None:
            yield last, oddities
