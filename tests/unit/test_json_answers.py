from __future__ import annotations

import http.client
import io
from collections.abc import Callable
from itertools import count

import pytest

from penstock.json_answers import (
    WrongAnswer,
    answer_bytes,
    expected,
    expected_names,
    expected_texts,
    member,
    named,
    parsed_answer,
)


class Cut(io.BytesIO):
    """A response whose connection ended before the length in its header."""

    length = 7


def test_an_answer_is_read_up_to_a_limit() -> None:
    assert answer_bytes(io.BytesIO(b"{}")) == b"{}"
    assert answer_bytes(io.BytesIO(b"x" * 10), 10) == b"x" * 10
    with pytest.raises(WrongAnswer, match="larger than 1 MiB"):
        answer_bytes(io.BytesIO(b"x" * ((1 << 20) + 1)), 1 << 20)


def test_an_answer_that_was_cut_is_an_error_of_the_connection() -> None:
    with pytest.raises(http.client.IncompleteRead):
        answer_bytes(Cut(b"{}"))


class Slow(io.BytesIO):
    """A response of which a byte arrives each second."""

    def read1(self, _size: int | None = -1, /) -> bytes:
        return b" "


def test_an_answer_has_a_limited_time_to_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count()
    monkeypatch.setattr("penstock.json_answers.time.monotonic", lambda: float(next(seconds)))
    with pytest.raises(WrongAnswer, match="not complete after 5 seconds"):
        answer_bytes(Slow(), seconds=5.0)


@pytest.mark.parametrize("chunks", [b"5\r\n123", b"2\r\n12\r\n", b"many\r\n12"])
def test_chunks_that_were_cut_off_are_an_error_of_the_connection(chunks: bytes) -> None:
    response = http.client.HTTPResponse(Socket(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks))  # type: ignore[arg-type]
    response.begin()
    with pytest.raises(http.client.IncompleteRead):
        answer_bytes(response)


class Socket:
    """What a response is read from."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._data)


@pytest.mark.parametrize("data", [b"", b"<html>", b"\xff\xfe", b"[" * 100_000, b"{" * 9, b'"\\ud800"', b"9" * 5000])
def test_what_is_not_json_is_shown(data: bytes) -> None:
    with pytest.raises(WrongAnswer, match="it is not JSON"):
        parsed_answer(data)


def test_parts_of_an_answer() -> None:
    answer = parsed_answer(b'{"id": "a", "n": 3, "yes": true, "names": ["x"], "options": {"a": 1, "b": null}}')
    assert (member(answer, "id", str), member(answer, "n", int), member(answer, "yes", bool)) == ("a", 3, True)
    assert expected_names(answer["names"], "names") == ["x"]
    assert expected_texts(answer["options"], "options") == {"a": "1"}
    assert expected_texts(None, "options") == {}


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: member({}, "id", str), "id should be a text, and is None"),
        (lambda: member({"n": True}, "n", int), "n should be a whole number of 64 bits, and is True"),
        (lambda: member({"n": 2**63}, "n", int), "n should be a whole number of 64 bits"),
        (lambda: named({"id": ""}, "id"), "id is empty"),
        (lambda: expected([], dict, "the reply"), r"the reply should be an object, and is \[\]"),
        (lambda: expected_names({"a": 1}, "names"), "names should be a list"),
        (lambda: expected_names(["a", 1], "names"), "an entry of names should be a text, and is 1"),
        (lambda: expected_texts({"a": ["b"]}, "options"), "options.a should be a text"),
    ],
)
def test_a_wrong_part_is_named(read: Callable[[], object], message: str) -> None:
    with pytest.raises(WrongAnswer, match=message):
        read()
