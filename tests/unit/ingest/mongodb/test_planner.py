"""The plan of batches: chunks, the part of the log, and servers that are not the one of before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bson import Binary, Timestamp
from pymongo.errors import OperationFailure

from penstock.errors import ConfigError
from penstock.ingest.connector_requests import SourceRequest
from penstock.ingest.mongodb import planner as planning
from penstock.ingest.mongodb.config import MongoConfig
from penstock.ingest.mongodb.errors import ClusterChanged, OplogLost
from penstock.ingest.mongodb.offsets import MongoProgress
from penstock.ingest.mongodb.planner import MongoPlanner, captured_collections
from penstock.ingest.mongodb.settings import mongo_settings
from penstock.ingest.source import NO_LIMIT, Limit
from penstock.storage.state_folder import StateFolder

SECOND = 1 << 32
ORDERS, USERS = ("shop", "orders"), ("shop", "users")


class Server:
    """A replica set with one database; the documents of a collection have the `_id` 0, 1, ..."""

    def __init__(self) -> None:
        self.name, self.second, self.oldest = "rs0", 1000, 10
        self.counts = {"orders": 25, "users": 3}
        self.identities = {"orders": b"\1", "users": b"\2"}
        self.client: dict[str, Any] = {"shop": self}
        self.session = None
        self.server = SimpleNamespace(where="mongodb://h")

    def now(self) -> int:
        return self.second * SECOND

    def list_collections(self, session: object) -> list[dict[str, Any]]:
        return [{"name": name, "info": {"uuid": Binary(self.identities[name], 4)}} for name in self.counts]

    def command(self, database: str, command: dict[str, Any]) -> dict[str, Any]:
        if "listDatabases" in command:
            return {"databases": [{"name": "shop"}]}
        if "hello" in command:
            return {"setName": self.name}
        if command["find"] == "oplog.rs":
            return {"cursor": {"firstBatch": [{"ts": Timestamp(self.oldest, 0)}]}}
        first = command["min"]["_id"] if "min" in command else 0
        place = first + command["skip"]
        return {"cursor": {"firstBatch": [{"_id": place}] if place < self.counts[command["find"]] else []}}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()

    @contextmanager
    def connected(_address: object) -> Iterator[Server]:
        yield made

    monkeypatch.setattr(planning, "kept_connected", connected)
    return made


@pytest.fixture
def planner(server: Server, tmp_path: Path) -> MongoPlanner:
    return planner_of(tmp_path)


def planner_of(folder: Path, *, rereads_when_lost: bool = False, **keys: object) -> MongoPlanner:
    state = StateFolder(str(folder))
    config = MongoConfig.model_validate({"type": "mongodb", "hosts": "h", "database": "shop", **keys})
    request = SourceRequest(state=state, snapshot_requests=state, rereads_when_lost=rereads_when_lost)
    return MongoPlanner(mongo_settings(config, request))


def following(planner: MongoPlanner, before: MongoProgress, limit: Limit = NO_LIMIT) -> MongoProgress:
    found = planner.next(before, limit, None)
    assert found is not None
    return found


def copied(planner: MongoPlanner) -> MongoProgress:
    """Return the progress of a pipeline that has read all documents."""
    found = following(planner, planner.begin())
    assert not found.reads_tables
    return found


def test_all_documents_are_in_chunks_before_the_log_is_all_there_is(planner: MongoPlanner, server: Server) -> None:
    begun = planner.begin()
    assert (begun.log, begun.waiting) == (server.now() + 1, (ORDERS, USERS))
    chunks = []
    progress = begun
    while progress.reads_tables:
        progress = following(planner, progress, Limit(rows=10))
        chunks += progress.batch.chunks
    assert [(chunk.collection, chunk.number) for chunk in chunks] == [
        ("orders", 0), ("orders", 1), ("orders", 2), ("users", 0),
    ]  # fmt: skip
    # Each chunk begins where the one before it ends.
    orders = [chunk for chunk in chunks if chunk.collection == "orders"]
    assert [order.upper for order in orders[:-1]] == [order.lower for order in orders[1:]]
    assert (orders[0].lower, orders[-1].upper) == ("", "")


def test_nothing_new_is_no_batch(planner: MongoPlanner) -> None:
    settled = following(planner, copied(planner))
    assert planner.next(settled, NO_LIMIT, None) is None


def test_log_of_a_batch_is_bounded(planner: MongoPlanner, server: Server) -> None:
    settled = following(planner, copied(planner))
    server.second += 100_000
    first = following(planner, settled)
    assert first.log - settled.log == 3600 * SECOND
    assert first.batch.start == settled.log


def test_bounded_run_continues_until_documents_are_consistent(planner: MongoPlanner, server: Server) -> None:
    until = planner.end()
    read = copied(planner)
    server.second += 50
    # The documents were read at some time up to now, which is after the end of the run.
    ended = planner.next(read, NO_LIMIT, until)
    assert ended is not None
    assert ended.log == server.now() + 1 > until
    server.second += 50
    assert planner.next(ended, NO_LIMIT, until) is None


def test_collection_that_is_dropped_while_it_is_read_ends(planner: MongoPlanner, server: Server) -> None:
    first = following(planner, planner.begin(), Limit(rows=10))
    assert first.rest is not None
    del server.counts["orders"]
    rest = following(planner, first)
    assert [chunk.collection for chunk in rest.batch.chunks] == ["users"]
    assert not rest.reads_tables


def test_collection_with_another_identity_is_read_again(planner: MongoPlanner, server: Server) -> None:
    settled = following(planner, copied(planner))
    server.identities["users"] = b"\7"
    again = following(planner, settled)
    assert [chunk.name for chunk in again.batch.chunks] == [USERS]
    assert again.known[USERS] == "07"


def test_collection_that_was_excluded_for_a_while_is_read_again(server: Server, tmp_path: Path) -> None:
    all_of_them, without_users = planner_of(tmp_path), planner_of(tmp_path, **{"tables.exclude": ["shop.users"]})
    settled = following(all_of_them, copied(all_of_them))
    server.second += 1
    excluded = following(without_users, settled)
    assert list(excluded.known) == [ORDERS]
    again = following(all_of_them, excluded)
    assert [chunk.name for chunk in again.batch.chunks] == [USERS]


def test_collection_that_had_another_name_for_a_while_is_read_again(planner: MongoPlanner, server: Server) -> None:
    settled = following(planner, copied(planner))
    count = server.counts.pop("users")
    away = following(planner, settled)
    server.counts["users"] = count
    again = following(planner, away)
    assert [chunk.name for chunk in again.batch.chunks] == [USERS]


def test_collection_is_read_after_the_events_of_one_that_had_its_name(planner: MongoPlanner, server: Server) -> None:
    first = following(planner, planner.begin(), Limit(rows=10))
    assert (first.rest is not None, first.waiting) == (True, (USERS,))
    server.identities |= {"orders": b"\7", "users": b"\7"}
    server.second += 5000
    events = following(planner, first)
    # The log may end before the collections came: a batch has an hour of it.
    assert (events.batch.chunks, events.log) == ((), first.log + 3600 * SECOND)
    more = following(planner, MongoProgress.from_json(events.to_json()))
    assert (more.batch.chunks, more.log) == ((), server.now() + 1)
    assert (set(more.unread), more.reads_tables) == ({ORDERS, USERS}, True)
    read = following(planner, more)
    assert [(chunk.name, chunk.lower, chunk.upper) for chunk in read.batch.chunks] == [
        (ORDERS, "", ""),
        (USERS, "", ""),
    ]
    assert not read.reads_tables


def test_other_server_is_refused(planner: MongoPlanner, server: Server) -> None:
    begun = planner.begin()
    server.name = "rs1"
    with pytest.raises(ClusterChanged, match="another server answers") as caught:
        planner.next(begun, NO_LIMIT, None)
    assert (caught.value.facts["before"], caught.value.facts["now"]) == ("rs0", "rs1")


@pytest.mark.parametrize(("seconds", "is_gone"), [(61, True), (61, False), (60, None)])
def test_the_stream_says_that_the_log_is_lost_to_a_user_who_may_not_read_the_oplog(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, is_gone: bool | None
) -> None:
    """No stream is opened for a position of the last minute, which each batch of a running pipeline has."""
    planner = planner_of(tmp_path, rereads_when_lost=True)
    start = planner.next(planner.begin(), NO_LIMIT, None)
    assert start is not None
    asked, command = list[dict[str, Any]](), server.command

    def denied(database: str, words: dict[str, Any]) -> dict[str, Any]:
        if words.get("find") == "oplog.rs":
            raise OperationFailure("not authorized on local", 13)
        return command(database, words)

    def documents(_database: str, words: dict[str, Any]) -> Iterator[None]:
        asked.append(words["pipeline"][0]["$changeStream"])
        if is_gone:
            raise OperationFailure("the resume point may no longer be in the oplog", 286)
        yield

    monkeypatch.setattr(server, "command", denied)
    monkeypatch.setattr(server, "documents", documents, raising=False)
    server.second = (start.log >> 32) + seconds
    found = planner.next(start, NO_LIMIT, None)
    assert found is not None
    begins = [stage["startAtOperationTime"] for stage in asked]
    assert begins == ([] if is_gone is None else [Timestamp(start.log >> 32, start.log & 0xFFFFFFFF)])
    assert {barrier.kind for barrier in found.batch.barriers} == ({"read-again"} if is_gone else set())


def test_lost_log_is_an_error_unless_collections_may_be_read_again(server: Server, tmp_path: Path) -> None:
    strict, lenient = planner_of(tmp_path), planner_of(tmp_path, rereads_when_lost=True)
    old = replace(copied(strict), log=5 * SECOND)
    with pytest.raises(OplogLost):
        strict.next(old, NO_LIMIT, None)
    again = following(lenient, old)
    assert lenient.at_barrier
    kinds = [(barrier.kind, barrier.table) for barrier in again.batch.barriers]
    assert kinds == [("read-again", "orders"), ("read-again", "users")]
    assert again.waiting == (ORDERS, USERS)
    assert again.log == server.now() + 1


def test_start_at_a_time_needs_the_log_since_then(server: Server, tmp_path: Path) -> None:
    begun = planner_of(tmp_path, startup={"mode": "timestamp", "timestamp-millis": 20_500}).begin()
    assert (begun.log, begun.waiting) == (20 * SECOND, ())
    with pytest.raises(OplogLost):
        planner_of(tmp_path, startup={"mode": "timestamp", "timestamp-millis": 9_000}).begin()


def test_no_collection_is_an_error_only_if_there_must_be_one(
    planner: MongoPlanner, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.counts.clear()
    assert captured_collections(planner, server, must=False) == []  # type: ignore[arg-type]  # the stand-in
    assert "event=no_tables_there reason=no collection of the server is selected; databases: shop;" in caplog.text
    with pytest.raises(ConfigError, match="no collection of the server is selected"):
        captured_collections(planner, server, must=True)  # type: ignore[arg-type]  # the stand-in


@pytest.mark.parametrize(
    ("misspelt", "seen", "meant"),
    [({"database": "shopp"}, "shop.*", "shop"), ({"collection": "ordrs"}, "shop.orders, shop.users", "orders")],
)
def test_a_misspelt_name_gets_the_nearest_one(
    server: Server, tmp_path: Path, misspelt: dict[str, Any], seen: str, meant: str
) -> None:
    server.client["shopp"] = SimpleNamespace(list_collections=lambda session: [])  # as a server shows an unknown name
    with pytest.raises(ConfigError) as caught:
        captured_collections(planner_of(tmp_path, **misspelt), server, must=True)  # type: ignore[arg-type]  # the stand-in
    assert caught.value.facts["seen"] == seen
    assert (caught.value.hint or "").startswith(f"did you mean {meant}?")


def test_part_of_a_collection_is_refused_and_the_pipeline_continues(planner: MongoPlanner) -> None:
    settled = following(planner, copied(planner))
    planner.settings.requests.folder.write("1.json", json.dumps({"tables": ["orders"], "where": "a = 1"}).encode())
    refused = following(planner, settled)
    assert (refused.waiting, refused.parts, refused.signals) == ((), (), ("1.json",))
    [reason] = refused.refused
    assert reason.startswith("shop.orders where a = 1: this source cannot read a part of a table by a condition")
    again = MongoProgress.from_json(refused.to_json())
    assert again == refused
