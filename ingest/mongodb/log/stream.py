"""A change stream between two cluster times: opened at the first, read up to the second, opened again if it ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from penstock.errors import SourceError
from penstock.ingest.mongodb.errors import CursorLost
from penstock.ingest.mongodb.log.events import OTHERS, ROWS, Events
from penstock.ingest.mongodb.server.cluster_time import ClusterTime, time_of_token, time_text, timestamp_of

if TYPE_CHECKING:
    from penstock.ingest.mongodb.server.connection import MongoConnection, Reply

log = logging.getLogger(__name__)

FullDocument = Literal["lookup", "required"]
# Events of one reply; a reply has at most 16 MiB anyway.
_EVENTS = 4096
# How long the server may not come closer to the end, in seconds.
_LONGEST_WAIT_S = 120.0


@dataclass(frozen=True, slots=True)
class LogPart:
    """The events with `start <= time < end`, of one database, or with None of the whole cluster.

    `collection` is the only one that is wanted, None if there may be others.
    """

    start: ClusterTime
    end: ClusterTime
    database: str | None
    collection: str | None
    full_document: FullDocument = "lookup"


def streamed(connection: MongoConnection, part: LogPart) -> Iterator[tuple[Events, int]]:
    """Yield the events of the part in order, with the size of the replies that contained them."""
    # An event is read again if the server closes the stream: those up to this time are complete.
    opens: dict[str, Any] = {"startAtOperationTime": timestamp_of(part.start)}
    while True:
        token = ""
        for reply, events, is_end in _replies(connection, part, opens):
            token = reply.token or token
            if len(events):
                yield events, len(reply.block.raw)
            if is_end:
                return
        # The stream of a database ends when the database is dropped. The next one begins after that event.
        if not token:
            raise CursorLost("the server ended the change stream", retryable=True, database=part.database)
        log.info("event=change_stream_ended database=%s note=a new one begins after it", part.database)
        opens = {"startAfter": {"_data": token}}


def _replies(connection: MongoConnection, part: LogPart, opens: dict[str, Any]) -> Iterator[tuple[Reply, Events, bool]]:
    """Yield the replies of one cursor, with their events before the end, and whether the end is reached."""
    began, newest = time.monotonic(), 0
    for reply in connection.documents(part.database or "admin", command_of(part, opens)):
        events = Events.of(reply.block, reply.documents)
        kept = events.before_time(part.end)
        at = int(events.time[-1]) if len(events) else _time_reached(reply)
        yield reply, kept, len(kept) < len(events) or at >= part.end
        if at > newest:
            began, newest = time.monotonic(), at
        elif time.monotonic() > began + _LONGEST_WAIT_S:
            raise SourceError(
                "the change stream does not reach the end of the batch",
                retryable=True,
                reached=time_text(newest),
                end=time_text(part.end),
                hint="a majority of the replica set's members must be reachable: see rs.status()",
            )


def _time_reached(reply: Reply) -> ClusterTime:
    """Return the time before which all events have come. A reply without events says so by its token."""
    found = time_of_token(reply.token)
    return reply.time if found is None else found


def command_of(part: LogPart, opens: dict[str, Any]) -> dict[str, Any]:
    """Return the command that opens the stream."""
    stage: dict[str, Any] = {**opens}
    if part.full_document == "required":
        stage |= {"fullDocument": "required", "fullDocumentBeforeChange": "required"}
    else:
        stage["fullDocument"] = "updateLookup"
    if part.database is None:
        stage["allChangesForCluster"] = True
    match: dict[str, Any] = {"operationType": {"$in": [*ROWS, *OTHERS]}}
    if part.collection is not None:
        # Drops of the database and the end of the stream belong to no collection.
        of_none = {"operationType": {"$in": ["dropDatabase", "invalidate"]}}
        match = {"$or": [{**match, "ns.coll": part.collection}, of_none]}
    # What updates changed is in the document already, and would be sent twice.
    stages = [{"$changeStream": stage}, {"$match": match}, {"$unset": ["updateDescription"]}]
    return {"aggregate": 1, "pipeline": stages, "cursor": {"batchSize": _EVENTS}}
