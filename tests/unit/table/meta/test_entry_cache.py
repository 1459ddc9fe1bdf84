"""Caches of manifests: one limit for all tables of a driver and all its threads."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from penstock.table.meta import entry_cache
from penstock.table.meta.entry_cache import KEPT_SECONDS, EntryCache


@pytest.fixture
def switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("switching_often")
def test_threads_share_the_cache_within_its_limit() -> None:
    cache, errors = EntryCache(50), []

    def work(number: int) -> None:
        try:
            for turn in range(10_000):
                name = f"m{(turn * 7 + number) % 90}"
                if cache.get(name) is None:
                    cache.put(name, [None] * 3)  # type: ignore[list-item]
        except (KeyError, RuntimeError, AttributeError) as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert cache._pool._held == len(cache) <= 50
    assert pickle.loads(pickle.dumps(cache)).get("m1") is None


def test_tables_share_the_limit() -> None:
    """A driver with many tables would hold as many entries of each."""
    first, second = EntryCache[int](40), EntryCache[int](40)
    for number in range(10):
        first.put(f"a{number}", [number] * 3)
        second.put(f"b{number}", [number] * 3)
    assert len(first) + len(second) <= 40
    assert second.get("b9") == [9, 9, 9]
    assert first.get("a0") is None


def test_manifests_that_are_not_used_any_more_are_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that runs for days writes many, and reads few of them again."""
    now = [0.0]
    monkeypatch.setattr(entry_cache, "time", SimpleNamespace(monotonic=lambda: now[0]))
    cache = EntryCache[int](1_001)
    cache.put("live", [0])
    for number in range(1, 100):
        now[0] = number * KEPT_SECONDS / 10
        assert cache.get("live") == [0]
        cache.put(f"m{number}", [number])
    assert len(cache) == 12


def test_entries_of_a_closed_table_do_not_count() -> None:
    cache = EntryCache[int](30)
    for number in range(10):
        cache.put(f"m{number}", [number] * 3)
    del cache
    other = EntryCache[int](30)
    for number in range(10):
        other.put(f"m{number}", [number] * 3)
    assert len(other) == 30


def test_manifests_count_by_their_content() -> None:
    """An index manifest without entries takes memory, and one entry may name the vectors of thousands of files."""
    cache = EntryCache[int](50)
    for number in range(100):
        cache.put(f"empty{number}", [])
    assert sum(cache.get(f"empty{number}") is not None for number in range(100)) == 50
    cache.put("large", [1, 2], parts=30)
    cache.put("larger", [3], parts=25)
    assert (cache.get("large"), cache.get("larger")) == (None, [3])
    cache.put("too large", [4], parts=50)
    assert (cache.get("too large"), cache.get("larger")) == (None, [3])
