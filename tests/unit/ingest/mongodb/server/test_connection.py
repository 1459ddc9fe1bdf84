"""Replies as bytes, and errors of the server as errors that say what to do."""

from __future__ import annotations

from collections import Counter

import bson
import pytest
from bson import Int64, Timestamp
from pymongo.errors import AutoReconnect, ConfigurationError, OperationFailure

from penstock.errors import PenstockError, SourceError
from penstock.ingest.database.findings import ConnectionLost, MissingGrant
from penstock.ingest.mongodb.bson.documents import columns_and_keys
from penstock.ingest.mongodb.errors import CursorLost, EventTooLarge, NotAReplicaSet, OplogLost, PostImageMissing
from penstock.ingest.mongodb.server.address import MongoAddress
from penstock.ingest.mongodb.server.connection import joined, refused, reply_of

SERVER = MongoAddress("db:27017", "cdc")


def reply(*documents: dict[str, object], batch: str = "firstBatch", cursor: int = 5) -> bytes:
    return bson.encode(
        {
            "cursor": {batch: list(documents), "id": Int64(cursor), "postBatchResumeToken": {"_data": "82AB"}},
            "ok": 1.0,
            "operationTime": Timestamp(7, 3),
        }
    )


@pytest.mark.parametrize("batch", ["firstBatch", "nextBatch"])
def test_reply_is_split_without_decoding_documents(batch: str) -> None:
    found = reply_of(reply({"_id": 1}, {"_id": 2}, batch=batch))
    assert (len(found.documents), found.cursor, found.token, found.time) == (2, 5, "82AB", 7 << 32 | 3)


def test_joined_replies_have_all_documents() -> None:
    one = joined([reply_of(reply({"_id": 1}, {"_id": 2})), reply_of(reply({"_id": 3})), reply_of(reply({"_id": 4}))])
    keys, _, _ = columns_and_keys(one.block, one.documents, Counter())
    assert keys.to_pylist() == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("code", "kind", "hint"),
    [
        (13, MissingGrant, "role read"),
        (18, MissingGrant, "authSource"),
        (280, OplogLost, "--resnapshot"),
        (286, OplogLost, "--resnapshot"),
        (40576, OplogLost, "--resnapshot"),
        (40573, NotAReplicaSet, "rs.initiate()"),
        (10334, EventTooLarge, "exclude the collection"),
        (239, SourceError, "minSnapshotHistoryWindowInSeconds"),
        (43, CursorLost, ""),
        (47, PostImageMissing, "changeStreamPreAndPostImages"),
        (1, SourceError, ""),
    ],
)
def test_error_of_the_server_has_a_hint(code: int, kind: type[PenstockError], hint: str) -> None:
    found = refused(SERVER, OperationFailure("no", code))
    assert type(found) is kind
    assert found.facts["code"] == code
    assert hint in (found.hint or "")
    assert found.retryable == (kind is CursorLost)


def test_errors_of_the_connection() -> None:
    lost = refused(SERVER, AutoReconnect("broken"))
    assert isinstance(lost, ConnectionLost)
    assert lost.retryable
    assert "connection.options" in (refused(SERVER, ConfigurationError("bad")).hint or "")


def test_address_shows_no_password() -> None:
    address = MongoAddress("a:1,b:2", "me@x", "p/w", "mongodb", "replicaSet=rs0")
    assert address.uri == "mongodb://me%40x:p%2Fw@a:1,b:2/?replicaSet=rs0"
    assert "p/w" not in repr(address)
    assert address.where == "mongodb://a:1,b:2"
