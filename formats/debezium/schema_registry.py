"""A client of the Confluent schema registry. Schemas are cached for ever, since an id never changes its schema."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock.errors import ConfigError, DecodeError, SourceError
from penstock.formats.change import BAD_VALUE
from penstock.http_opener import limited_opener
from penstock.json_answers import CONNECTION_ERRORS, answer_bytes, expected, parsed_answer

ATTEMPTS = 4
MOST_SECONDS = 60.0  # of one request
# In bytes; a usual schema has some thousands.
LARGEST_ANSWER = 16 << 20
# Seconds before the second attempt; doubles with each further attempt.
PATIENCE = 0.5


def without_login(url: str) -> str:
    """Return the URL without user and password, which are sent in a header and must not be shown."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def login_of(url: str) -> str | None:
    """Return `user:password` of a URL, None if it contains no user."""
    return unquote(urlsplit(url).netloc.rpartition("@")[0]) or None


class _SameServer(urllib.request.HTTPRedirectHandler):
    """A redirect handler that rejects other servers, since a redirect would send the credentials along."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            raise urllib.error.URLError(f"it redirects to another server, {without_login(newurl)[:200]}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class SchemaRegistry:
    """A client for one or several registries with the same schemas; `urls` are tried in turn.

    `user_info` is `user:password`; it appears in no message and not in the repr.
    """

    def __init__(
        self,
        urls: str,
        *,
        user_info: str | None = None,
        tls: ssl.SSLContext | None = None,
        timeout: float = 10.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        given = [url.strip().rstrip("/") for url in urls.split(",") if url.strip()]
        for url in given:
            if not url.lower().startswith(("http://", "https://")):
                raise ConfigError(
                    f"schema.registry.url must be http or https, not {without_login(url)!r}",
                    hint="write it as http://HOST:8081",
                )
        self.urls = [without_login(url) for url in given]
        # Confluent's clients also accept user and password in the URL. The first URL that has them wins.
        user_info = user_info or next(filter(None, map(login_of, given)), None)
        if not self.urls:
            raise ConfigError(
                "schema.registry.url is empty",
                hint="set it to the address of the schema registry, such as http://HOST:8081",
            )
        self._user_info = user_info
        self._opener = limited_opener(_SameServer(), context=tls, seconds=MOST_SECONDS)
        self._timeout = timeout
        self._sleep = sleep
        self._schemas: dict[int, Any] = {}

    def __repr__(self) -> str:
        return f"SchemaRegistry({', '.join(self.urls)})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a SchemaRegistry cannot be pickled: pass its settings to the other process")

    def schema(self, number: int) -> Any:
        """Return the Avro schema as parsed JSON.

        DecodeError if the registry has no such schema or it is not Avro: the record is bad. SourceError (retryable) if
        no registry answers: then nothing is known about the record.
        """
        if number not in self._schemas:
            self._schemas[number] = self._fetch(number)
        return self._schemas[number]

    def _fetch(self, number: int) -> Any:
        answer = self._ask(f"/schemas/ids/{number}")
        if answer is None:
            raise DecodeError(f"the schema registry has no schema {number}", reason=BAD_VALUE)
        kind = answer.get("schemaType") or "AVRO"
        if kind != "AVRO" or answer.get("references"):
            flaw = f"is {kind}" if kind != "AVRO" else "refers to other schemas"
            raise DecodeError(
                f"schema {number} of the registry {flaw}; only Avro schemas without references are supported",
                reason=BAD_VALUE,
            )
        try:
            return json.loads(answer["schema"])
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise DecodeError(
                f"schema {number} of the registry is not valid JSON: {error}", reason=BAD_VALUE
            ) from error

    def _ask(self, path: str) -> dict[str, Any] | None:
        """Return the answer of the first registry that gives one, None if it is 404."""
        reasons: list[str] = []
        for attempt in range(ATTEMPTS):
            for url in self.urls:
                try:
                    return self._get(url + path)
                except urllib.error.HTTPError as error:
                    error.close()
                    # An answer, and not a failure: another attempt or registry would not help.
                    if error.code == 404:
                        return None
                    if error.code in {401, 403}:
                        hint = "set schema.registry.basic.auth.user.info"
                        raise ConfigError(
                            f"the schema registry rejected the request: {error}", url=url, hint=hint
                        ) from error
                    reasons.append(f"{url}: {error}")
                except CONNECTION_ERRORS as error:
                    reasons.append(f"{url}: {error}")
            if attempt < ATTEMPTS - 1:
                self._sleep(PATIENCE * 2**attempt)
        raise SourceError(
            "no schema registry can be reached",
            retryable=True,
            tried=", ".join(dict.fromkeys(reasons)),
            hint="check schema.registry.url, and that the registry runs and accepts connections from this machine",
        )

    def _get(self, url: str) -> dict[str, Any]:
        request = urllib.request.Request(url, headers={"Accept": "application/vnd.schemaregistry.v1+json"})  # noqa: S310
        if self._user_info:
            credentials = base64.b64encode(self._user_info.encode()).decode()
            request.add_header("Authorization", f"Basic {credentials}")
        with self._opener.open(request, timeout=self._timeout) as response:
            return expected(parsed_answer(answer_bytes(response, LARGEST_ANSWER)), dict, "the response")
