"""Chunks as offsets contain them, and as the server gets them."""

from __future__ import annotations

import json
from base64 import b64encode

import bson
from bson import Int64, ObjectId

from penstock.ingest.mongodb.snapshot.chunks import IdChunk


def test_bounds_keep_their_type_through_json() -> None:
    for key in (Int64(5), "5", ObjectId(), {"b": 1, "a": 2}, 1.5):
        bound = b64encode(bson.encode({"_id": key})).decode()
        chunk = IdChunk.from_json(json.loads(json.dumps(IdChunk("d", "t", bound, "", 2).to_json())))
        found = chunk.bounds()
        assert found == {"min": {"_id": key}, "hint": {"_id": 1}}
        assert type(found["min"]["_id"]) is type(key)


def test_whole_collection_needs_no_index() -> None:
    assert IdChunk("d", "t").bounds() == {}
