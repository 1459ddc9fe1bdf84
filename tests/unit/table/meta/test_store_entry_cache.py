"""The cache of manifests is one for all threads of a driver."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterator

import pytest

from penstock.table.meta.store import EntryCache


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
    assert cache._held == sum(map(len, cache._manifests.values())) <= 50
    assert pickle.loads(pickle.dumps(cache)).get("m1") is None
