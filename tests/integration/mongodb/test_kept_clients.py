"""Clients and commands of a steady batch without Spark, and a client whose server was away between two batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import monitoring

from penstock.ingest.mongodb.server import connection as connections
from penstock.ingest.mongodb.server.address import MongoAddress
from penstock.ingest.mongodb.server.connection import kept_connected
from tests.integration.mongodb.sync import MongoPlayground, MongoSync
from tests.servers.launch import Kind, kill, running, start
from tests.sync_flags import spec_of_action
from tests.waiting import LIMIT_S
from tests.without_spark import run_here

pytestmark = pytest.mark.mongodb
KIND: Kind = "mongodb"
# The first batches copy the collection and wait until the log has passed that.
SETTLED, BATCHES = 6, 12


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Collect the clients that are opened, whose commands `asked` counts."""
    connections._kept.close()
    found: list[Any] = []
    open_ = connections._open

    def noted(server: MongoAddress, seconds: float) -> Any:
        found.append(open_(server, seconds))
        return found[-1]

    monkeypatch.setattr(connections, "_open", noted)
    yield found
    connections._kept.close()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    counts: Counter[str] = Counter()

    class Commands(monitoring.CommandListener):
        def started(self, event: monitoring.CommandStartedEvent) -> None:
            counts[event.command_name] += 1

        def succeeded(self, event: monitoring.CommandSucceededEvent) -> None: ...

        def failed(self, event: monitoring.CommandFailedEvent) -> None: ...

    listeners = monitoring._LISTENERS
    monkeypatch.setattr(monitoring, "_LISTENERS", listeners._replace(command_listeners=[Commands()]))
    return counts


def test_a_steady_batch_asks_for_as_much_as_it_needs(
    server: MongoPlayground,
    tmp_path: Path,
    opened: list[Any],
    asked: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_SURE_S", LIMIT_S)  # a batch of a busy machine may last long
    server.db.t.insert_one({"_id": 0})
    sync = MongoSync(server, tmp_path, "t")
    seen: list[tuple[int, int]] = []

    def taken(identity: Any, report: Any) -> None:
        seen.append((len(opened), asked.total()))
        server.db.t.insert_one({"_id": identity.number + 1})

    words = [word for word in sync.words if word != "--until-caught-up"]
    run_here(spec_of_action("mongodb-sync-table", [*words, "--trigger", "continuous"]), taken, BATCHES)
    assert len(seen) == BATCHES
    per_batch = [
        (after[0] - before[0], after[1] - before[1])
        for before, after in zip(seen[SETTLED:], seen[SETTLED + 1 :], strict=False)
    ]
    # Three for the plan, the time, and three for the stream, which is read in two replies.
    assert set(per_batch) == {(0, 7)}
    run_here(sync.spec)
    assert len(sync.rows()) == BATCHES + 1


def test_a_client_is_used_again_after_its_server_was_away(tmp_path: Path, opened: list[Any]) -> None:
    folder = tmp_path / "server"
    with running(KIND, folder) as port:
        address = MongoAddress(f"127.0.0.1:{port}", patience=60.0)
        times = []
        for is_killed in (False, False, True):
            if is_killed:
                kill(KIND, folder)
                start(KIND, folder, port)
            with kept_connected(address) as connection:
                times.append(connection.now())
        assert len(opened) <= 2
    assert times == sorted(times)
