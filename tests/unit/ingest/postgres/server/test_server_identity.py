"""Timelines: whether a promoted server has the log that was read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import SourceError
from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.postgres.errors import Diverged
from penstock.ingest.postgres.server import server_identity as identities
from penstock.ingest.postgres.server.server_identity import (
    ServerIdentity,
    require_same_past,
    require_same_server,
    require_written,
    server_identity,
)

HISTORY = "1\t0/3000000\tno recovery target specified\n\n3\t0/5000000\tno recovery target specified\n"


@dataclass
class Server:
    """A server that answers to the queries of this module; a standby is promoted after some of them."""

    standby_for: int = 0
    server: Any = field(default_factory=lambda: SimpleNamespace(where="h:5432/shop", patience=5.0))

    def rows(self, sql: str) -> list[tuple[str | None, ...]]:
        if sql == "TIMELINE_HISTORY 4":
            return [("00000004.history", HISTORY)]
        self.standby_for -= 1
        log = (None, None) if self.standby_for >= 0 else ("0000001A0000000000000003", "0/3000100")
        return [("77", "shop", "noon", *log)]


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "_PAUSE_S", 0.0)

    @contextmanager
    def connected(_address: object, *, replication: bool) -> Iterator[Server]:
        assert replication
        yield Server()

    monkeypatch.setattr(identities, "connected", connected)


def test_timeline_is_that_of_the_file_that_is_written() -> None:
    found: Any = Server()
    assert server_identity(found) == identities.ServerIdentity("77", "shop", 26, 0x3000100, "noon")


@pytest.mark.parametrize("other", [{"system": "78"}, {"timeline": 25}, {"started": "evening"}])
def test_a_connection_to_another_server_than_the_checked_one_is_refused(other: dict[str, Any]) -> None:
    """The address was moved between two connections, and the former server still answers."""
    stream: Any = Server()
    checked = server_identity(stream)
    require_same_server(stream, replace(checked, end=checked.end - 1))
    with pytest.raises(ConnectionLost, match="two connections lead to two servers") as caught:
        require_same_server(stream, replace(checked, **other))
    assert caught.value.retryable


def test_standby_is_waited_for_until_patience_ends() -> None:
    promoted: Any = Server(standby_for=3)
    assert server_identity(promoted).timeline == 26
    never: Any = Server(standby_for=1 << 60)
    never.server.patience = 0.0
    with pytest.raises(SourceError, match="is a standby") as caught:
        server_identity(never)
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("before", "position", "lost"),
    [(1, 0x3000000, False), (1, 0x3000001, True), (3, 0x4000000, False), (3, 0x5000001, True), (2, 0x10, True)],
)
def test_log_is_lost_after_the_end_of_its_timeline(before: int, position: int, lost: bool) -> None:
    found: Any = Server()
    if not lost:
        require_same_past(found, before, 4, position)
        return
    with pytest.raises(Diverged) as caught:
        require_same_past(found, before, 4, position)
    assert caught.value.facts["timeline_before"] == before


def test_log_that_ends_before_the_position_is_not_that_which_was_read() -> None:
    found: Any = Server()
    identity = ServerIdentity("77", "shop", 1, 0x3000100)
    require_written(found, identity, 0x3000100)
    with pytest.raises(Diverged, match="ends before the position") as caught:
        require_written(found, identity, 0x3000101)
    assert (caught.value.facts["position"], caught.value.facts["end"]) == ("0/3000101", "0/3000100")
    assert "--resnapshot" in (caught.value.hint or "")
