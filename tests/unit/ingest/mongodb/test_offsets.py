"""Offsets: what a restart on another machine needs, as JSON."""

from __future__ import annotations

import json

from penstock.ingest.mongodb.offsets import MongoBatch, MongoProgress
from penstock.ingest.mongodb.snapshot.chunks import IdChunk
from penstock.ingest.source import Barrier

TIME = 1_795_370_576 << 32 | 7


def test_everything_returns_from_json() -> None:
    chunk = IdChunk("shop", "orders", "", "AAAA", 3)
    progress = MongoProgress(
        server="rs0",
        log=TIME,
        known={("shop", "orders"): "7b", ("shop", "users"): ""},
        new={("shop", "items"): TIME + 3},
        waiting=(("shop", "users"),),
        rest=IdChunk("shop", "orders", "AAAA"),
        settle=TIME - 5,
        reread="again",
        signals=("signal",),
        batch=MongoBatch(TIME - 9, (chunk,), (Barrier("truncate", "shop", "orders"),)),
    )
    assert MongoProgress.from_json(json.loads(json.dumps(progress.to_json()))) == progress


def test_offsets_written_today_can_be_read_forever() -> None:
    written = {
        "v": 1,
        "server": "rs0",
        "phase": "stream",
        "log": "1795370576:7",
        "known": [["shop", "orders", "7b"]],
        "batch": {"from": "1795370570:1"},
    }
    found = MongoProgress.from_json(written)
    assert (found.log, found.batch.start) == (TIME, 1_795_370_570 << 32 | 1)
    assert found.to_json() == written


def test_reading_again_begins_at_the_first_chunk() -> None:
    before = MongoProgress(server="rs0", log=TIME, waiting=(("a", "b"),), rest=IdChunk("shop", "orders", "AAAA"))
    found = before.reading([("shop", "orders")])
    assert (found.waiting, found.rest) == ((("a", "b"), ("shop", "orders")), None)
