"""A server whose captured tables are quiet while others change: no batch but one every `heartbeat`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.formats.change import DecodeOptions
from penstock.ingest.mysql.config import MySqlConfig
from penstock.ingest.mysql.idle_position import IdlePosition
from penstock.ingest.mysql.source import MySqlSource
from penstock.ingest.source import NO_LIMIT, Offsets
from penstock.pipelines.job.source_request import connector, request_of
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync


@pytest.fixture
def source(server: Playground, tmp_path: Path) -> Iterator[MySqlSource]:
    server.run("CREATE TABLE wanted (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)")
    conf = ["table-name=wanted", "scan.startup.mode=latest-offset"]
    spec = Sync(server, tmp_path, "wanted", conf).spec
    assert isinstance(spec.source, MySqlConfig)
    opened = connector(spec).open(spec.source, request_of(spec))
    assert isinstance(opened, MySqlSource)
    yield opened
    opened.close()


def read(source: MySqlSource, start: Offsets, end: Offsets) -> list[dict[str, Any]]:
    return [
        row
        for part in source.plan(start, end, 2)
        for chunk in source.chunks(part, DecodeOptions())
        for batch in chunk.decoded.batches
        for row in batch.rows.to_pylist()
    ]


def test_changes_of_other_tables_make_no_batch_until_the_heartbeat(source: MySqlSource, server: Playground) -> None:
    idle = source.planner._idle
    now = 0.0
    source.planner._idle = IdlePosition(idle.seconds, lambda: now)
    start = source.latest_offsets(source.initial_offsets(), NO_LIMIT)
    server.run("INSERT INTO other VALUES (1)")
    moved = source.latest_offsets(start, NO_LIMIT)  # nothing is known of the time before
    assert moved["log"] != start["log"]
    for number in range(2, 20):
        server.run(f"INSERT INTO other VALUES ({number})")
        assert source.latest_offsets(moved, NO_LIMIT) == moved
    now = idle.seconds
    heartbeat = source.latest_offsets(moved, NO_LIMIT)
    assert heartbeat["log"] != moved["log"]
    assert source.plan(moved, heartbeat, 2) == []
    # A change of the table itself does not wait, and what others logged before it is not read again.
    server.run("INSERT INTO other VALUES (20)")
    assert source.latest_offsets(heartbeat, NO_LIMIT) == heartbeat
    server.run("INSERT INTO wanted VALUES (7)", "INSERT INTO other VALUES (21)")
    end = source.latest_offsets(heartbeat, NO_LIMIT)
    assert read(source, heartbeat, end) == [{"id": 7}]


def test_a_planner_that_starts_again_plans_all_from_the_last_batch(source: MySqlSource, server: Playground) -> None:
    start = source.latest_offsets(source.initial_offsets(), NO_LIMIT)
    server.run("INSERT INTO other VALUES (1)")
    start = source.latest_offsets(start, NO_LIMIT)
    server.run("INSERT INTO other VALUES (2)")
    assert source.latest_offsets(start, NO_LIMIT) == start
    server.run(f"CREATE TABLE {DATABASE}.third (id INT PRIMARY KEY)", "INSERT INTO wanted VALUES (1)")
    source.close()
    end = source.latest_offsets(start, NO_LIMIT)
    assert read(source, start, end) == [{"id": 1}]
