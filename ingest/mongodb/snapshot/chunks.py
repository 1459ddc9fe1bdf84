"""Chunks of collections: cut by the index of `_id`, and read as inserts."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.formats.change import ChangeBatch
from penstock.ingest.mongodb.server.cluster_time import ClusterTime, timestamp_of
from penstock.ingest.mongodb.server.collections import TableName
from penstock.ingest.mongodb.spellings import by_spelling

if TYPE_CHECKING:
    from penstock.ingest.mongodb.rows import DocumentRows
    from penstock.ingest.mongodb.server.connection import MongoConnection

# Documents of one reply; a reply has at most 16 MiB anyway.
_DOCUMENTS = 10_000


@dataclass(frozen=True, slots=True)
class IdChunk:
    """The documents whose `_id` is at least `lower` and below `upper`; an empty bound is open.

    Bounds are BSON documents in base64, so that all types are restored exactly.
    """

    database: str
    collection: str
    lower: str = ""
    upper: str = ""
    number: int = 0

    @property
    def name(self) -> TableName:
        return self.database, self.collection

    def bounds(self) -> dict[str, Any]:
        """Return the bounds of the index as parts of a `find`.

        Conditions on `_id` would find only values of the bound's own type; bounds of the index do not.
        """
        from bson import decode

        found = {name: decode(b64decode(text)) for name, text in (("min", self.lower), ("max", self.upper)) if text}
        return {**found, "hint": {"_id": 1}} if found else {}

    def to_json(self) -> list[Any]:
        return [self.database, self.collection, self.lower, self.upper, self.number]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> IdChunk:
        return cls(*value)


def cut_chunk(connection: MongoConnection, chunk: IdChunk, rows: int) -> tuple[IdChunk, IdChunk | None]:
    """Return a chunk of about this many documents, and the rest after it, None if the chunk is the last one."""
    from bson import encode

    find = {"find": chunk.collection, "projection": {"_id": 1}, "sort": {"_id": 1}, "skip": rows, "limit": 1}
    found = connection.command(chunk.database, {**find, **chunk.bounds(), "singleBatch": True})["cursor"]["firstBatch"]
    if not found:
        return chunk, None
    bound = b64encode(encode({"_id": found[0]["_id"]})).decode()
    return replace(chunk, upper=bound), replace(chunk, lower=bound, number=chunk.number + 1)


def read_chunk(
    connection: MongoConnection, chunk: IdChunk, concern: dict[str, Any], documents: DocumentRows
) -> Iterator[tuple[ChangeBatch, int]]:
    """Yield the chunk's documents, with the size of each reply at its first batch. Holds one reply in memory."""
    find = {"find": chunk.collection, "batchSize": _DOCUMENTS, "readConcern": concern, **chunk.bounds()}
    row = 0
    for reply in connection.documents(chunk.database, find):
        if not len(reply.documents):
            continue
        rows = documents.rows(reply.block, reply.documents, chunk.name)
        schema = documents.schema(chunk.name, rows.schema.names)
        size = len(reply.block.raw)
        for batch in by_spelling(ChangeBatch.inserts(schema, rows, row), documents):
            yield batch, size
            size = 0
        row += len(rows)


def not_before(time: ClusterTime) -> dict[str, Any]:
    """Return the read concern of documents with all changes up to this time.

    Without it, a change before this time that no majority has yet would be in neither the read nor the log.
    """
    return {"level": "majority", "afterClusterTime": timestamp_of(time)}


def exactly_at(time: ClusterTime) -> dict[str, Any]:
    """Return the read concern of documents as they were at this time."""
    return {"level": "snapshot", "atClusterTime": timestamp_of(time)}
