"""The log lines of a batch that takes long."""

from __future__ import annotations

import logging

import pytest

from penstock.pipelines.job.long_batch import LongBatch


def test_a_long_batch_is_logged_every_ten_seconds_and_a_short_one_never(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="penstock")
    now = [100.0]
    batch = LongBatch(lambda: (3, 8), lambda: now[0])
    for _ in range(2):  # two batches of nine seconds
        began = now[0]
        for _ in range(9):
            batch.look(1, began)
            now[0] += 1
    assert caplog.messages == []
    began = now[0]
    for _ in range(25):
        batch.look(3, began)
        now[0] += 1
    assert caplog.messages == [
        "event=batch_running number=3 seconds=10 tasks_done=3 tasks=8",
        "event=batch_running number=3 seconds=20 tasks_done=3 tasks=8",
    ]
