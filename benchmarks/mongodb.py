"""The MongoDB source beside `watch()` with dictionaries: CPU seconds of the reading process, taken in turns.

    python -m benchmarks.mongodb [documents]

Starts the tests' server in a temporary folder. It sends at most 200 events in a reply, where MongoDB sends the 4,096
that are asked for. So the stream is also read through a proxy that joins its replies, and the decoding of replies that
were read before is measured too.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bson import Decimal128, Int64, ObjectId
from pymongo import MongoClient

from benchmarks.figures import Figure, record
from penstock.formats.change import DecodeOptions
from penstock.ingest.mongodb.log.decode import EventDecoder
from penstock.ingest.mongodb.log.events import Events
from penstock.ingest.mongodb.log.stream import LogPart, command_of, streamed
from penstock.ingest.mongodb.rows import ColumnChoice, DocumentRows
from penstock.ingest.mongodb.server.address import MongoAddress
from penstock.ingest.mongodb.server.cluster_time import timestamp_of
from penstock.ingest.mongodb.server.connection import connected
from penstock.ingest.mongodb.server.replies import Reply, joined
from penstock.ingest.mongodb.snapshot.chunks import IdChunk, not_before, read_chunk
from tests.servers.launch import running

ROUNDS = 3


def document(number: int) -> dict[str, Any]:
    """Return a document of 12 fields of about 400 bytes, two of them nested."""
    return {
        "_id": ObjectId(),
        "name": f"customer {number}",
        "email": f"someone{number}@example.com",
        "age": number % 90,
        "score": number * 0.37,
        "total": Decimal128(f"{number}.{number % 100:02}"),
        "at": dt.datetime(2026, 1, 1) + dt.timedelta(seconds=number),
        "ok": number % 2 == 0,
        "n": Int64(number * 10**9),
        "address": {"street": f"street {number}", "city": "Berlin", "geo": {"lat": 1.5 + number, "lon": 2.5}},
        "tags": [f"a{tag}" for tag in range(number % 5)],
        "note": "x" * 100,
    }


def decoder() -> EventDecoder:
    oddities: Counter[str] = Counter()
    documents = DocumentRows(ColumnChoice(), oddities)
    return EventDecoder(lambda *_: True, documents, DecodeOptions(), has_before=False, oddities=oddities)


@contextmanager
def joining(port: int) -> Iterator[MongoAddress]:
    """Return the address of a proxy that joins replies of the server."""
    proxy = subprocess.Popen([sys.executable, "-m", "benchmarks.mongo_replies", str(port)], stdout=subprocess.PIPE)
    try:
        assert proxy.stdout is not None
        yield MongoAddress(f"127.0.0.1:{int(proxy.stdout.readline())}", options="directConnection=true")
    finally:
        proxy.kill()
        proxy.wait()


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder, running("mongodb", Path(folder)) as port:
        address = MongoAddress(f"127.0.0.1:{port}")
        with (
            MongoClient[dict[str, Any]](address.uri) as client,
            connected(address) as connection,
            joining(port) as joins,
            connected(joins) as through_proxy,
        ):
            client.shop.create_collection("docs")
            start = connection.now() + 1
            for first in range(0, count, 5000):
                client.shop.docs.insert_many([document(number) for number in range(first, min(first + 5000, count))])
            part = LogPart(start, connection.now() + 1, "shop", "docs")
            replies = list[Reply]()

            def read() -> int:
                replies.clear()
                found = 0
                for reply in connection.documents(
                    "shop", command_of(part, {"startAtOperationTime": timestamp_of(start)})
                ):
                    replies.append(reply)
                    found += len(reply.documents)
                    if found >= count:
                        break
                return found

            def decode() -> int:
                decoding, rows = decoder(), 0
                for first in range(0, len(replies), 20):
                    reply = joined(replies[first : first + 20])
                    rows += sum(map(len, decoding.decode(Events.of(reply.block, reply.documents))))
                return rows

            def source() -> int:
                decoding = decoder()
                return sum(len(batch) for events, _ in streamed(connection, part) for batch in decoding.decode(events))

            def source_of_large_replies() -> int:
                decoding = decoder()
                return sum(
                    len(batch) for events, _ in streamed(through_proxy, part) for batch in decoding.decode(events)
                )

            def snapshot() -> int:
                documents = DocumentRows(ColumnChoice(), Counter())
                chunk = IdChunk("shop", "docs")
                return sum(len(rows) for rows, _ in read_chunk(connection, chunk, not_before(start), documents))

            def watched() -> int:
                found = 0
                with client.shop.watch(
                    start_at_operation_time=timestamp_of(start), full_document="updateLookup"
                ) as stream:
                    while found < count:
                        change = stream.try_next()
                        if change is not None:
                            {name: json.dumps(value, default=str) for name, value in change["fullDocument"].items()}
                            found += 1
                return found

            works: dict[str, Callable[[], int]] = {
                "replies as bytes": read,
                "replies to columns of text": decode,
                "change stream to columns of text, 200 events in a reply": source,
                "change stream to columns of text, 4,000 events in a reply": source_of_large_replies,
                "snapshot to columns of text": snapshot,
                "watch() to dictionaries and JSON": watched,
            }
            best = dict.fromkeys(works, float("inf"))
            for _ in range(ROUNDS):
                for name, work in works.items():
                    began = time.process_time()
                    done = work()
                    assert done == count, (name, done)
                    best[name] = min(best[name], time.process_time() - began)
            for name, seconds in best.items():
                print(f"{name:36} {seconds:7.3f} CPU-s {count / seconds:12,.0f} per CPU-s")
            *own, watch = works
            for name in own:
                goal = 150_000.0 if "4,000 events" in name else None
                speeds = count / best[name], count / best[watch]
                record(Figure(name, speeds[0], "documents/CPU-s", speeds[1], "watch()", goal))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60_000)
