"""MongoDB collections as a `ChangeSource`.

Offsets are a `MongoProgress`: the position in the log, the collections still to be read, and the complete content of
the batch, so that a batch planned once is the same however often it is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import SourceError
from penstock.formats.change import ChangeBatch, DecodeOptions, SourceSchema
from penstock.ingest.database.source import CHUNK_WEIGHT, DatabaseSource
from penstock.ingest.decoded_source import DecodedChunk
from penstock.ingest.mongodb.offsets import MongoProgress
from penstock.ingest.mongodb.planner import MongoPlanner, check_progress
from penstock.ingest.mongodb.read_range import BARRIERS, CHUNK, LOG, MongoRangeReading
from penstock.ingest.mongodb.rows import DocumentRows
from penstock.ingest.mongodb.server.cluster_time import ClusterTime, time_from, time_json, time_text
from penstock.ingest.mongodb.server.collections import TableName
from penstock.ingest.mongodb.server.connection import MongoConnection, connected
from penstock.ingest.mongodb.settings import MongoSettings
from penstock.ingest.mongodb.snapshot.chunks import IdChunk, exactly_at, read_chunk
from penstock.ingest.source import ComparisonPoint, Offsets, Range


class MongoSource(DatabaseSource[MongoSettings, MongoPlanner]):
    """A `ChangeSource` over one replica set or sharded cluster."""

    def new_planner(self) -> MongoPlanner:
        return MongoPlanner(self.settings)

    def progress_at(self, offsets: Offsets) -> MongoProgress:
        return MongoProgress.from_json(offsets)

    def position_at(self, offsets: Offsets) -> ClusterTime:
        return time_from(offsets["log"])

    def available(self) -> Offsets:
        return {"log": time_json(self.planner.end())}

    def plan(self, start: Offsets, end: Offsets, tasks: int) -> list[Range]:
        """Return the ranges: chunks first, then the log, whose changes must follow the documents read."""
        progress = MongoProgress.from_json(end)
        batch = progress.batch
        after = time_json(batch.start)
        parts: list[tuple[str, dict[str, Any], int]] = [
            (
                f"{chunk.database}.{chunk.collection}/{chunk.number}",
                {CHUNK: chunk.to_json(), "after": after},
                CHUNK_WEIGHT,
            )
            for chunk in batch.chunks
        ]
        if batch.barriers:
            barriers = [[barrier.kind, barrier.database, barrier.table] for barrier in batch.barriers]
            parts.append(("barriers", {BARRIERS: barriers}, 1))
        # One range for the whole log of the batch, because every change stream reads all of the server's log.
        if progress.log > batch.start:
            parts.append((time_text(batch.start), {LOG: [after, time_json(progress.log)]}, CHUNK_WEIGHT))
        skips = self.skips_if_lost(progress.reread, lambda: self._check_log(progress))
        return [
            Range(number, place, content | skips, None, weight) for number, (place, content, weight) in enumerate(parts)
        ]

    def _check_log(self, progress: MongoProgress) -> None:
        """Raise PositionLost if the log of the batch that ends here is gone."""
        with self.planner.connected() as connection:
            check_progress(connection, replace(progress, log=progress.batch.start), self.settings)

    def chunks(self, range_: Range, options: DecodeOptions) -> Iterator[DecodedChunk]:
        return MongoRangeReading(self.settings, range_.start, options).chunks()

    def lag(self, offsets: Offsets) -> dict[str, int]:
        """Return the seconds of the log after these offsets, and the collections that are still to be read."""
        if "server" not in offsets:
            return {}
        progress = MongoProgress.from_json(offsets)
        behind = max(0, (self.planner.end() >> 32) - (progress.log >> 32))
        return {"log": behind} | {f"{database}.{name}": 1 for database, name in progress.unread}

    def mirror(self, offsets: Offsets) -> None:
        """Do nothing: the server does not store the positions of its readers."""


def described(
    connection: MongoConnection, name: TableName, documents: DocumentRows, samples: int = 1
) -> SourceSchema | None:
    """Return the columns of a collection, as its first document has them; None if it has no document.

    With more `samples`, return the columns of this number of the first documents, and of the last ones.
    """
    if documents.choice.fields:
        return documents.schema(name, ["_id", *(field for field, _ in documents.choice.fields if field != "_id")])
    columns = dict[str, None]()
    for direction in (1, -1) if samples > 1 else (1,):
        find: dict[str, object] = {"find": name[1], "limit": samples, "batchSize": samples}
        if samples > 1:
            find["sort"] = {"_id": direction}
        for reply in connection.documents(name[0], find):
            if len(reply.documents):
                columns |= dict.fromkeys(documents.rows(reply.block, reply.documents, name).schema.names)
    return documents.schema(name, list(columns)) if columns else None


@dataclass(frozen=True, slots=True)
class MongoComparison:
    """A `ComparableSource`: collections as they were at a cluster time. Holds one reply in memory."""

    source: MongoSource

    def tables(self) -> list[SourceSchema]:
        documents = DocumentRows(self.source.settings.choice, Counter())
        with connected(self.source.settings.server) as connection:
            names = [collection.table for collection in self.source.planner.captured(connection)]
            found = [described(connection, name, documents) for name in names]
        return [part for part in found if part is not None]

    def newest(self, reached: Sequence[Offsets]) -> ComparisonPoint | None:
        found = [(MongoProgress.from_json(offsets), offsets) for offsets in reached if "server" in offsets]
        if not found:
            return None
        # If two batches end at the same time, the later one may have read rows that the first one lacks.
        progress, offsets = max(found, key=lambda pair: (pair[0].log, pair[0].is_settled))
        if not progress.is_settled:
            raise SourceError(
                "the snapshots of some collections are still being read: they can be compared once the log has passed"
                " their position",
                position=time_text(progress.log),
                settles_at=time_text(progress.settle) if progress.settle else None,
                hint="verify again after the next batches",
                retryable=True,
            )
        return ComparisonPoint(offsets, time_text(progress.log))

    def rows_at(self, table: SourceSchema, point: ComparisonPoint) -> Iterator[tuple[ChangeBatch, Mapping[str, int]]]:
        # The position itself is the first time that was not read.
        at = MongoProgress.from_json(point.offsets).log - 1
        oddities: Counter[str] = Counter()
        documents = DocumentRows(self.source.settings.choice, oddities)
        chunk = IdChunk(str(table.database), str(table.table))
        with connected(self.source.settings.server) as connection:
            last: ChangeBatch | None = None
            for batch, _ in read_chunk(connection, chunk, exactly_at(at), documents):
                if last is not None:
                    yield last, {}
                last = batch
            # Counts of nulled values come with the last rows.
            if last is not None:
                yield last, +oddities
