"""Connections by pymongo: small commands as dictionaries, and replies with many documents as bytes.

pymongo does login, TLS and the search for the primary. Documents of data are not decoded by it: a reply stays bytes,
and ingest/mongodb/bson/ reads it in columns.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError, SourceError
from penstock.ingest.database.findings import ConnectionLost, MissingGrant
from penstock.ingest.database.reachability import until_reachable
from penstock.ingest.mongodb.errors import CursorLost, EventTooLarge, NotAReplicaSet, OplogLost, PostImageMissing
from penstock.ingest.mongodb.server.cluster_time import ClusterTime, time_of
from penstock.ingest.mongodb.server.replies import Reply, reply_of
from penstock.ingest.patience import is_patient

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pymongo.client_session import ClientSession

    from penstock.ingest.mongodb.server.address import MongoAddress

log = logging.getLogger(__name__)
_IMPATIENT_S = 5.0  # of a question that is not repeated: pymongo would ask a server that refuses until the timeout
# How long a connection that is open may stay silent before it is lost, unless connection.options says otherwise. A
# server needs minutes for a large oplog without a wanted change, so this is long.
_SILENCE_S = 900.0
# Codes of errors, by the names that the server gives them.
_DENIED = {13, 18, 8000}  # Unauthorized, AuthenticationFailed, and Atlas' own
_LOST = {280, 286, 40576}  # ChangeStreamFatalError, ChangeStreamHistoryLost, and its form before 4.4
_CURSOR_GONE = {43, 136, 237}  # CursorNotFound, CappedPositionLost, CursorKilled
_TOO_OLD = {239, 246}  # SnapshotTooOld, SnapshotUnavailable
ROUTER = "isdbgrid"  # what a router says of itself
_NO_REPLICA_SET, _TOO_LARGE, _NO_IMAGE = 40573, 10334, 47


@dataclass(slots=True)
class MongoConnection:
    """One client with one session: cursors must be read in the session that opened them."""

    server: MongoAddress
    client: MongoClient[dict[str, Any]]
    session: ClientSession

    def command(self, database: str, command: dict[str, Any]) -> dict[str, Any]:
        """Return the reply of a small command."""
        return dict(self.client[database].command(command, session=self.session))

    def now(self) -> ClusterTime:
        """Return the time of the newest operation that the server has executed."""
        return time_of(self.command("admin", {"ping": 1})["operationTime"])

    def is_router(self) -> bool:
        """Return whether this is a router of a sharded cluster, and not a member of a replica set."""
        return self.command("admin", {"hello": 1}).get("msg") == ROUTER

    def documents(self, database: str, command: dict[str, Any]) -> Iterator[Reply]:
        """Yield the replies of a cursor until it ends; with a change stream, until the caller stops."""
        reply = self._read(database, command)
        collection = command.get("find", "$cmd.aggregate")
        options = {"batchSize": command.get("batchSize", 0) or command.get("cursor", {}).get("batchSize", 0)}
        try:
            while True:
                yield reply
                if not reply.cursor:
                    return
                reply = self._read(database, _get_more(reply.cursor, collection, options, waits="aggregate" in command))
        finally:
            if reply.cursor:
                self._kill(database, collection, reply.cursor)

    def _kill(self, database: str, collection: str, cursor: int) -> None:
        from pymongo.errors import PyMongoError

        try:
            self.command(database, {"killCursors": collection, "cursors": [cursor]})
        except PyMongoError as error:
            # The server closes an unused cursor by itself.
            log.info("event=cursor_not_closed reason=%s", error)

    def _read(self, database: str, command: dict[str, Any]) -> Reply:
        from bson.codec_options import CodecOptions
        from bson.raw_bson import RawBSONDocument

        answer = self.client[database].command(
            command, codec_options=CodecOptions(document_class=RawBSONDocument), session=self.session
        )
        return reply_of(bytes(answer.raw))

    def close(self) -> None:
        self.session.end_session()
        self.client.close()


# How long the server waits for a first change before it answers without changes.
_AWAIT_MS = 30


def _get_more(cursor: int, collection: str, options: Mapping[str, Any], *, waits: bool) -> dict[str, Any]:
    from bson.int64 import Int64

    return {"getMore": Int64(cursor), "collection": collection, **options} | ({"maxTimeMS": _AWAIT_MS} if waits else {})


# What pymongo appends to a sentence: settings of its client, its picture of all servers, and the whole reply.
_APPENDED = re.compile(
    r" \(configured timeouts: [^)]*\)|, Timeout: [\d.]+s|, Topology Description: .*|, full error: .*", re.DOTALL
)


def _reason(error: Exception) -> str:
    return _APPENDED.sub("", str(error))[:300]


def refused(server: MongoAddress, error: Exception) -> SourceError:
    """Return an error of pymongo as a Penstock error, which says whether a retry can help."""
    from pymongo.errors import AutoReconnect, ConfigurationError, ConnectionFailure, OperationFailure

    facts: dict[str, Any] = {"server": server.where, "reason": _reason(error)}
    if isinstance(error, OperationFailure):
        return _failed(server, error, facts | {"code": error.code})
    if isinstance(error, ConfigurationError):
        return SourceError("the connection is not configured correctly", hint="check connection.options", **facts)
    if isinstance(error, (AutoReconnect, ConnectionFailure, OSError)):
        return ConnectionLost(
            "the MongoDB server cannot be reached",
            retryable=True,
            hint="check that the server is running, that hosts are correct, and that no firewall blocks the connection",
            **facts,
        )
    return SourceError("the MongoDB server cannot be used", **facts)


def _failed(server: MongoAddress, error: Any, facts: dict[str, Any]) -> SourceError:
    code, text = error.code, str(error)
    if code in _DENIED:
        user = server.user or "the user"
        hint = f"check user, password and authSource in connection.options; grant {user} the role read on the databases"
        return MissingGrant("the MongoDB server denied access", hint=hint, user=server.user or None, **facts)
    if code in _LOST or "resume point may no longer be in the oplog" in text:
        return OplogLost(
            "the oplog no longer has the changes after this position",
            hint="read the collections again with --resnapshot; a larger oplog keeps more: "
            "db.adminCommand({replSetResizeOplog: 1, minRetentionHours: 72})",
            **facts,
        )
    if code == _NO_REPLICA_SET:
        return NotAReplicaSet(
            "only replica sets and sharded clusters have change streams",
            hint="start mongod with --replSet rs0, and call rs.initiate() once",
            **facts,
        )
    if code == _TOO_LARGE:
        return EventTooLarge(
            "an event exceeds the 16 MiB of a BSON document",
            hint="set  full-document: lookup,  or exclude the collection",
            **facts,
        )
    if code in _TOO_OLD:
        return SourceError(
            "the server no longer knows the collection as it was at this time",
            hint="let the pipeline catch up, and verify within minSnapshotHistoryWindowInSeconds (300 by default)",
            **facts,
        )
    if code in _CURSOR_GONE:
        return CursorLost("the server closed a cursor while it was read", retryable=True, **facts)
    if "post-image" in text or "pre-image" in text or code == _NO_IMAGE:
        return PostImageMissing(
            "the change stream has no image of an updated document",
            hint="db.runCommand({collMod: COLLECTION, changeStreamPreAndPostImages: {enabled: true}}), then read the "
            "collection again",
            **facts,
        )
    retryable = error.has_error_label("RetryableWriteError") or error.has_error_label("ResumableChangeStreamError")
    return SourceError("the MongoDB server returned an error", retryable=retryable, **facts)


@contextmanager
def connected(server: MongoAddress) -> Iterator[MongoConnection]:
    """Open a connection for the context. An unreachable server is retried for `patience` seconds, which is logged."""
    connection = connect(server)
    from pymongo.errors import PyMongoError

    try:
        yield connection
    except (OSError, PyMongoError) as error:
        raise refused(server, error) from error
    finally:
        connection.close()


def connect(server: MongoAddress) -> MongoConnection:
    """Return a connection whose primary has answered."""
    return until_reachable(lambda: _open(server), server.where, server.patience)


def _limit_of_silence(server: MongoAddress) -> dict[str, Any]:
    """Return the option of pymongo, which would otherwise wait for ever for a server that a proxy has forgotten."""
    names = {option.partition("=")[0].lower() for option in server.options.split("&")}
    # Options of the client are preferred to those of the connection string.
    return {} if names & {"sockettimeoutms", "timeoutms"} else {"socketTimeoutMS": int(_SILENCE_S * 1000)}


def _open(server: MongoAddress) -> MongoConnection:
    try:
        from pymongo import MongoClient
        from pymongo.errors import PyMongoError
    except ImportError as error:
        why = f"sources of type mongodb need pymongo: {error}"
        raise ConfigError(why, hint="pip install pymongo") from error
    client: Any = None
    seconds = max(server.connect_timeout, 0.5)
    if not is_patient():
        seconds = min(seconds, _IMPATIENT_S)
    try:
        client = MongoClient(
            server.uri, appname="penstock", serverSelectionTimeoutMS=int(seconds * 1000), **_limit_of_silence(server)
        )
        client.admin.command("ping")
        return MongoConnection(server, client, client.start_session())
    except PyMongoError as error:
        if client is not None:
            client.close()
        raise refused(server, error) from error
