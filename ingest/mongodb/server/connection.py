"""Connections by pymongo: small commands as dictionaries, and replies with many documents as bytes.

pymongo does login, TLS and the search for the primary. Documents of data are not decoded by it: a reply stays bytes,
and ingest/mongodb/bson/ reads it in columns.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError, SourceError, in_one_line
from penstock.ingest.database.kept_connections import KeptConnections
from penstock.ingest.database.reachability import until_reachable
from penstock.ingest.mongodb.server.cluster_time import ClusterTime, time_of
from penstock.ingest.mongodb.server.refusals import refused
from penstock.ingest.mongodb.server.replies import Reply, reply_of
from penstock.ingest.patience import is_patient

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pymongo.client_session import ClientSession

    from penstock.ingest.mongodb.server.address import MongoAddress

log = logging.getLogger(__name__)
_FIRST_S = 4.0  # of the first question, or of one that is not repeated: pymongo would ask until the timeout
# How long a connection that is open may stay silent before it is lost, unless connection.options says otherwise. A
# server needs minutes for a large oplog without a wanted change, so this is long.
_SILENCE_S = 900.0
# A client that was idle for longer than this is used again only if it answers within this time, in seconds.
_SURE_S, _ANSWER_S = 0.1, 5.0
ROUTER = "isdbgrid"  # what a router says of itself


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
        # The plan has asked the server itself whether it is still the one of the positions.
        return self.client.is_mongos

    def documents(self, database: str, command: dict[str, Any]) -> Generator[Reply, None, None]:
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
            log.info("event=cursor_not_closed reason=%s", in_one_line(error))

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


@contextmanager
def connected(server: MongoAddress) -> Iterator[MongoConnection]:
    """Open a connection for the context. An unreachable server is retried for `patience` seconds, which is logged."""
    connection = connect(server)
    try:
        with _pymongo_errors(server):
            yield connection
    finally:
        connection.close()


def connect(server: MongoAddress) -> MongoConnection:
    """Return a connection whose primary has answered."""
    client = _reached(server)
    return MongoConnection(server, client, client.start_session())


@dataclass(frozen=True, slots=True)
class _KeptClient:
    """A client that is kept: it watches the server in threads of its own meanwhile."""

    client: MongoClient[dict[str, Any]]

    def is_usable(self, idle_seconds: float) -> bool:
        if idle_seconds < _SURE_S:
            return True
        from pymongo import timeout
        from pymongo.errors import PyMongoError

        try:
            with timeout(_ANSWER_S):
                self.client.admin.command("ping")
        except (OSError, PyMongoError):
            return False
        return True

    def close(self) -> None:
        self.client.close()


# Whether there is patience with an unreachable server is a setting of a client.
_kept: KeptConnections[tuple[MongoAddress, bool], _KeptClient] = KeptConnections()


@contextmanager
def kept_connected(server: MongoAddress) -> Iterator[MongoConnection]:
    """Use a client for the context, which is kept for the next use, with a session of its own."""
    with (
        _kept.used((server, is_patient()), lambda: _KeptClient(_reached(server))) as kept,
        _pymongo_errors(server),
        # A session orders its reads after those before it, which those of another batch need not wait for.
        kept.client.start_session() as session,
    ):
        yield MongoConnection(server, kept.client, session)


@contextmanager
def _pymongo_errors(server: MongoAddress) -> Iterator[None]:
    from bson.errors import BSONError
    from pymongo.errors import PyMongoError

    try:
        yield
    except BSONError as error:
        raise SourceError(
            "an answer of the MongoDB server cannot be read",
            retryable=True,
            server=server.where,
            reason=str(error),
            hint="the next attempt sends the request again; if this happens again, check the network and proxies on "
            "the way, and use TLS, which detects changed bytes",
        ) from error
    except (OSError, PyMongoError) as error:
        raise refused(server, error) from error


def _reached(server: MongoAddress) -> MongoClient[dict[str, Any]]:
    """Return a client whose primary has answered.

    The first attempt is short, so that the log soon says what is waited for.
    """
    seconds = max(server.connect_timeout, 0.5)
    wait = max(server.patience, seconds)
    began, first = time.monotonic(), True

    def attempt() -> MongoClient[dict[str, Any]]:
        nonlocal first
        left = max(began + wait - time.monotonic(), 0.5)
        limit = min(seconds, _FIRST_S if first or not is_patient() else left)
        first = False
        return _open(server, limit)

    return until_reachable(attempt, server.where, wait)


def _limit_of_silence(server: MongoAddress) -> dict[str, Any]:
    """Return the option of pymongo, which would otherwise wait for ever for a server that a proxy has forgotten."""
    names = {option.partition("=")[0].lower() for option in re.split("[&;]", server.options)}
    # Options of the client are preferred to those of the connection string.
    return {} if names & {"sockettimeoutms", "timeoutms"} else {"socketTimeoutMS": int(_SILENCE_S * 1000)}


def _open(server: MongoAddress, seconds: float) -> MongoClient[dict[str, Any]]:
    try:
        from pymongo import MongoClient
        from pymongo.errors import PyMongoError
    except ImportError as error:
        why = f"sources of type mongodb need pymongo: {error}"
        raise ConfigError(why, hint="pip install pymongo") from error
    client: Any = None
    try:
        client = MongoClient(
            server.uri, appname="penstock", serverSelectionTimeoutMS=int(seconds * 1000), **_limit_of_silence(server)
        )
        client.admin.command("ping")
    except PyMongoError as error:
        if client is not None:
            client.close()
        raise refused(server, error) from error
    found: MongoClient[dict[str, Any]] = client
    return found
