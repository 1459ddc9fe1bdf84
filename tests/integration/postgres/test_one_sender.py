"""A server with one connection for readers of the log (`max_wal_senders`)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.postgres.sync import PgPlayground, PgSync
from tests.servers.launch import Kind, running, start, stop

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
KIND: Kind = "postgres"
ONE_SENDER = ("-c", "max_wal_senders=1")


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="penstock-postgres-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_pipeline_needs_one_connection_for_the_log(folder: Path, tmp_path: Path) -> None:
    with running(KIND, folder, *ONE_SENDER) as port:
        server = PgPlayground(port)
        server.start_over()
        server.create("t", "id int PRIMARY KEY, n int")
        sync = PgSync(server, tmp_path)
        for number in range(4):
            server.run(f"INSERT INTO t VALUES ({number}, 1)")
            sync.run()
        stop(KIND, folder)
        start(KIND, folder, port, *ONE_SENDER)
        server.run("INSERT INTO t VALUES (4, 1)")
        sync.run()
        assert len(sync.rows("t")) == 5
