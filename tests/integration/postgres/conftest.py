"""A real PostgreSQL server for the session."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.postgres.sync import PgPlayground
from tests.servers.launch import running


@pytest.fixture(scope="session")
def server_port() -> Iterator[int]:
    # Not below pytest's folders: the server runs as a user of its own, which may not enter them.
    with tempfile.TemporaryDirectory(prefix="penstock-postgres-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with running("postgres", Path(folder)) as port:
            yield port


@pytest.fixture
def server(server_port: int) -> PgPlayground:
    found = PgPlayground(server_port)
    found.start_over()
    return found
