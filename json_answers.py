"""Answers of other servers in JSON: read with a limit, and their parts checked before they are used."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

# In bytes. Pages of listings and schemas have some thousands; whatever is larger is not such an answer.
LARGEST_ANSWER = 64 << 20
# The timeout of a socket limits a single read: a server that sends a byte now and then never exceeds it.
MOST_SECONDS = 600.0
_PIECE = 1 << 20
# What urllib raises if the connection fails or the server does not speak HTTP. ValueError: the address of a redirect.
CONNECTION_ERRORS = (OSError, http.client.HTTPException, ValueError)
_SHOWN = 200

T = TypeVar("T")


class WrongAnswer(ValueError):
    """An answer that is not as its protocol requires. Whoever asked adds the server and the request."""


class Response(Protocol):
    """A response of urllib."""

    def read1(self, amount: int, /) -> bytes: ...


def answer_bytes(response: Response, largest: int = LARGEST_ANSWER, seconds: float = MOST_SECONDS) -> bytes:
    """Read the body of a response; WrongAnswer if it is too large to be an answer, or arrives too slowly."""
    deadline, data = time.monotonic() + seconds, bytearray()
    # With an amount, reads do not raise IncompleteRead if the connection ends before the length in the header.
    promised: int | None = getattr(response, "length", None)
    while promised is None or len(data) < promised:
        piece = response.read1(_PIECE if promised is None else min(_PIECE, promised - len(data)))
        if not piece:
            break
        data += piece
        if len(data) > largest:
            raise WrongAnswer(f"it is larger than {largest >> 20} MiB")
        if time.monotonic() > deadline:
            raise WrongAnswer(f"it was not complete after {seconds:g} seconds")
    if promised is not None and len(data) < promised:
        raise http.client.IncompleteRead(bytes(data), promised - len(data))
    return bytes(data)


def parsed_answer(data: bytes) -> Any:
    """Return the value of an answer in JSON."""
    try:
        found = json.loads(data)
        # JSON can escape half of a surrogate pair, which no path, URL, log or column can contain.
        if b"\\u" in data:
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise WrongAnswer(f"it is not JSON: {shown(data)}") from error
    return found


def shown(data: bytes) -> str:
    """Return the beginning of an answer for an error."""
    return data[:_SHOWN].decode(errors="replace")


def expected(value: object, kind: type[T], place: str) -> T:
    """Return a part of an answer; WrongAnswer if it is missing or of another type."""
    # In JSON true is no number, in Python it is.
    fits = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    if not fits or (kind is int and not -(2**63) <= value < 2**63):  # type: ignore[operator]  # a number
        raise WrongAnswer(f"{place} should be {_NAMES.get(kind, kind.__name__)}, and is {value!r:.80}")
    return value  # type: ignore[return-value]  # fits


def expected_texts(value: object, place: str) -> dict[str, str]:
    """Return an object of texts; members without a value are left out, and numbers become text."""
    items = expected({} if value is None else value, dict, place).items()
    return {str(name): _text(member, f"{place}.{name}") for name, member in items if member is not None}


def expected_names(value: object, place: str) -> list[str]:
    """Return a list of texts."""
    return [expected(entry, str, f"an entry of {place}") for entry in expected(value, list, place)]


def member(answer: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """Return a member of an object of the answer."""
    return expected(answer.get(name), kind, name)


def named(answer: Mapping[str, Any], name: str) -> str:
    """Return a member of an object of the answer that is a text with at least one character."""
    found = member(answer, name, str)
    if not found:
        raise WrongAnswer(f"{name} is empty")
    return found


def _text(value: object, place: str) -> str:
    if isinstance(value, dict | list):
        raise WrongAnswer(f"{place} should be a text, and is {value!r:.80}")
    return str(value)


_NAMES: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number of 64 bits",
    bool: "true or false",
}
