"""A cache of the entries of manifests, which never change once they are written."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections import OrderedDict
from typing import Any, Generic, TypeVar

T = TypeVar("T")
# A long-running driver writes manifests that nobody reads again once their snapshots have expired.
KEPT_SECONDS = 600.0


class EntryCache(Generic[T]):
    """The cached manifests of one table. They go with it.

    The number of entries is limited for all tables of the process together, by one limit for each `most_entries`. The
    least recently used manifests are evicted first, and those that were not used for ten minutes.
    """

    def __init__(self, most_entries: int = 200_000) -> None:
        self._manifests: dict[str, list[T]] = {}
        self._pool = _pool(most_entries)

    def __reduce__(self) -> tuple[object, ...]:
        # The cached entries are not pickled; another process reads them again.
        return EntryCache, (self._pool.most,)

    def __len__(self) -> int:
        """Return the number of cached entries."""
        with self._pool.lock:
            return sum(map(len, self._manifests.values()))

    def get(self, name: str) -> list[T] | None:
        with self._pool.lock:
            entries = self._manifests.get(name)
            if entries is not None:
                self._pool.used((id(self), name))
            return entries

    def put(self, name: str, entries: list[T], parts: int = 0) -> None:
        """Keep the entries of a manifest. `parts` is how many objects the entries consist of, besides themselves."""
        # A manifest without entries takes memory, too.
        held = max(1, len(entries) + parts)
        with self._pool.lock:
            # Another thread may have read the same manifest meanwhile. One manifest over the limit would evict all
            # others and then itself.
            if name not in self._manifests and held <= self._pool.most:
                self._manifests[name] = entries
                self._pool.add((id(self), name), weakref.ref(self), held)

    def drop(self, name: str) -> None:
        """Remove a manifest. The caller holds the lock of the pool."""
        self._manifests.pop(name, None)


class _Pool:
    """The manifests that the caches of this process have, the least recently used first.

    A cache that is gone has taken its entries along. Its manifests are removed here when they are the oldest.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.lock = threading.Lock()  # a driver commits, reads and cleans up in several threads
        self._held = 0
        self._noted: OrderedDict[tuple[int, str], tuple[weakref.ref[EntryCache[Any]], int, float]] = OrderedDict()

    def add(self, key: tuple[int, str], cache: weakref.ref[EntryCache[Any]], entries: int) -> None:
        now = time.monotonic()
        if key in self._noted:  # of a cache that is gone, whose id a new one has
            self._held -= self._noted.pop(key)[1]
        self._noted[key] = cache, entries, now
        self._held += entries
        while self._held > self.most or now - self._oldest() > KEPT_SECONDS:
            self._evict()

    def used(self, key: tuple[int, str]) -> None:
        cache, entries, _ = self._noted.pop(key)
        self._noted[key] = cache, entries, time.monotonic()

    def _oldest(self) -> float:
        return next(iter(self._noted.values()))[2]

    def _evict(self) -> None:
        (_, name), (cache, entries, _) = self._noted.popitem(last=False)
        self._held -= entries
        found = cache()
        if found is not None:
            found.drop(name)


@functools.cache
def _pool(most: int) -> _Pool:
    return _Pool(most)
