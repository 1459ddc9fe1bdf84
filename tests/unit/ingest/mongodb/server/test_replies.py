"""Replies as bytes: their documents, several of them as one, and damaged ones."""

from __future__ import annotations

from collections import Counter

import bson
import pytest
from bson import Int64, Timestamp

from penstock.errors import SourceError
from penstock.ingest.mongodb.bson.documents import columns_and_keys
from penstock.ingest.mongodb.server.replies import joined, reply_of


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
    whole = joined([reply_of(reply({"_id": 1}, {"_id": 2})), reply_of(reply({"_id": 3})), reply_of(reply({"_id": 4}))])
    keys, _, _ = columns_and_keys(whole.block, whole.documents, Counter())
    assert keys.to_pylist() == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    "raw",
    [b"", bytes(5), bson.encode({"ok": 1.0}), bson.encode({"cursor": {"firstBatch": []}}), reply({"_id": 1})[:40]],
)
def test_a_damaged_reply_is_an_error(raw: bytes) -> None:
    with pytest.raises(SourceError, match="damaged"):
        reply_of(raw)
