"""When a run returns the memory of its batches."""

from __future__ import annotations

import pytest

from penstock.pipelines.job import batch_memory
from penstock.pipelines.job.batch_memory import LARGE_BYTES, BatchMemory

MIB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "returned"),
    [
        ([200 * MIB, 190 * MIB, 200 * MIB], []),
        ([200 * MIB, 1 * MIB, 1 * MIB, 0], [1]),
        ([200 * MIB, 0, 200 * MIB, 0], [1, 3]),
        ([LARGE_BYTES, 0, 10, 0], []),
        ([1, 200 * MIB, 30 * MIB, 20 * MIB], [3]),
    ],
)
def test_memory_is_returned_once_after_large_batches(
    sizes: list[int], returned: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    memory = BatchMemory()
    for number, size in enumerate(sizes):
        monkeypatch.setattr(batch_memory, "return_freed_memory", lambda number=number: calls.append(number))
        memory.used(size)
    assert calls == returned
