"""A client of the Confluent schema registry: schemas by id, kept for ever, since an id never changes its schema."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from penstock.errors import ConfigError, DecodeError, SourceError
from penstock.formats.change import BAD_VALUE

ATTEMPTS = 4
PATIENCE = 0.5  # seconds before the second attempt; doubles


class SchemaRegistry:
    """`urls` are asked in turn. `user_info` is `user:password`; it is in no message and not in the repr."""

    def __init__(
        self,
        urls: str,
        *,
        user_info: str | None = None,
        tls: ssl.SSLContext | None = None,
        timeout: float = 10.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.urls = [url.strip().rstrip("/") for url in urls.split(",") if url.strip()]
        for url in self.urls:
            if not url.startswith(("http://", "https://")):
                raise ConfigError(f"schema.registry.url must be http or https, not {url!r}")
        if not self.urls:
            raise ConfigError("schema.registry.url is empty")
        self._user_info = user_info
        self._tls = tls
        self._timeout = timeout
        self._sleep = sleep
        self._schemas: dict[int, Any] = {}

    def __repr__(self) -> str:
        return f"SchemaRegistry({', '.join(self.urls)})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a SchemaRegistry stays in its process: hand over the settings it is made of")

    def schema(self, number: int) -> Any:
        """The Avro schema as parsed JSON.

        DecodeError when the registry has no such schema or it is not Avro: the record is bad. SourceError, retryable,
        when no registry answers: nothing can be said about the record.
        """
        if number not in self._schemas:
            self._schemas[number] = self._fetch(number)
        return self._schemas[number]

    def _fetch(self, number: int) -> Any:
        answer = self._ask(f"/schemas/ids/{number}")
        if answer is None:
            raise DecodeError(f"the registry has no schema {number}", reason=BAD_VALUE)
        kind = answer.get("schemaType", "AVRO")
        if kind != "AVRO" or answer.get("references"):
            what = f"is {kind}" if kind != "AVRO" else "refers to other schemas"
            raise DecodeError(f"schema {number} of the registry {what}; only plain Avro is read", reason=BAD_VALUE)
        try:
            return json.loads(answer["schema"])
        except (KeyError, TypeError, ValueError) as error:
            raise DecodeError(f"schema {number} of the registry is no JSON: {error}", reason=BAD_VALUE) from error

    def _ask(self, path: str) -> dict[str, Any] | None:
        """The answer, None when it is 404."""
        reasons: list[str] = []
        for attempt in range(ATTEMPTS):
            for url in self.urls:
                try:
                    return self._get(url + path)
                except urllib.error.HTTPError as error:
                    error.close()
                    if error.code == 404:
                        return None
                    if error.code in {401, 403}:
                        hint = "set schema.registry.basic.auth.user.info"
                        raise ConfigError(f"the schema registry refuses us: {error}", url=url, hint=hint) from error
                    reasons.append(f"{url}: {error}")
                except (OSError, ValueError, TypeError) as error:
                    reasons.append(f"{url}: {error}")
            if attempt < ATTEMPTS - 1:
                self._sleep(PATIENCE * 2**attempt)
        raise SourceError("no schema registry answers", retryable=True, tried=", ".join(dict.fromkeys(reasons)))

    def _get(self, url: str) -> dict[str, Any]:
        request = urllib.request.Request(url, headers={"Accept": "application/vnd.schemaregistry.v1+json"})  # noqa: S310
        if self._user_info:
            credentials = base64.b64encode(self._user_info.encode()).decode()
            request.add_header("Authorization", f"Basic {credentials}")
        with urllib.request.urlopen(request, timeout=self._timeout, context=self._tls) as response:  # noqa: S310
            answer = json.load(response)
        if not isinstance(answer, dict):
            raise TypeError("the answer is no JSON object")
        return answer
