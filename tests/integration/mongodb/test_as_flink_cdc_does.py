"""Cases of Flink CDC's own integration tests for MongoDB that no other test has."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.integration.mongodb.sync import MongoPlayground, MongoSync

pytestmark = pytest.mark.mongodb


def test_collections_that_leave_and_join_the_selection_are_followed_while_they_belong_to_it(
    server: MongoPlayground, tmp_path: Path
) -> None:
    for name in ("a", "b", "c"):
        server.db[name].insert_many([{"_id": 1, "v": "first"}, {"_id": 2, "v": "first"}])
    sync = MongoSync(server, tmp_path)
    for number, selected in enumerate(("a", "a|b", "b", "b|c", "a|b|c", "c"), start=10):
        sync.flags = ["--including-tables", selected]
        sync.run()
        for name in ("a", "b", "c"):
            server.db[name].insert_one({"_id": number, "v": "new"})
            server.db[name].update_one({"_id": 1}, {"$set": {"v": f"of {number}"}})
        sync.run()
        for name in selected.split("|"):
            rows = {key: row["v"] for key, row in sync.rows(name).items()}
            assert rows == {str(document["_id"]): document["v"] for document in server.db[name].find()}


def test_a_snapshot_ends_when_the_collections_are_copied(server: MongoPlayground, tmp_path: Path) -> None:
    """Another run has the changes since then, as the offsets are kept."""
    server.db.t.insert_many([{"_id": number, "v": "old"} for number in range(50)])
    sync = MongoSync(server, tmp_path, "t", conf=["scan.startup.mode=snapshot"])
    assert sync.spec.pipeline.until == "caught-up"
    sync.run()
    assert {(key, row["v"]) for key, row in sync.rows().items()} == {(str(number), "old") for number in range(50)}
    server.db.t.update_many({"_id": {"$lt": 9}}, {"$set": {"v": "new"}})
    sync.run()
    assert {key for key, row in sync.rows().items() if row["v"] == "new"} == {str(number) for number in range(9)}


def test_a_start_at_a_time_has_the_changes_since_then(server: MongoPlayground, tmp_path: Path) -> None:
    server.db.t.insert_one({"_id": 1, "v": "old"})
    # Times of the log have seconds: the change before must not be in the second of the start.
    second = int(time.time()) + 1
    while time.time() < second:
        time.sleep(0.01)
    server.db.t.insert_one({"_id": 2, "v": "new"})
    conf = ["scan.startup.mode=timestamp", f"scan.startup.timestamp-millis={second * 1000}"]
    sync = MongoSync(server, tmp_path, "t", conf=conf)
    sync.run()
    assert set(sync.rows()) == {"2"}


def test_names_with_dashes_and_dots_are_literal_where_patterns_quote_them(
    server: MongoPlayground, tmp_path: Path
) -> None:
    for name in ("coll-1", "coll.1", "collx1"):
        server.db[name].insert_one({"_id": name})
    sync = MongoSync(
        server, tmp_path, flags=["--including-tables", r"coll-1|coll\.1", "--table-mapping", "coll.1=dotted"]
    )
    sync.run()
    server.db["coll-1"].insert_one({"_id": "later"})
    server.db["collx1"].insert_one({"_id": "later"})
    sync.run()
    assert sorted(sync.tables()) == ["coll-1", "dotted"]
    assert set(sync.rows("coll-1")) == {"coll-1", "later"}
