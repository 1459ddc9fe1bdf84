"""Parsed contents of small files, kept by their bytes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Generic, TypeVar

from penstock.errors import TableCorrupt

T = TypeVar("T")


class ParsedFiles(Generic[T]):
    """The parsed contents of the small files that a process reads again and again.

    Every query reads the metadata of its snapshot again, since a file that is missing means that the snapshot has
    expired. Parsing costs ten times what reading does. Callers share the contents and must not change them.
    """

    def __init__(self, parse: Callable[..., T], *, files: int, largest: int) -> None:
        """Keep the contents of up to `files` files of up to `largest` bytes each.

        `parse` has the parameters of `get`.
        """
        self._parse, self._largest = parse, largest
        self._kept = lru_cache(maxsize=files)(lambda data: parse(data, ""))

    def get(self, data: bytes, where: str, **facts: object) -> T:
        """Return the contents of the file `where`. A TableCorrupt names the file and the facts."""
        if len(data) <= self._largest:
            # Files with equal bytes share their contents, so the error of one would name the other.
            with suppress(TableCorrupt):
                return self._kept(data)
        return self._parse(data, where, **facts)
