"""A server whose captured tables are quiet while others change: no batch but one every `heartbeat`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.formats.change import DecodeOptions
from penstock.ingest.postgres.config import PostgresConfig
from penstock.ingest.postgres.log.quiet_log import QuietLog
from penstock.ingest.postgres.source import PgSource
from penstock.ingest.source import NO_LIMIT, Offsets
from penstock.pipelines.job.source_request import connector, request_of
from tests.integration.postgres.sync import SLOT, PgPlayground, PgSync
from tests.waiting import until

pytestmark = pytest.mark.postgres


@pytest.fixture
def source(server: PgPlayground, tmp_path: Path) -> Iterator[PgSource]:
    server.create("wanted", "id int PRIMARY KEY")
    server.create("other", "id int PRIMARY KEY")
    spec = PgSync(server, tmp_path, "wanted", ["table-name=wanted", "scan.startup.mode=latest-offset"]).spec
    assert isinstance(spec.source, PostgresConfig)
    opened = connector(spec).open(spec.source, request_of(spec))
    assert isinstance(opened, PgSource)
    yield opened
    opened.close()


def read(source: PgSource, start: Offsets, end: Offsets) -> list[dict[str, Any]]:
    return [
        row
        for part in source.plan(start, end, 2)
        for chunk in source.chunks(part, DecodeOptions())
        for batch in chunk.decoded.batches
        for row in batch.rows.to_pylist()
    ]


def moved_on(source: PgSource, start: Offsets) -> Offsets:
    """Return later offsets. On a busy machine a record of the server's own may not be flushed for seconds."""
    found = start

    def is_later() -> bool:
        nonlocal found
        found = source.latest_offsets(start, NO_LIMIT)
        return bool(found["log"] != start["log"])

    until(is_later, "a later end of the log")
    return found


def test_changes_of_other_tables_make_no_batch_until_the_heartbeat(source: PgSource, server: PgPlayground) -> None:
    now = 0.0
    seconds = source.planner._log_end.quiet.seconds
    source.planner._log_end.quiet = QuietLog(seconds, lambda: now)
    start = source.latest_offsets(source.initial_offsets(), NO_LIMIT)
    server.run("INSERT INTO other VALUES (1)")
    moved = moved_on(source, start)  # nothing is known of the time before
    for number in range(2, 10):
        server.run(f"INSERT INTO other VALUES ({number})")
        assert source.latest_offsets(moved, NO_LIMIT) == moved
    now = seconds
    heartbeat = moved_on(source, moved)
    assert read(source, moved, heartbeat) == []
    # A change of the table itself does not wait.
    server.run("INSERT INTO other VALUES (20)")
    assert source.latest_offsets(heartbeat, NO_LIMIT) == heartbeat
    server.run("INSERT INTO wanted VALUES (7)", "INSERT INTO other VALUES (21)")
    end = source.latest_offsets(heartbeat, NO_LIMIT)
    assert read(source, heartbeat, end) == [{"id": 7}]


def test_a_batch_does_not_wait_after_a_large_transaction(source: PgSource, server: PgPlayground) -> None:
    source.planner._log_end.quiet = QuietLog(10.0, lambda: 0.0)  # no heartbeat comes
    start = source.latest_offsets(source.initial_offsets(), NO_LIMIT)
    server.run("INSERT INTO other VALUES (1)")
    start = source.latest_offsets(start, NO_LIMIT)
    server.run("INSERT INTO other VALUES (2)")
    assert source.latest_offsets(start, NO_LIMIT) == start
    server.run("INSERT INTO other SELECT * FROM generate_series(10, 200000)")
    assert source.latest_offsets(start, NO_LIMIT) != start


def test_the_slot_follows_at_each_heartbeat(source: PgSource, server: PgPlayground) -> None:
    kept = f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{SLOT}'"
    now = 0.0
    source.planner._log_end.quiet = QuietLog(10.0, lambda: now)
    start, seen = source.latest_offsets(source.initial_offsets(), NO_LIMIT), set()
    for number in range(1, 5):
        now = 10.0 * number
        server.run(f"INSERT INTO other VALUES ({number})")
        end = source.latest_offsets(start, NO_LIMIT)
        assert read(source, start, end) == []

        # The server ends the connection of the last read a moment later, and a slot in use cannot be moved.
        def has_followed(end: Offsets = end) -> bool:
            source.mirror(end)
            return server.run(kept) not in seen

        until(has_followed, "the slot at the end of the heartbeat")
        seen.add(server.run(kept))
        start = end
    assert len(seen) == 4
