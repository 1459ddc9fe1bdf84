"""A server whose files were put back to an earlier state, as from a copy of its disk: it stays on its timeline."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.ingest.postgres.errors import Diverged
from tests.integration.postgres.sync import PgPlayground, PgSync
from tests.servers.launch import running, start, stop

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
KIND = "postgres"


class _StopError(Exception):
    pass


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="penstock-postgres-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def server(folder: Path) -> Iterator[PgPlayground]:
    with running(KIND, folder) as port:
        found = PgPlayground(port)
        found.start_over()
        found.create("t", "id int PRIMARY KEY, n int")
        found.run("INSERT INTO t SELECT i, 0 FROM generate_series(1, 10) i")
        yield found


def kept(server: PgPlayground, folder: Path) -> Callable[[], None]:
    """Keep a copy of the server's files, and return a function that puts it in their place. Restarts the server."""

    def copied(source: str, target: str) -> None:
        stop(KIND, folder)
        shutil.rmtree(folder / target, ignore_errors=True)
        shutil.copytree(folder / source, folder / target)
        start(KIND, folder, server.port)  # which gives the files to the server's user

    copied("data", "copy")
    return lambda: copied("copy", "data")


def test_a_server_that_is_behind_the_pipeline_is_reported(server: PgPlayground, folder: Path, tmp_path: Path) -> None:
    sync = PgSync(server, tmp_path)
    sync.run()
    put_back = kept(server, folder)
    server.run("INSERT INTO t SELECT i, 1 FROM generate_series(100, 400) i")
    sync.run()
    put_back()
    server.run("UPDATE t SET n = 7 WHERE id = 1")
    with pytest.raises(Diverged, match="ends before the position of the pipeline") as caught:
        sync.run()
    assert caught.value.exit_code == 4
    sync.flags = ["--resnapshot"]
    sync.run()
    assert {key: row["n"] for key, row in sync.rows("t").items()} == {1: 7, **dict.fromkeys(range(2, 11), 0)}


def test_a_planned_batch_that_the_restored_server_lacks_is_reported(
    server: PgPlayground, folder: Path, tmp_path: Path
) -> None:
    sync = PgSync(server, tmp_path)
    sync.run()
    put_back = kept(server, folder)
    server.run("INSERT INTO t SELECT i, 1 FROM generate_series(100, 400) i")

    def stopped(*_: object) -> None:
        raise _StopError

    with pytest.raises(_StopError):
        sync.run(stopped)
    put_back()
    with pytest.raises(Diverged, match="ends before the position of the pipeline"):
        sync.run()
