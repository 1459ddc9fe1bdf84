"""Requests to an Iceberg REST catalog, in which tables are found by Iceberg's readers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request

from penstock.errors import ConfigError, StoreError, without_login
from penstock.http_opener import limited_opener
from penstock.json_answers import (
    CONNECTION_ERRORS,
    WrongAnswer,
    answer_bytes,
    expected,
    expected_texts,
    named,
    parsed_answer,
    shown,
)
from penstock.references import has_reference, resolve

_TIMEOUT_SECONDS = 60
_LARGEST_ERROR = 1 << 20  # bytes
# The request had no effect, and later ones may have: the server is busy, or a gateway before it has no connection.
_HINTS = {
    401: "check metadata.iceberg.rest.token or metadata.iceberg.rest.credential",
    403: "the catalog does not allow this to the user of the token",
    406: "the catalog does not support this",
}


class EntryMissing(ConfigError):
    """A name that the catalog does not have."""


class EntryChanged(ConfigError):
    """A change that the catalog refused, because another one was made before it; or a name that it has already."""


@dataclass(frozen=True, slots=True)
class IcebergCatalogClient:
    """A catalog by its address and the user's options, which may contain references to secrets.

    Each request has a connection of its own. Secrets are resolved for each request, so that they are in no log.
    """

    uri: str
    options: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, uri: str, options: Mapping[str, str]) -> IcebergCatalogClient:
        """Check the address; `options` are `warehouse`, `prefix`, `token`, `credential`, ... without a prefix."""
        parts = urlsplit(uri)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigError(
                f"metadata.iceberg.rest.uri = {without_login(uri)} is not the address of an Iceberg REST catalog",
                option="metadata.iceberg.rest.uri",
                hint="write https://host/path, without the version v1",
            )
        return cls(uri.rstrip("/"), tuple(sorted(options.items())))

    def __str__(self) -> str:
        return without_login(self.uri)

    def table(self, database: str, table: str) -> dict[str, Any]:
        """Return the metadata of a table. EntryMissing if it does not exist."""
        return self._member(self._ask("GET", _table(database, table)), "metadata")

    def create_database(self, database: str) -> None:
        """Create a namespace. EntryChanged if it exists."""
        self._ask("POST", "namespaces", {"namespace": [database], "properties": {}})

    def stage_table(self, database: str, table: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metadata of a table that would be created, which names its place. Nothing is created."""
        body = {"name": table, "schema": schema, "stage-create": True}
        return self._member(self._ask("POST", f"namespaces/{_quoted(database)}/tables", body), "metadata")

    def change(self, database: str, table: str, requirements: list[Any], updates: list[Any]) -> None:
        """Create or change a table. EntryChanged, and nothing is changed, if the requirements are not met."""
        identifier = {"namespace": [database], "name": table}
        body = {"identifier": identifier, "requirements": requirements, "updates": updates}
        self._ask("POST", _table(database, table), body)

    def drop(self, database: str, table: str) -> None:
        """Drop a table and keep its files. EntryMissing if it does not exist."""
        self._ask("DELETE", f"{_table(database, table)}?purgeRequested=false")

    def _ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        settings = _settings(self)
        prefix = settings.get("prefix")
        base = settings.get("uri", self.uri).rstrip("/")
        place = f"{base}/v1/{quote(prefix) + '/' if prefix else ''}{path}"
        return self._send(method, place, body, self._login(settings))

    def settings(self) -> dict[str, str]:
        """Return the user's options over the catalog's defaults, and the catalog's overrides over both."""
        given = dict(self.options)
        query = f"?{urlencode({'warehouse': resolve(given['warehouse'])})}" if "warehouse" in given else ""
        reply = self._send("GET", f"{self.uri}/v1/config{query}", None, self._login(given))
        try:
            defaults = expected_texts(reply.get("defaults"), "defaults")
            overrides = expected_texts(reply.get("overrides"), "overrides")
        except WrongAnswer as error:
            raise self._malformed(error, "config") from error
        if any(has_reference(text) for text in (*defaults.values(), *overrides.values())):
            raise ConfigError(
                "the Iceberg REST catalog sets an option to a reference to a secret of this machine",
                catalog=str(self),
                hint="remove the reference from the configuration of the REST catalog, and set the option here",
            )
        return {**defaults, **given, **overrides}

    def _login(self, settings: Mapping[str, str]) -> dict[str, str]:
        token = resolve(settings["token"]) if "token" in settings else None
        if token is None and "credential" in settings:
            token = self._granted(settings)
        if token is not None and not (token.isascii() and token.isprintable()):
            raise ConfigError(
                "the token for the Iceberg REST catalog has characters that HTTP does not allow",
                hint="copy the token again, without line breaks and spaces",
            )
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def _granted(self, settings: Mapping[str, str]) -> str:
        """Return a token for the credential `client:secret`, by OAuth 2."""
        user, _, secret = resolve(settings["credential"]).rpartition(":")
        form = {"grant_type": "client_credentials", "client_secret": secret, "scope": settings.get("scope", "catalog")}
        if user:
            form["client_id"] = user
        place = settings.get("oauth2-server-uri") or f"{self.uri}/v1/oauth/tokens"
        reply = self._send("POST", place, form, {"Content-Type": "application/x-www-form-urlencoded"})
        try:
            return named(reply, "access_token")
        except WrongAnswer as error:
            raise self._malformed(error, "tokens") from error

    def _send(self, method: str, place: str, body: Any, headers: Mapping[str, str]) -> dict[str, Any]:
        sent = {"Accept": "application/json", "Content-Type": "application/json", **headers}
        form = sent["Content-Type"] != "application/json"
        data = None if body is None else (urlencode(body) if form else json.dumps(body)).encode()
        request = Request(place, data, sent, method=method)  # noqa: S310 -- the scheme was checked
        where = f"{method} {urlsplit(place).path}"
        try:
            with _opener().open(request, timeout=_TIMEOUT_SECONDS) as reply:
                answer = answer_bytes(reply)
            return expected(parsed_answer(answer), dict, "the reply") if answer.strip() else {}
        except HTTPError as error:
            with error:
                raise self._refusal(error, where) from error
        except WrongAnswer as error:
            raise self._malformed(error, where) from error
        except CONNECTION_ERRORS as error:
            raise StoreError(
                f"the Iceberg REST catalog does not answer: {getattr(error, 'reason', error)}",
                catalog=str(self),
                request=where,
                hint="check that it is running, and metadata.iceberg.rest.uri",
            ) from error

    def _refusal(self, error: HTTPError, where: str) -> ConfigError | StoreError:
        text = _message(error)
        facts = {"catalog": str(self), "request": where, "status": error.code}
        if error.code >= 500 or error.code == 429:
            return StoreError(f"the Iceberg REST catalog failed: {text}", **facts, hint="see the log of the catalog")
        kind = {404: EntryMissing, 409: EntryChanged}.get(error.code, ConfigError)
        return kind(f"the Iceberg REST catalog refused a request: {text}", **facts, hint=_HINTS.get(error.code))

    def _member(self, reply: Mapping[str, Any], name: str) -> dict[str, Any]:
        try:
            return expected(reply.get(name), dict, name)
        except WrongAnswer as error:
            raise self._malformed(error, name) from error

    def _malformed(self, reason: object, where: str) -> StoreError:
        return StoreError(
            f"the reply of the Iceberg REST catalog is not as its protocol requires: {reason}",
            catalog=str(self),
            request=where,
            hint="check that metadata.iceberg.rest.uri is the address of an Iceberg REST catalog",
        )


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects, so that the token reaches no other host."""

    def redirect_request(self, *_: object) -> None:
        return None


@lru_cache(maxsize=1)
def _opener() -> Any:
    return limited_opener(_NoRedirects())


@lru_cache(maxsize=64)
def _settings(client: IcebergCatalogClient) -> dict[str, str]:
    return client.settings()


def _table(database: str, table: str) -> str:
    return f"namespaces/{_quoted(database)}/tables/{_quoted(table)}"


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _message(error: HTTPError) -> str:
    """Return the text of an error, which a proxy may have sent in another form."""
    try:
        data = answer_bytes(error, _LARGEST_ERROR)
        found = parsed_answer(data)
        return str(found["error"]["message"])
    except (WrongAnswer, LookupError, TypeError, *CONNECTION_ERRORS):
        return f"status {error.code} {shown(error.reason.encode()) if isinstance(error.reason, str) else ''}".strip()
