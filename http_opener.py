"""Opens requests of HTTP whose answers are limited in time and in their lines, which urllib does not limit."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from functools import partial
from typing import Any, cast
from urllib.request import BaseHandler, HTTPHandler, HTTPSHandler, OpenerDirector, Request, build_opener

# From the request to the last byte of the answer. The timeout of a socket limits a single read: a server that sends a
# byte now and then never exceeds it.
MOST_SECONDS = 600.0
# In bytes: the status, headers, sizes of chunks and trailers together. Python reads interim answers (100 Continue) and
# trailers for as long as they come.
MOST_LINES = 8 << 20


def limited_opener(
    *handlers: BaseHandler, context: ssl.SSLContext | None = None, seconds: float = MOST_SECONDS
) -> OpenerDirector:
    """Return an opener as `build_opener` does; reading an answer raises TimeoutError after `seconds`."""
    return build_opener(_HttpHandler(seconds), _HttpsHandler(seconds, context), *handlers)


class _LimitedReader:
    """The file that a response is read from. No method waits for more than one read of the connection at a time."""

    def __init__(self, file: io.BufferedReader, deadline: float) -> None:
        self._file = file
        self._deadline = deadline
        self._lines = 0

    def readline(self, limit: int = -1) -> bytes:
        line = bytearray()
        while not line.endswith(b"\n") and not 0 <= limit <= len(line):
            self._check_time()
            waiting = len(self._file.peek(1))
            if not waiting:
                break
            line += self._file.readline(waiting if limit < 0 else min(waiting, limit - len(line)))
        self._lines += len(line)
        if self._lines > MOST_LINES:
            raise http.client.HTTPException(f"the headers of the answer have more than {MOST_LINES >> 20} MiB")
        return bytes(line)

    def read1(self, size: int = -1) -> bytes:
        self._check_time()
        return self._file.read1(size)

    def read(self, size: int | None = -1) -> bytes:
        found = bytearray()
        while size is None or size < 0 or len(found) < size:
            piece = self.read1(-1 if size is None or size < 0 else size - len(found))
            if not piece:
                break
            found += piece
        return bytes(found)

    def readinto(self, buffer: bytearray | memoryview) -> int:
        piece = self.read1(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def peek(self, size: int = 0) -> bytes:
        self._check_time()
        return self._file.peek(size)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise TimeoutError("the answer was not complete in time")


class _LimitedResponse(http.client.HTTPResponse):
    """A response whose lines and body are read by a limited reader."""

    def __init__(self, sock: socket.socket, *args: Any, deadline: float, **others: Any) -> None:
        super().__init__(sock, *args, **others)
        # The type of the attribute is that of a file, of which the base class uses only these methods.
        self.fp = cast("io.BufferedReader", _LimitedReader(self.fp, deadline))


class _HttpConnection(http.client.HTTPConnection):
    def __init__(self, host: str, *, seconds: float, **others: Any) -> None:
        super().__init__(host, **others)
        _limit(self, seconds)


class _HttpsConnection(http.client.HTTPSConnection):
    def __init__(self, host: str, *, seconds: float, **others: Any) -> None:
        super().__init__(host, **others)
        _limit(self, seconds)


def _limit(connection: http.client.HTTPConnection, seconds: float) -> None:
    # The answer of a proxy is read with this class too.
    limited = partial(_LimitedResponse, deadline=time.monotonic() + seconds)
    connection.response_class = limited  # type: ignore[assignment]  # only ever called


class _HttpHandler(HTTPHandler):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def http_open(self, req: Request) -> http.client.HTTPResponse:
        return self.do_open(cast("Any", _HttpConnection), req, seconds=self._seconds)


class _HttpsHandler(HTTPSHandler):
    def __init__(self, seconds: float, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._seconds = seconds
        self._trusted = context

    def https_open(self, req: Request) -> http.client.HTTPResponse:
        return self.do_open(cast("Any", _HttpsConnection), req, context=self._trusted, seconds=self._seconds)
