"""The store of a table whose credentials are issued by the server of a REST catalog, and expire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any

from penstock.errors import StoreError
from penstock.storage.base import Entry, Storage
from penstock.storage.open import open_storage
from penstock.storage.options import is_store_option
from penstock.table.catalog.base import split_name
from penstock.table.catalog.rest_client import RestServer
from penstock.table.catalog.rest_replies import settings_of_server

DATA_TOKEN = "data-token.enabled"  # noqa: S105 -- the name of an option
_SAFE_MILLIS = 3_600_000  # a token is renewed this long before it expires, as in Java, or after half of its time


@dataclass(frozen=True, slots=True)
class TokenStorage:
    """A store that is opened with the newest token of a table. The token itself is never pickled.

    Each call uses the token of this time. A file that is open keeps the token with which it was opened.
    """

    server: RestServer
    table: str
    url: str
    options: tuple[tuple[str, str], ...]

    def _now(self) -> Storage:
        return _token(self.server, self.table, self.url, self.options).storage()

    @property
    def longest_name(self) -> int:
        return self._now().longest_name

    @property
    def url_prefix(self) -> str:
        return self._now().url_prefix

    def read(self, path: str) -> bytes:
        return self._now().read(path)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._now().read_range(path, offset, length)

    def size(self, path: str) -> int:
        return self._now().size(path)

    def exists(self, path: str) -> bool:
        return self._now().exists(path)

    def create(self, path: str, data: bytes) -> bool:
        return self._now().create(path, data)

    def write(self, path: str, data: bytes) -> None:
        self._now().write(path, data)

    def list(self, path: str) -> list[Entry]:
        return self._now().list(path)

    def walk(self, path: str) -> Iterator[Entry]:
        return self._now().walk(path)

    def delete(self, path: str) -> None:
        self._now().delete(path)

    def delete_tree(self, path: str) -> None:
        self._now().delete_tree(path)

    def rename_tree(self, source: str, target: str, moved: Callable[[], None] | None = None) -> None:
        self._now().rename_tree(source, target, moved)

    def mkdirs(self, path: str) -> None:
        self._now().mkdirs(path)

    def open_input(self, path: str) -> Any:
        return self._now().open_input(path)

    def open_output(self, path: str) -> Any:
        return self._now().open_output(path)


class _Token:
    """The token of one table in this process, and the store that was opened with it."""

    def __init__(self, server: RestServer, table: str, url: str, options: tuple[tuple[str, str], ...]) -> None:
        self._server, self._table, self._url, self._options = server, table, url, dict(options)
        self._lock, self._renewed_at = Lock(), 0
        self._storage: Storage | None = None

    def storage(self) -> Storage:
        # Threads of a process wait for one new token, instead of requesting one each.
        with self._lock:
            now = self._server.environment.now_millis()
            if self._storage is None or now >= self._renewed_at:
                database, table = split_name(self._table)
                reply = self._server.get("databases", database, "tables", table, "token")
                token, expires = reply.get("token"), reply.get("expiresAtMillis")
                if not isinstance(token, dict) or not isinstance(expires, int):
                    raise StoreError(
                        "the REST catalog issued no token for the files of a table",
                        table=self._table,
                        hint="ask the administrator of the catalog for the right to read the table's files",
                    )
                with self._server.replying("databases", database, "tables", table, "token"):
                    given = settings_of_server(token, "token", self._server)
                issued = {key: text for key, text in given.items() if is_store_option(key)}
                self._storage, _ = open_storage(self._url, self._options | issued)
                self._renewed_at = max(expires - _SAFE_MILLIS, now + (expires - now) // 2)
            return self._storage


@lru_cache(maxsize=2048)
def _token(server: RestServer, table: str, url: str, options: tuple[tuple[str, str], ...]) -> _Token:
    return _Token(server, table, url, options)
