"""A change stream between two cluster times: opened at the first, read up to the second, opened again if it ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from penstock.errors import SourceError
from penstock.ingest.mongodb.errors import CursorLost
from penstock.ingest.mongodb.log.events import OTHERS, ROWS, Events, time_of_last
from penstock.ingest.mongodb.server.cluster_time import ClusterTime, time_of_token, time_text, timestamp_of
from penstock.ingest.mongodb.server.refusals import refused
from penstock.ingest.mongodb.server.replies import Reply, joined

if TYPE_CHECKING:
    from penstock.ingest.mongodb.server.connection import MongoConnection

log = logging.getLogger(__name__)

FullDocument = Literal["lookup", "required"]
# Events of one reply; a reply has at most 16 MiB anyway.
_EVENTS = 4096
_TOGETHER, _TOGETHER_BYTES = 8192, 16 << 20
# How long the server may look for the start of a stream, and the code of its error after that.
_START_MS, _OVER_TIME = 5000, 50
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
    opens: dict[str, Any] = {"startAtOperationTime": timestamp_of(part.start)}
    while True:
        token, is_end, together = "", False, list[Reply]()
        for reply, is_end in _replies(connection, part, opens):
            token = reply.token or token
            if len(reply.documents):
                together.append(reply)
            # Small replies are decoded together, because the cost of a column hardly depends on its length.
            full = sum(len(reply.documents) for reply in together) >= _TOGETHER or _size(together) >= _TOGETHER_BYTES
            if together and (is_end or full or not len(reply.documents)):
                yield _events(together, part.end), _size(together)
                together = []
            if is_end:
                return
        if together:
            yield _events(together, part.end), _size(together)
        # The stream of a database ends when the database is dropped. The next one begins after that event.
        if not token:
            raise CursorLost("the server ended the change stream", retryable=True, database=part.database)
        log.info("event=change_stream_ended database=%s note=a new one begins after it", part.database)
        opens = {"startAfter": {"_data": token}}


def require_stream(connection: MongoConnection, part: LogPart) -> None:
    """Open the stream of this part and close it. Raise OplogLost if the server no longer has the log at its start."""
    from pymongo.errors import OperationFailure

    # Not 0: the server looks for the start when it reads.
    command = command_of(part, {"startAtOperationTime": timestamp_of(part.start)}) | {"cursor": {"batchSize": 1}}
    # Before it answers, the server reads on to the first event that is wanted, which may be far from the start.
    command["maxTimeMS"] = _START_MS
    try:
        with closing(connection.documents(part.database or "admin", command)) as replies:
            next(replies)
    except OperationFailure as error:
        if error.code != _OVER_TIME:  # by then the start has been found
            raise refused(connection.server, error) from error


def _size(replies: Sequence[Reply]) -> int:
    return sum(len(reply.block.raw) for reply in replies)


def _events(replies: Sequence[Reply], end: ClusterTime) -> Events:
    """Return the events of these replies before the end."""
    reply = joined(replies)
    return Events.of(reply.block, reply.documents).before_time(end)


def _replies(connection: MongoConnection, part: LogPart, opens: dict[str, Any]) -> Iterator[tuple[Reply, bool]]:
    """Yield the replies of one cursor, and whether the end is reached."""
    began, newest = time.monotonic(), 0
    # An empty reply with a later time than this one has all events up to its time. None if that cannot be relied on.
    unscanned = None if connection.is_router() else part.start
    if unscanned is not None and "startAfter" in opens:
        unscanned = time_of_token(opens["startAfter"]["_data"])
    for reply in connection.documents(part.database or "admin", command_of(part, opens)):
        if len(reply.documents):
            reached = time_of_last(reply)
            unscanned = None if unscanned is None else 0
        else:
            reached = _time_reached(reply, unscanned)
        yield reply, reached >= part.end
        if reached > newest:
            began, newest = time.monotonic(), reached
        elif time.monotonic() > began + _LONGEST_WAIT_S:
            raise SourceError(
                "the change stream does not reach the end of the batch",
                retryable=True,
                reached=time_text(newest),
                end=time_text(part.end),
                hint="a majority of the replica set's members must be reachable: see rs.status()",
            )


def _time_reached(reply: Reply, unscanned: ClusterTime | None) -> ClusterTime:
    """Return the time before which all events have come, which a reply without events says by its token.

    A replica set answers without events when it has scanned its whole oplog: the time in the token is that of the last
    entry, and its events have come too. Without this, the end of a quiet stream would be known only by the entry that
    the server writes every ten seconds. A router merges several oplogs, and two shards may have entries with one time.
    The first token of a stream repeats the time at which the stream was opened, and says nothing about its events.
    """
    found = time_of_token(reply.token)
    if found is None:
        return reply.time
    return found + 1 if unscanned is not None and found > unscanned else found


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
        renamed = {"operationType": "rename", "to.coll": part.collection}
        match = {"$or": [{**match, "ns.coll": part.collection}, renamed, of_none]}
    # What updates changed is in the document already, and would be sent twice. $unset needs MongoDB 4.2.
    stages = [{"$changeStream": stage}, {"$match": match}, {"$project": {"updateDescription": 0}}]
    return {"aggregate": 1, "pipeline": stages, "cursor": {"batchSize": _EVENTS}}
