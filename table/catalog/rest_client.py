"""Requests to the server of a REST catalog, in the protocol of Paimon 1.3."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from functools import lru_cache
from typing import Any, NoReturn
from urllib.error import HTTPError
from urllib.parse import quote_plus, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from penstock.errors import ConfigError, StoreError
from penstock.references import resolve, without_login
from penstock.storage.environment import Environment
from penstock.table.catalog.rest_login import login_headers

HEADER = "header."
_TIMEOUT_SECONDS = 180  # as in Java
_TRIES = 6
_MAX_PAUSE_SECONDS = 64.0
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


@dataclass(frozen=True, slots=True)
class RestServer:
    """A server by its address, and the catalog `warehouse` in it.

    `options` may contain references to secrets, which are resolved for each request: a token in a file may be renewed.
    Each request has a connection of its own, so this class is safe in threads. It is pickled without secrets.
    """

    uri: str
    warehouse: str
    options: tuple[tuple[str, str], ...]
    environment: Environment = field(default_factory=Environment, compare=False)

    def __str__(self) -> str:
        return without_login(self.uri)

    @property
    def settings(self) -> Mapping[str, str]:
        """Return the options as the server changes them: it has defaults, and options that override the user's.

        A process asks once.
        """
        return _settings(self)

    def get(self, *path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        return self._send("GET", self._path(path), query or {}, None)

    def post(self, *path: str, body: Mapping[str, object], repeat: bool = True) -> dict[str, Any]:
        """Send a change. With `repeat`, it is sent again if the server was too busy."""
        return self._send("POST", self._path(path), {}, body, repeat=repeat)

    def delete(self, *path: str) -> None:
        self._send("DELETE", self._path(path), {}, None)

    def listed(self, *path: str, key: str, query: Mapping[str, str] | None = None) -> list[Any]:
        """Return all pages of a list, which is the value of `key` in the replies."""
        found: list[Any] = []
        given = dict(query or {})
        while True:
            page = self.get(*path, query=given)
            found += page.get(key) or []
            following = page.get("nextPageToken")
            if not following or not page.get(key):
                return found
            if following == given.get("pageToken"):
                raise StoreError("the REST catalog repeats a page of a list", uri=str(self), request="/".join(path))
            given["pageToken"] = following

    def _path(self, path: Sequence[str]) -> str:
        prefix = self.settings.get("prefix")
        steps = ["v1", *([prefix] if prefix else []), *path]
        # The encoding of Java's URLEncoder: a blank becomes a plus sign, and an asterisk stays.
        return "/" + "/".join(quote_plus(step, safe="*") for step in steps)

    def ask_settings(self) -> dict[str, str]:
        """Return the options merged with those of the server."""
        # The value is encoded twice, as Java and pypaimon do.
        reply = self._send("GET", "/v1/config", {"warehouse": quote_plus(self.warehouse, safe="*")}, None)
        given = dict(self.options)
        defaults, overrides = (_texts(reply.get(name)) for name in ("defaults", "overrides"))
        # Defaults of the server yield to the user's options; its overrides do not.
        return {**defaults, **given, **overrides}

    def _send(
        self, method: str, path: str, query: Mapping[str, str], body: object, *, repeat: bool = True
    ) -> dict[str, Any]:
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._once(method, path, query, body)
            except RestUncertain as error:
                # A request that was cut off may have taken effect, so only a read is sent again.
                again = (isinstance(error, RestBusy) and repeat) or (isinstance(error, RestCut) and method == "GET")
                if not again or attempt == _TRIES:
                    raise
                self.environment.sleep(_pause(error, attempt, self.environment.jitter()))

    def _once(self, method: str, path: str, query: Mapping[str, str], body: object) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        # The settings are the reply to this request, so it is sent with the user's options alone.
        options = dict(self.options) if path == "/v1/config" else self.settings
        headers = {"Accept": "application/json"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        headers |= {
            name.removeprefix(HEADER): resolve(text) for name, text in options.items() if name.startswith(HEADER)
        }
        headers |= login_headers(options, method, path, query, data, self.environment)
        address = f"{self.uri}{path}" + (f"?{urlencode(query)}" if query else "")
        request = Request(address, data, headers, method=method)  # noqa: S310 -- the scheme was checked
        where = f"{method} {path}"
        try:
            with _opener().open(request, timeout=_TIMEOUT_SECONDS) as reply:
                received = reply.read()
        except HTTPError as error:
            with error:
                _refuse(error.code, error.read(), error.headers, self, where)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            cut = isinstance(reason, ConnectionResetError | BrokenPipeError | http.client.HTTPException)
            raise (RestCut if cut else RestUncertain)(
                f"the REST catalog does not answer: {reason or type(reason).__name__}",
                uri=str(self),
                request=where,
                hint="check that the server is running, and the option uri",
            ) from error
        return _parsed(received, self, where)


@lru_cache(maxsize=32)
def _settings(server: RestServer) -> Mapping[str, str]:
    return server.ask_settings()


class _NoRedirect(HTTPRedirectHandler):
    """Redirects are errors: a header with a token must not reach another host."""

    def redirect_request(self, *_: object) -> None:
        return None


@lru_cache(maxsize=1)
def _opener() -> Any:
    return build_opener(HTTPSHandler(context=ssl.create_default_context()), _NoRedirect())


def server_address(uri: str) -> str:
    """Return the address of a server without a slash at its end, with `http://` if it has no scheme.

    Raise ConfigError if it is not an address.
    """
    text = uri.strip()
    text = (text if "://" in text else f"http://{text}").rstrip("/")
    try:
        parts = urlsplit(text)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment or "@" in parts.netloc:
        hint = "for example https://catalog.example:8443; a token is given by the option token"
        raise ConfigError(f"uri = {without_login(uri)} is not the address of a REST catalog", option="uri", hint=hint)
    return text


def _parsed(data: bytes, server: RestServer, where: str) -> dict[str, Any]:
    # Requests without a result have an empty reply.
    if not data:
        return {}
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise RestUncertain(
            "the reply of the REST catalog is not a JSON object",
            uri=str(server),
            request=where,
            reply=data[:200].decode(errors="replace"),
            hint="check that the option uri is the address of a Paimon REST catalog",
        )
    return found


def _refuse(code: int, data: bytes, headers: Message, server: RestServer, where: str) -> NoReturn:
    """Raise the error of a reply. The code in its body counts, as in Java, if it has one."""
    try:
        body = json.loads(data)
    except ValueError:
        body = None
    body = body if isinstance(body, dict) else {}
    text = str(body.get("message") or data[:200].decode(errors="replace") or f"status {code}")
    code = body["code"] if isinstance(body.get("code"), int) else code
    facts = {"uri": str(server), "request": where, "type": body.get("resourceType"), "name": body.get("resourceName")}
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


def _pause(error: RestUncertain, attempt: int, jitter: float) -> float:
    """Return the seconds to wait: what the server asks for, or 1, 2, 4, ... with up to 10 percent more."""
    after = str(error.facts.get("retry_after", ""))
    if after.isdigit():
        return min(float(after), _MAX_PAUSE_SECONDS)
    return min(2.0 ** (attempt - 1), _MAX_PAUSE_SECONDS) * (1 + 0.1 * jitter)


def _texts(given: object) -> dict[str, str]:
    items = given.items() if isinstance(given, dict) else ()
    return {str(name): str(value) for name, value in items if value is not None}
