"""A change stream between two times: where it ends, and how it is opened again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import bson
import pytest
from bson import Int64, Timestamp

from penstock.errors import SourceError
from penstock.ingest.mongodb.log import stream
from penstock.ingest.mongodb.log.stream import LogPart, command_of, streamed
from penstock.ingest.mongodb.server.replies import Reply, reply_of
from tests.unit.ingest.mongodb.log.test_decode import event

PART = LogPart(1 << 32, 10 << 32, "d", "t")


def reply(*seconds: int, token: str = "36", now: int = 0, cursor: int = 5) -> Reply:
    events = [event("insert", second, second, fullDocument={"_id": second}) for second in seconds]
    made = {"nextBatch": events, "id": Int64(cursor), "postBatchResumeToken": {"_data": token}}
    return reply_of(bson.encode({"cursor": made, "ok": 1.0, "operationTime": Timestamp(now, 1)}))


class Server:
    """Yields the replies of each stream that is opened, in turn."""

    def __init__(self, *streams: list[Reply], router: bool = False) -> None:
        self.streams, self.opened, self.router = list(streams), list[Any](), router

    def is_router(self) -> bool:
        return self.router

    def documents(self, database: str, command: dict[str, Any]) -> Iterator[Reply]:
        self.opened.append(command["pipeline"][0]["$changeStream"])
        yield from self.streams.pop(0)


def seconds(server: Server) -> list[int]:
    found = streamed(server, PART)  # type: ignore[arg-type]  # it has the methods that are called
    return [int(time) >> 32 for events, _ in found for time in events.time]


def test_events_end_before_the_end_of_the_part() -> None:
    server = Server([reply(2, 3), reply(4, 9, 10, 11), reply(12)])
    assert seconds(server) == [2, 3, 4, 9]
    assert server.opened == [{"startAtOperationTime": Timestamp(1, 0), "fullDocument": "updateLookup"}]


def test_quiet_stream_ends_by_the_time_in_its_token() -> None:
    before, after = "82000000090000000129", "820000000A0000000029"
    assert seconds(Server([reply(2), reply(token=before, now=99), reply(token=after), reply(3)])) == [2]


def token_of(second: int, number: int = 0) -> str:
    return f"82{second:08X}{number:08X}29"


LAST = token_of(9, 0xFFFFFFFF)  # the last time before the end of the part


def test_quiet_stream_of_a_replica_set_ends_with_the_last_entry_of_the_log() -> None:
    # The entry that is the newest when the batch is planned is the last one of the part. The next entry of a server
    # without writes comes ten seconds later.
    assert seconds(Server([reply(2), reply(token=token_of(8)), reply(token=LAST), reply(3)])) == [2]


def test_quiet_stream_of_a_sharded_cluster_waits_for_an_entry_after_its_end() -> None:
    # Another shard may have events with the same time.
    server = Server([reply(2), reply(token=LAST), reply(9), reply(token=token_of(10)), reply(3)], router=True)
    assert seconds(server) == [2, 9]


def test_first_token_of_a_stream_says_nothing_about_events_of_its_time() -> None:
    part = LogPart((9 << 32) + 1, (9 << 32) + 2, "d", "t")
    opened, events = token_of(9, 1), reply(9)
    server = Server([reply(token=opened), reply(token=opened), events, reply(token=opened), reply(3)])
    found = list(streamed(server, part))  # type: ignore[arg-type]  # as above
    assert [int(time) >> 32 for events, _ in found for time in events.time] == [9]


def test_stream_that_is_opened_again_waits_for_a_later_entry() -> None:
    ended = reply(3, token=LAST, cursor=0)
    server = Server([reply(2), ended], [reply(token=LAST), reply(9), reply(token=token_of(10))])
    assert seconds(server) == [2, 3, 9]


def test_quiet_stream_with_other_tokens_ends_by_the_time_of_the_operation() -> None:
    assert seconds(Server([reply(2), reply(now=5), reply(now=10), reply(3)])) == [2]


def test_stream_that_ended_continues_after_its_last_token() -> None:
    server = Server([reply(2), reply(3, token="77", cursor=0)], [reply(4, 10)])
    assert seconds(server) == [2, 3, 4]
    assert server.opened[1] == {"startAfter": {"_data": "77"}, "fullDocument": "updateLookup"}


def test_small_replies_are_decoded_together() -> None:
    server = Server([reply(*[2] * 200) for _ in range(3)] + [reply(10)])
    found = list(streamed(server, PART))  # type: ignore[arg-type]  # as above
    assert [len(events) for events, _ in found] == [600]


def test_stream_that_does_not_come_closer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_LONGEST_WAIT_S", -1.0)
    with pytest.raises(SourceError, match="does not reach the end") as caught:
        seconds(Server([reply(now=5), reply(now=5)]))
    assert caught.value.retryable


def test_stream_of_one_collection_has_renames_to_its_name() -> None:
    (condition,) = command_of(PART, {})["pipeline"][1]["$match"]["$or"][1:2]
    assert condition == {"operationType": "rename", "to.coll": "t"}


def test_command_of_a_cluster_with_images() -> None:
    made = command_of(LogPart(1, 2, None, None, "required"), {"startAfter": {}})
    assert made["pipeline"][0]["$changeStream"] == {
        "startAfter": {},
        "fullDocument": "required",
        "fullDocumentBeforeChange": "required",
        "allChangesForCluster": True,
    }
    assert made["pipeline"][1] == {
        "$match": {
            "operationType": {
                "$in": ["insert", "update", "replace", "delete", "drop", "rename", "dropDatabase", "invalidate"]
            }
        }
    }
