"""A stop that comes before the command that it is meant for has noted signals."""

from __future__ import annotations

import os
import signal

import pytest

from penstock.ingest import source_waits
from penstock.ingest.source_waits import RepeatedSignals, WaitEnded, waiting_for_source
from penstock.pipelines.api import early_stop


def test_a_stop_that_came_at_once_ends_a_wait_within_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_stop, "_noted", [signal.SIGTERM])
    monkeypatch.setattr(source_waits, "RepeatedSignals", lambda: RepeatedSignals(0.1))
    reading, writing = os.pipe()

    def wait() -> None:
        with waiting_for_source():
            os.read(reading, 1)

    before = signal.getsignal(signal.SIGTERM)
    with early_stop.noted_sigterm() as asked:
        assert asked()
        with pytest.raises(WaitEnded):
            wait()
    assert signal.getsignal(signal.SIGTERM) == before
    os.close(reading)
    os.close(writing)
