"""Parsed contents of small files, kept by their bytes."""

from __future__ import annotations

from collections.abc import Callable, Sized
from functools import lru_cache
from typing import Any, Generic, TypeVar

from penstock.errors import TableCorrupt

T = TypeVar("T")


class _ManyItems(Exception):
    """How the function below returns contents that are not to be kept."""

    def __init__(self, content: Any) -> None:
        self.content = content


class ParsedFiles(Generic[T]):
    """The parsed contents of the small files that a process reads again and again.

    Every query reads the metadata of its snapshot again, since a file that is missing means that the snapshot has
    expired. Parsing costs ten times what reading does. Callers share the contents and must not change them.
    """

    def __init__(self, parse: Callable[..., T], *, files: int, largest: int, most: int | None = None) -> None:
        """Keep the contents of up to `files` files of up to `largest` bytes, and with up to `most` items, each.

        `parse` has the parameters of `get`.
        """
        self._parse, self._largest, self._most = parse, largest, most
        self._kept = lru_cache(maxsize=files)(self._small)

    def _small(self, data: bytes) -> T:
        content = self._parse(data, "")
        # Files that repeat themselves may have few bytes and many items.
        if self._most is not None and isinstance(content, Sized) and len(content) > self._most:
            raise _ManyItems(content)
        return content

    def get(self, data: bytes, where: str, **facts: object) -> T:
        """Return the contents of the file `where`. A TableCorrupt names the file and the facts."""
        if len(data) <= self._largest:
            # Files with equal bytes share their contents, so the error of one would name the other.
            try:
                return self._kept(data)
            except _ManyItems as found:
                content: T = found.content
                return content
            except TableCorrupt:
                pass  # read again, below, with the name of this file
        return self._parse(data, where, **facts)
