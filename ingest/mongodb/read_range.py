"""Reading of one range of a batch in a task: from a chunk or a part of the log to changes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.formats.change import DecodeResult, ImagePolicy
from penstock.ingest.database.skipped_parts import unless_skipped
from penstock.ingest.decoded_source import DecodedChunk
from penstock.ingest.mongodb.log.decode import EventDecoder
from penstock.ingest.mongodb.log.stream import LogPart, streamed
from penstock.ingest.mongodb.rows import DocumentRows
from penstock.ingest.mongodb.server.cluster_time import time_from
from penstock.ingest.mongodb.server.connection import kept_connected
from penstock.ingest.mongodb.snapshot.chunks import IdChunk, not_before, read_chunk
from penstock.ingest.source import Barrier

if TYPE_CHECKING:
    from penstock.ingest.mongodb.settings import MongoSettings

CHUNK, LOG, BARRIERS = "chunk", "log", "barriers"
log = logging.getLogger(__name__)


@dataclass(slots=True)
class MongoRangeReading:
    """The reading of one range; `start` is the range as the planner made it."""

    settings: MongoSettings
    start: Mapping[str, Any]
    wanted: ImagePolicy  # of the target tables

    def chunks(self) -> Iterator[DecodedChunk]:
        """Yield the decoded changes of the range."""
        if BARRIERS in self.start:
            barriers = tuple(Barrier(kind, database, name) for kind, database, name in self.start[BARRIERS])
            yield DecodedChunk(DecodeResult(), 0, 0, barriers=barriers)
            return
        oddities: Counter[str] = Counter()
        documents = DocumentRows(self.settings.choice, oddities)
        parts = self._chunk(documents) if CHUNK in self.start else self._log(documents)
        yield from unless_skipped(parts, self.start)
        counted = +oddities
        if counted:
            yield DecodedChunk(DecodeResult(skipped=counted), 0, 0)

    def _chunk(self, documents: DocumentRows) -> Iterator[DecodedChunk]:
        # The time before the start of the batch's log: later changes come through the log.
        concern = not_before(time_from(self.start["after"]) - 1)
        with kept_connected(self.settings.server) as connection:
            for batch, size in read_chunk(connection, IdChunk.from_json(self.start[CHUNK]), concern, documents):
                yield DecodedChunk(DecodeResult([batch]), len(batch), size)

    def _log(self, documents: DocumentRows) -> Iterator[DecodedChunk]:
        settings = self.settings
        first, last = (time_from(time) for time in self.start[LOG])
        part = LogPart(first, last, settings.database, settings.collection, settings.full_document)
        decoder = EventDecoder(
            settings.tables.includes,
            documents,
            self.wanted,
            settings.full_document == "required",
            documents.oddities,
        )
        with kept_connected(settings.server) as connection:
            for events, size in streamed(connection, part):
                renamed = tuple(name for name in sorted(events.new_names()) if settings.tables.includes(*name))
                # A collection may get back the name and the identity by which it is known.
                lacks = renamed if settings.reads_new_tables else ()
                yield DecodedChunk(DecodeResult(decoder.decode(events)), len(events), size, lacks_rows_of=lacks)
