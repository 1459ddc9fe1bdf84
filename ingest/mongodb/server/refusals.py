"""Errors of pymongo and of the server as errors of Penstock, which say whether a retry can help."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from penstock.errors import SourceError
from penstock.ingest.database.findings import ConnectionLost, MissingGrant
from penstock.ingest.mongodb.errors import CursorLost, EventTooLarge, NotAReplicaSet, OplogLost, PostImageMissing

if TYPE_CHECKING:
    from penstock.ingest.mongodb.server.address import MongoAddress

# Codes of errors, by the names that the server gives them.
_DENIED = {13, 18, 8000}  # Unauthorized, AuthenticationFailed, and Atlas' own
_LOST = {280, 286, 40576}  # ChangeStreamFatalError, ChangeStreamHistoryLost, and its form before 4.4
_CURSOR_GONE = {43, 136, 237}  # CursorNotFound, CappedPositionLost, CursorKilled
_TOO_OLD = {239, 246}  # SnapshotTooOld, SnapshotUnavailable
_NO_REPLICA_SET, _TOO_LARGE, _NO_IMAGE = 40573, 10334, 47
# The words of Python and OpenSSL: a certificate that is not signed by a known authority, is refused, or is missing.
_CERTIFICATE = re.compile(
    r"certificate verify failed|alert (?:bad|unknown|certificate)|certificate required", re.IGNORECASE
)
# What pymongo appends to a sentence: settings of its client, its picture of all servers, and the whole reply.
_APPENDED = re.compile(
    r" \(configured timeouts: [^)]*\)|, Timeout: [\d.]+s|, Topology Description: .*|, full error: .*", re.DOTALL
)


def _reason(error: Exception) -> str:
    return _APPENDED.sub("", str(error))[:300]


def refused(server: MongoAddress, error: Exception) -> SourceError:
    """Return an error of pymongo as a Penstock error, which says whether a retry can help."""
    from pymongo.errors import AutoReconnect, ConfigurationError, ConnectionFailure, NetworkTimeout, OperationFailure

    facts: dict[str, Any] = {"server": server.where, "reason": _reason(error)}
    if isinstance(error, OperationFailure):
        return _failed(server, error, facts | {"code": error.code})
    if isinstance(error, ConfigurationError):
        return SourceError("the connection is not configured correctly", hint="check connection.options", **facts)
    if isinstance(error, NetworkTimeout):
        return ConnectionLost(
            "the MongoDB server did not answer in time",
            retryable=True,
            hint="check the proxies and firewalls on the way; if the server only needs longer, as for a large oplog, "
            "set a longer socketTimeoutMS in connection.options",
            **facts,
        )
    if isinstance(error, (AutoReconnect, ConnectionFailure, OSError)):
        if _CERTIFICATE.search(facts["reason"]):
            return SourceError(
                "no connection by TLS: one side does not accept the certificate of the other",
                hint="set tlsCAFile (who signed the server's certificate) and, if the server asks for one, "
                "tlsCertificateKeyFile (the client's own) in connection.options",
                **facts,
            )
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
