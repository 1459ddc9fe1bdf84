"""Replies of the server of a REST catalog: their content, or the error that they mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from typing import Any, NoReturn

from penstock.errors import ConfigError, StoreError
from penstock.json_answers import WrongAnswer, expected, expected_texts, parsed_answer, shown
from penstock.references import has_reference

_ERRORS = range(400, 600)
_BUSY = {429, 503}
_UNCERTAIN = {500, 502, 504}
_HINTS = {
    401: "check the options token.provider and token, or the keys of dlf",
    403: "the server does not allow this to the user of the token",
    501: "the server does not support this",
}


class RestRefused(ConfigError):
    """A request that the server refused: it had no effect."""


class RestMissing(RestRefused):
    """A name that the server does not know; the fact `type` is its kind: DATABASE, TABLE, SNAPSHOT, BRANCH, ..."""


class RestExists(RestRefused):
    """A name that the server has already."""


class RestUnsupported(RestRefused):
    """A request that this server does not implement."""


class RestUncertain(StoreError):
    """A request without a clear reply: it may have taken effect, or may still do so."""


class RestBusy(RestUncertain):
    """A request that the server postponed."""


class RestCut(RestUncertain):
    """A request whose connection was closed before the reply."""


class RestMalformed(RestUncertain):
    """A reply that is not as the protocol requires."""


def parsed_reply(data: bytes) -> dict[str, Any]:
    """Return the object of a reply. Requests without a result have an empty one."""
    return expected(parsed_answer(data), dict, "the reply") if data else {}


@contextmanager
def replying(server: object, request: str) -> Iterator[None]:
    """Report a reply, or a part of it, that is not as the protocol requires."""
    try:
        yield
    except WrongAnswer as error:
        raise RestMalformed(
            f"the reply of the REST catalog is not as its protocol requires: {error}",
            uri=str(server),
            request=request,
            hint="check that the option uri is the address of a Paimon REST catalog",
        ) from error


def settings_of_server(value: object, place: str, server: object) -> dict[str, str]:
    """Return settings that the server sends. None may refer to a secret of this machine: it would be sent to others."""
    found = expected_texts(value, place)
    for name, text in found.items():
        if has_reference(text):
            raise ConfigError(
                f"the server of the REST catalog sets {name} to a reference to a secret of this machine",
                uri=str(server),
                setting=f"{place}.{name}",
                hint="the administrator of the server has to remove it; references belong to options of users",
            )
    return found


def refuse(code: int, data: bytes, headers: Message, server: object, request: str) -> NoReturn:
    """Raise the error of a reply. The code in its body counts, as in Java, if it has one."""
    body = _error_body(data)
    text = str(body.get("message") or shown(data) or f"status {code}")
    given = body.get("code")
    # Only codes of errors: {"code": 200} in a failure of the server would be a refusal, which has no effect.
    code = given if isinstance(given, int) and given in _ERRORS else code
    facts = {"uri": str(server), "request": request, "type": body.get("resourceType"), "name": body.get("resourceName")}
    facts["request id"] = headers.get("x-request-id")
    if code in _BUSY:
        raise RestBusy(
            f"the REST catalog is busy: {text}",
            hint="try again later",
            status=code,
            retry_after=headers.get("Retry-After"),
            **facts,
        )
    if code in _UNCERTAIN:
        raise RestUncertain(f"the REST catalog failed: {text}", hint="see the log of the server", status=code, **facts)
    kind = {404: RestMissing, 409: RestExists, 501: RestUnsupported}.get(code, RestRefused)
    raise kind(f"the REST catalog refused a request: {text}", hint=_HINTS.get(code), status=code, **facts)


def _error_body(data: bytes) -> dict[str, Any]:
    """Return the object of an error's body, an empty one if a proxy sent something else."""
    try:
        found = parsed_answer(data)
    except WrongAnswer:
        return {}
    return found if isinstance(found, dict) else {}
