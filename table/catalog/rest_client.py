"""Requests to the server of a REST catalog, in the protocol of Paimon 1.3."""

from __future__ import annotations

import http.client
import json
import re
import ssl
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote_plus, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request

from penstock.errors import ConfigError, StoreError, without_login
from penstock.http_opener import limited_opener
from penstock.json_answers import (
    CONNECTION_ERRORS,
    WrongAnswer,
    answer_bytes,
    expected,
    expected_names,
)
from penstock.references import resolve
from penstock.storage.environment import Environment
from penstock.table.catalog.rest_login import check_login, login_headers
from penstock.table.catalog.rest_replies import (
    RestBusy,
    RestCut,
    RestUncertain,
    parsed_reply,
    refuse,
    replying,
    settings_of_server,
)

HEADER = "header."
_LARGEST_ERROR = 1 << 20  # bytes
_TIMEOUT_SECONDS = 180  # as in Java
_TRIES = 6
_MAX_PAUSE_SECONDS = 64.0
# What HTTP allows in names and values of headers. Python's client would quote a secret value in its error.
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


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

    def listed(self, *path: str, key: str, query: Mapping[str, str] | None = None) -> list[str]:
        """Return all pages of a list of names, which is the value of `key` in the replies."""
        all_names: list[str] = []
        given, seen = dict(query or {}), set[str]()
        while True:
            page = self.get(*path, query=given)
            with self.replying(*path):
                names = expected_names(page.get(key) or [], key)
                following = expected(page.get("nextPageToken") or "", str, "nextPageToken")
            all_names += names
            if not following or not names:
                return all_names
            if following in seen:
                raise StoreError(
                    "the REST catalog repeats a page of a list",
                    uri=str(self),
                    request="/".join(path),
                    hint="start again; if it happens again, report it to the operator of the catalog",
                )
            seen.add(following)
            given["pageToken"] = following

    def replying(self, *path: str) -> AbstractContextManager[None]:
        """Report parts of the reply to a request that are not as the protocol requires."""
        return replying(self, "/".join(path))

    def _path(self, path: Sequence[str]) -> str:
        prefix = self.settings.get("prefix")
        steps = ["v1", *([prefix] if prefix else []), *path]
        # The encoding of Java's URLEncoder: a blank becomes a plus sign, and an asterisk stays.
        return "/" + "/".join(quote_plus(step, safe="*") for step in steps)

    def ask_settings(self) -> dict[str, str]:
        """Return the options merged with the server's options."""
        # The value is encoded twice, as Java and pypaimon do.
        reply = self._send("GET", "/v1/config", {"warehouse": quote_plus(self.warehouse, safe="*")}, None)
        given = dict(self.options)
        with self.replying("config"):
            defaults = settings_of_server(reply.get("defaults"), "defaults", self)
            overrides = settings_of_server(reply.get("overrides"), "overrides", self)
        # Defaults of the server yield to the user's options; its overrides do not.
        merged = {**defaults, **given, **overrides}
        check_login(merged)
        return merged

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
        headers |= _own_headers(options)
        headers |= login_headers(options, method, path, query, data, self.environment)
        address = f"{self.uri}{path}" + (f"?{urlencode(query)}" if query else "")
        request = Request(address, data, headers, method=method)  # noqa: S310 -- the scheme was checked
        where = f"{method} {path}"
        with replying(self, where):
            return parsed_reply(self._received(request, where))

    def _received(self, request: Request, where: str) -> bytes:
        try:
            with _opener().open(request, timeout=_TIMEOUT_SECONDS) as reply:
                return answer_bytes(reply)
        except HTTPError as error:
            with error:
                refuse(error.code, _body_of(error), error.headers, self, where)
        except WrongAnswer:
            raise
        except CONNECTION_ERRORS as error:
            reason = getattr(error, "reason", error)
            cut = isinstance(reason, ConnectionResetError | BrokenPipeError | http.client.HTTPException)
            raise (RestCut if cut else RestUncertain)(
                f"the REST catalog does not answer: {reason or type(reason).__name__}",
                uri=str(self),
                request=where,
                hint="check that the server is running, and the option uri",
            ) from error


def _own_headers(options: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that are set by the user's options and by the server's options."""
    headers = {}
    for key, text in options.items():
        if key.startswith(HEADER):
            name, value = key.removeprefix(HEADER), resolve(text)
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                hint = "headers have no line breaks and no characters beyond Latin-1; the server may set options too"
                raise ConfigError("an option is not a valid header of HTTP", option=key, hint=hint)
            headers[name] = value
    return headers


@lru_cache(maxsize=32)
def _settings(server: RestServer) -> Mapping[str, str]:
    return server.ask_settings()


class _NoRedirect(HTTPRedirectHandler):
    """Redirects are errors: a header with a token must not reach another host."""

    def redirect_request(self, *_: object) -> None:
        return None


@lru_cache(maxsize=1)
def _opener() -> Any:
    return limited_opener(_NoRedirect(), context=ssl.create_default_context())


def _body_of(error: HTTPError) -> bytes:
    """Return the body of an error, as far as it arrives: the status says enough."""
    try:
        return answer_bytes(error, _LARGEST_ERROR)
    except CONNECTION_ERRORS:
        return b""


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


def _pause(error: RestUncertain, attempt: int, jitter: float) -> float:
    """Return the seconds to wait: as many as the server asks for, or 1, 2, 4, ... with up to 10 percent more."""
    after = str(error.facts.get("retry_after", ""))
    if re.fullmatch(r"[0-9]{1,9}", after):
        return min(float(after), _MAX_PAUSE_SECONDS)
    return min(2.0 ** (attempt - 1), _MAX_PAUSE_SECONDS) * (1 + 0.1 * jitter)
