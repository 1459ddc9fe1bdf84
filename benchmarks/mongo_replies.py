"""A proxy that joins the replies of a change stream: `python -m benchmarks.mongo_replies SERVER_PORT`.

The tests' server sends at most 200 events in a reply, where MongoDB sends as many as were asked for, up to 16 MiB. The
proxy asks for more until a reply has that size. It prints its port, and runs in a process of its own, so that its CPU
time is not counted.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator

import bson
from bson.raw_bson import RawBSONDocument

_HEADER, _FLAGS = 16, 5  # flags, and the kind of the section
_MOST_BYTES = 15 << 20
_MORE_TO_COME = 2


def message(connection: socket.socket) -> bytes:
    """Return the next message; empty at the end of the connection."""
    head = _exactly(connection, 4)
    return head + _exactly(connection, int.from_bytes(head, "little") - 4) if head else b""


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(min(count - len(parts), 1 << 20))
        if not part:
            return b""
        parts += part
    return bytes(parts)


def content(raw: bytes) -> RawBSONDocument:
    place = _HEADER + _FLAGS
    return RawBSONDocument(raw[place : place + int.from_bytes(raw[place : place + 4], "little")])


def replies(server: socket.socket, asked: bytes) -> Iterator[bytes]:
    """Yield the replies to a message."""
    server.sendall(asked)
    while True:
        reply = message(server)
        yield reply
        if not reply or not int.from_bytes(reply[_HEADER : _HEADER + 4], "little") & _MORE_TO_COME:
            return


def joined(server: socket.socket, asked: bytes) -> bytes:
    """Return one reply to a getMore, with the events of as many as there are."""
    events: list[RawBSONDocument] = []
    size = most = 0
    wanted = content(asked).get("batchSize", 1 << 30)
    while True:
        [reply] = replies(server, asked)
        last = content(reply)
        if not last["ok"]:
            return reply
        batch = last["cursor"]["nextBatch"]
        events += batch
        size += sum(len(event.raw) for event in batch)
        most = max(most, len(batch))
        is_all = len(batch) < most or not batch or not last["cursor"]["id"]
        if is_all or size >= _MOST_BYTES or len(events) + most > wanted:
            break
    whole = {**last, "cursor": {**last["cursor"], "nextBatch": events}}
    body = reply[_HEADER : _HEADER + _FLAGS] + bson.encode(whole)
    return (len(body) + _HEADER).to_bytes(4, "little") + reply[4:_HEADER] + body


def serve(client: socket.socket, port: int) -> None:
    with client, socket.create_connection(("127.0.0.1", port)) as server:
        while asked := message(client):
            if next(iter(content(asked))) == "getMore":
                client.sendall(joined(server, asked))
                continue
            for reply in replies(server, asked):
                client.sendall(reply)


def main(port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        while True:
            client, _ = listening.accept()
            threading.Thread(target=serve, args=(client, port), daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]))
