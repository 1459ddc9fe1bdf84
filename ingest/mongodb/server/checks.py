"""Checks of a server: its kind and version, how far back its log reaches, and the images of its collections."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.ingest.database.findings import ServerFinding, error_finding, warning_finding
from penstock.ingest.mongodb.errors import NotAReplicaSet, OplogLost, PostImageMissing, ServerTooOld
from penstock.ingest.mongodb.server.cluster_time import ClusterTime, time_of, time_text
from penstock.ingest.mongodb.server.connection import ROUTER

if TYPE_CHECKING:
    from penstock.ingest.mongodb.server.collections import Collection
    from penstock.ingest.mongodb.server.connection import MongoConnection

# The wire version of MongoDB 4.0, the first whose change streams begin at a time.
_FIRST_WIRE_VERSION = 7
_DAY_SECONDS = 86_400
_NAMED = 5  # collections in one finding
_RESIZE = "db.adminCommand({replSetResizeOplog: 1, minRetentionHours: 72})"


def server_name(connection: MongoConnection) -> str:
    """Return the name of the replica set, or the identifier of the sharded cluster."""
    hello = connection.command("admin", {"hello": 1})
    if hello.get("msg") != ROUTER:
        return str(hello.get("setName", ""))
    found = _first(connection, "config", {"find": "version", "limit": 1, "singleBatch": True})
    return f"sharded/{found.get('clusterId', '') if found else ''}"


def oldest_time(connection: MongoConnection) -> ClusterTime | None:
    """Return the time of the oldest entry of the oplog; None if the user may not read it, or on a router."""
    find = {"find": "oplog.rs", "sort": {"$natural": 1}, "limit": 1, "singleBatch": True, "projection": {"ts": 1}}
    found = _first(connection, "local", find)
    return None if found is None else time_of(found["ts"])


def _first(connection: MongoConnection, database: str, find: dict[str, Any]) -> dict[str, Any] | None:
    from pymongo.errors import OperationFailure

    try:
        found = connection.command(database, find)["cursor"]["firstBatch"]
    except OperationFailure:
        # These collections need privileges that reading changes does not.
        return None
    return found[0] if found else None


def require_history(connection: MongoConnection, start: ClusterTime) -> bool:
    """Raise OplogLost if the oplog is known to begin after this time. Return whether it is known when it begins.

    If the user may not read the oplog, the server refuses the change stream instead.
    """
    oldest = oldest_time(connection)
    if oldest is not None and oldest > start:
        raise OplogLost(
            "the oplog no longer has the changes after this position",
            server=connection.server.where,
            position=time_text(start),
            oldest=time_text(oldest),
            hint=f"read the collections again with --resnapshot; a larger oplog keeps more: {_RESIZE}",
        )
    return oldest is not None


def check_server(connection: MongoConnection) -> list[ServerFinding]:
    return list(_findings(connection))


def check_retention(connection: MongoConnection) -> list[ServerFinding]:
    return list(_retention(connection))


def check_images(collections: Sequence[Collection]) -> list[ServerFinding]:
    """Return a warning of the collections whose first update or delete stops a pipeline that requires old documents.

    No error: a collection that is only inserted into needs no images.
    """
    lacking = [".".join(collection.table) for collection in collections if not collection.has_images]
    if not lacking:
        return []
    rest = f" and {len(lacking) - _NAMED} others" if len(lacking) > _NAMED else ""
    message = "full-document: required  stops at the first update or delete in a collection without images"
    name = lacking[0].split(".", 1)[1]
    fix = (
        f'call  db.runCommand({{collMod: "{name}", changeStreamPreAndPostImages: {{enabled: true}}}})  for each before '
        "the start: the server keeps no images of earlier changes"
    )
    return [warning_finding(PostImageMissing, message, ", ".join(lacking[:_NAMED]) + rest, "images", fix)]


def _findings(connection: MongoConnection) -> Iterator[ServerFinding]:
    hello = connection.command("admin", {"hello": 1})
    version = int(hello.get("maxWireVersion", 0))
    if version < _FIRST_WIRE_VERSION:
        message = "the server's change streams cannot begin at a time"
        fix = "upgrade it to 4.0 or newer"
        yield error_finding(ServerTooOld, message, f"wire version {version}", f"{_FIRST_WIRE_VERSION} or more", fix)
    if hello.get("msg") != ROUTER and not hello.get("setName"):
        message = "only replica sets have change streams"
        fix = "start mongod with --replSet rs0, and call rs.initiate() once"
        yield error_finding(NotAReplicaSet, message, "a standalone server", "a replica set", fix)
        return
    yield from _retention(connection)


def _retention(connection: MongoConnection) -> Iterator[ServerFinding]:
    oldest = oldest_time(connection)
    if oldest is None:
        return
    hours = (time.time() - (oldest >> 32)) / 3600
    if hours * 3600 < _DAY_SECONDS and _is_full(connection):
        message = "a pipeline that stops for longer than the oplog reaches back loses changes"
        yield warning_finding(OplogLost, message, f"{hours:.1f} hours", "a day at least", _RESIZE)


def _is_full(connection: MongoConnection) -> bool:
    """Return whether old entries are removed: the oplog of a new server is short because nothing happened yet."""
    from pymongo.errors import OperationFailure

    try:
        facts = connection.command("local", {"collStats": "oplog.rs"})
    except OperationFailure:
        return False
    return float(facts.get("size", 0)) >= 0.9 * float(facts.get("maxSize", float("inf")))
