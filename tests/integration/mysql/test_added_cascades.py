"""Foreign keys that a statement adds while a pipeline runs: their cascades are not logged, and the log says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.ingest.mysql.config import MySqlConfig
from penstock.ingest.mysql.source import MySqlSource
from penstock.ingest.source import NO_LIMIT
from penstock.pipelines.job.source_request import connector, request_of
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync

KEY = "FOREIGN KEY (p) REFERENCES parent (id)"


@pytest.fixture
def source(server: Playground, tmp_path: Path) -> Iterator[MySqlSource]:
    server.run("CREATE TABLE parent (id INT PRIMARY KEY)", "CREATE TABLE child (id INT PRIMARY KEY, p INT)")
    spec = Sync(server, tmp_path, conf=["scan.startup.mode=latest-offset"]).spec
    assert isinstance(spec.source, MySqlConfig)
    opened = connector(spec).open(spec.source, request_of(spec))
    assert isinstance(opened, MySqlSource)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        (f"ALTER TABLE child ADD CONSTRAINT k {KEY} on delete\n  cascade", "child"),
        (f"CREATE TABLE late (id INT PRIMARY KEY, p INT, CONSTRAINT k {KEY} ON UPDATE SET NULL)", "late"),
    ],
)
def test_a_cascade_that_is_added_later_is_warned_of(
    source: MySqlSource, server: Playground, caplog: pytest.LogCaptureFixture, statement: str, table: str
) -> None:
    start = source.latest_offsets(source.initial_offsets(), NO_LIMIT)
    server.run(f"ALTER TABLE child ADD CONSTRAINT plain {KEY}")
    start = source.latest_offsets(start, NO_LIMIT)
    assert "cascade" not in caplog.text
    server.run(statement)
    start = source.latest_offsets(start, NO_LIMIT)
    # MySQL 9.6 and later log what a cascade changes.
    assert (f"{DATABASE}.{table} is changed by a foreign key cascade" in caplog.text) == server.is_mariadb
    caplog.clear()
    tables = ["p (id INT PRIMARY KEY)", "c (id INT, FOREIGN KEY (id) REFERENCES p (id) ON DELETE CASCADE)"]
    server.run(
        "DROP DATABASE IF EXISTS others", "CREATE DATABASE others", *[f"CREATE TABLE others.{t}" for t in tables]
    )
    source.latest_offsets(start, NO_LIMIT)
    assert "cascade" not in caplog.text  # statements of others do not repeat the warning
    server.run("DROP DATABASE others")
