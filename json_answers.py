"""Answers of other servers in JSON: read with a limit, and their parts checked before they are used."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

# In bytes. Pages of listings and schemas have some thousands; whatever is larger is not such an answer.
LARGEST_ANSWER = 64 << 20
# What urllib raises if the connection fails or the server does not speak HTTP. ValueError: the address of a redirect.
CONNECTION_ERRORS = (OSError, http.client.HTTPException, ValueError)
_SHOWN = 200

T = TypeVar("T")


class WrongAnswer(ValueError):
    """An answer that is not as its protocol requires. Whoever asked adds the server and the request."""


class Response(Protocol):
    """A response of urllib."""

    def read(self, amount: int, /) -> bytes: ...


def answer_bytes(response: Response, largest: int = LARGEST_ANSWER) -> bytes:
    """Read the body of a response; WrongAnswer if it is too large to be an answer."""
    # One byte more, so that a longer answer is noticed without reading all of it.
    data = response.read(largest + 1)
    if len(data) > largest:
        raise WrongAnswer(f"it is larger than {largest >> 20} MiB")
    # With an amount, `read` does not raise this if the connection ends before the length in the header.
    left = getattr(response, "length", None)
    if left:
        raise http.client.IncompleteRead(data, left)
    return data


def parsed_answer(data: bytes) -> Any:
    """Return the value of an answer in JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise WrongAnswer(f"it is not JSON: {shown(data)}") from error


def shown(data: bytes) -> str:
    """Return the beginning of an answer for an error."""
    return data[:_SHOWN].decode(errors="replace")


def expected(value: object, kind: type[T], what: str) -> T:
    """Return a part of an answer; WrongAnswer if it is missing or of another type."""
    # In JSON true is no number, in Python it is.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise WrongAnswer(f"{what} should be {_NAMES.get(kind, kind.__name__)}, and is {value!r:.80}")
    return value


def expected_texts(value: object, what: str) -> dict[str, str]:
    """Return an object of texts; members without a value are left out, and numbers become text."""
    items = expected({} if value is None else value, dict, what).items()
    return {str(name): _text(one, f"{what}.{name}") for name, one in items if one is not None}


def expected_names(value: object, what: str) -> list[str]:
    """Return a list of texts."""
    return [expected(one, str, f"an entry of {what}") for one in expected(value, list, what)]


def member(answer: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """Return a member of an object of the answer."""
    return expected(answer.get(name), kind, name)


def _text(value: object, what: str) -> str:
    if isinstance(value, dict | list):
        raise WrongAnswer(f"{what} should be a text, and is {value!r:.80}")
    return str(value)


_NAMES: dict[type, str] = {dict: "an object", list: "a list", str: "a text", int: "a number", bool: "true or false"}
