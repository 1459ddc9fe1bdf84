"""Servers that answer without end, slowly, or with half an answer, over real sockets."""

from __future__ import annotations

import ast
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest

from penstock.http_opener import limited_opener
from penstock.json_answers import answer_bytes
from penstock.pipelines.spark.code_zip import PACKAGE_FOLDERS
from tests.source_trees import source_nodes

ROOT = Path(__file__).resolve().parents[2]
Answer = Callable[[Callable[[bytes], None]], None]


@pytest.fixture
def served() -> Iterator[Callable[[Answer], str]]:
    """A server on the loopback interface that answers each connection by the function given."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(answer: Answer) -> str:
        threading.Thread(target=_serve, args=(listening, answer), daemon=True).start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}/"

    yield serve
    listening.close()


def _serve(listening: socket.socket, answer: Answer) -> None:
    connection, _ = listening.accept()
    with connection:
        connection.recv(1 << 16)
        try:
            answer(connection.sendall)
        except OSError:
            return  # the client has ended the connection, as it should


def _slowly(data: bytes, send: Callable[[bytes], None]) -> None:
    """Send without end, so that only a limit ends the request."""
    for number in count():
        send(data[number % len(data) :][:1])
        time.sleep(0.05)


def _endless(first: bytes, again: bytes) -> Answer:
    def answer(send: Callable[[bytes], None]) -> None:
        send(first)
        while True:
            send(again * 1000)

    return answer


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def test_complete_answers_are_read(served: Callable[[Answer], str]) -> None:
    for whole, body in [
        (OK + b"Content-Length: 2\r\n\r\n{}", b"{}"),
        (OK + b"\r\nto the end of the connection", b"to the end of the connection"),
        (CHUNKED + b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: x\r\n\r\n", b"abcde"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + OK + b"Content-Length: 0\r\n\r\n", b""),
    ]:
        with limited_opener().open(served(lambda send, whole=whole: send(whole)), timeout=240) as response:  # type: ignore[misc]
            assert answer_bytes(response) == body


def test_a_status_of_an_error_is_raised_with_its_body(served: Callable[[Answer], str]) -> None:
    url = served(lambda send: send(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nsoon"))
    with pytest.raises(HTTPError, match="503: Busy") as found, limited_opener().open(url, timeout=240):
        pass
    with found.value as error:
        assert answer_bytes(error) == b"soon"  # type: ignore[arg-type]  # has the method


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(_endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), id="interim-answers"),
        pytest.param(_endless(CHUNKED + b"0\r\n", b"More: trailers\r\n"), id="trailers"),
        pytest.param(_endless(OK + b"X: ", b"x"), id="one-header"),
        pytest.param(_endless(OK, b"X: y\r\n"), id="headers"),
    ],
)
def test_headers_without_end_are_an_error(served: Callable[[Answer], str], answer: Answer) -> None:
    url = served(answer)
    with pytest.raises(http.client.HTTPException):  # noqa: SIM117  -- the response is read inside
        with limited_opener(seconds=240).open(url, timeout=240) as response:
            answer_bytes(response)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "slowly"),
    [
        pytest.param(b"", OK * 10, id="status"),
        pytest.param(OK, b"X: " + b"y" * 100, id="header"),
        pytest.param(CHUNKED, b"0" * 100, id="size-of-a-chunk"),
        pytest.param(CHUNKED + b"0\r\n", b"x" * 100, id="trailer"),
        pytest.param(OK + b"Content-Length: 1000000\r\n\r\n", b"x" * 100, id="body"),
    ],
)
def test_a_byte_now_and_then_is_not_enough_for_a_request(
    served: Callable[[Answer], str], first: bytes, slowly: bytes
) -> None:
    url = served(lambda send: (send(first), _slowly(slowly, send))[1])
    with pytest.raises(TimeoutError, match="not complete in time"):  # noqa: SIM117  -- the response is read inside
        with limited_opener(seconds=0.5).open(url, timeout=240) as response:
            answer_bytes(response)


def test_a_server_that_does_not_listen_is_an_error_of_the_url() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # kept, so that nobody else listens there
        with pytest.raises(URLError):
            limited_opener().open(f"http://127.0.0.1:{free.getsockname()[1]}/", timeout=240)


@pytest.mark.slow
def test_every_module_opens_requests_with_limits() -> None:
    unlimited = {"urlopen", "build_opener", "HTTPConnection", "HTTPSConnection", "install_opener"}
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in [
            *ROOT.glob("*.py"),
            *(path for folder in PACKAGE_FOLDERS for path in (ROOT / folder).rglob("*.py")),
        ]
        for node in source_nodes(path)
        if isinstance(node, ast.Attribute | ast.Name | ast.ImportFrom)
        for name in _names(node) & unlimited
    }
    assert found == {f"http_opener.py: {name}" for name in ("build_opener", "HTTPConnection", "HTTPSConnection")}


def _names(node: ast.Attribute | ast.Name | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return {alias.name for alias in node.names}
    return {node.attr if isinstance(node, ast.Attribute) else node.id}
