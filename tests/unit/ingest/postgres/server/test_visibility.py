"""Waiting for transactions that run since before a table was published."""

from __future__ import annotations

from typing import Any, cast

import pytest

from penstock.errors import SourceError
from penstock.ingest.postgres.server import visibility
from penstock.ingest.postgres.server.visibility import wait_for_transactions


class Server:
    """A server with these snapshots, one for each query: the oldest running transaction and the next one."""

    def __init__(self, *snapshots: tuple[int, int]) -> None:
        self.snapshots, self.asked = snapshots, 0

    def rows(self, _sql: str) -> list[tuple[str, str]]:
        oldest, following = self.snapshots[min(self.asked, len(self.snapshots) - 1)]
        self.asked += 1
        return [(str(oldest), str(following))]


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visibility, "_PAUSE_S", 0.0)


def waited(before: int, *snapshots: tuple[int, int]) -> int:
    server = Server(*snapshots)
    wait_for_transactions(cast("Any", server), before)
    return server.asked


def test_older_transactions_are_waited_for() -> None:
    assert waited(12, (10, 12), (11, 13), (13, 14)) == 3


def test_an_idle_server_whose_numbers_are_lower_after_a_crash_is_not_waited_for() -> None:
    assert waited(12, (10, 10)) == 1


def test_after_a_crash_with_reused_numbers_a_moment_without_transactions_is_enough() -> None:
    assert waited(12, (9, 10), (10, 10)) == 2


def test_a_transaction_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visibility, "_LONGEST_TRANSACTION_S", 0.05)
    with pytest.raises(SourceError, match="a transaction runs since before"):
        waited(12, (10, 13))
