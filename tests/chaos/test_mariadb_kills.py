"""The same pipelines killed while they read MariaDB: its own GTIDs, row events of version 1, compressed ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.ingest.mysql.errors import BinlogPurged
from tests.chaos.proxy import proxied
from tests.chaos.test_mysql_kills import KILLS, bank, busy, killed
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync
from tests.servers import launch
from tests.waiting import repeated, until

pytestmark = pytest.mark.mariadb


@pytest.fixture(scope="module", params=["mariadb", "mariadb-11.8"])
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with launch.running(request.param, tmp_path_factory.mktemp("mariadb"), "--log-bin-compress=1") as found:
        yield found


@pytest.fixture
def server(port: int) -> Playground:
    return bank(Playground("mariadb", port))


def purge(server: Playground) -> None:
    """All but a new file; the server keeps the one before until its engine has written down that it may go."""
    file = server.here().file

    def is_purged() -> bool:
        server.run("FLUSH BINARY LOGS")
        server.run(f"PURGE BINARY LOGS TO '{server.here().file}'")
        return all(name != file for name, *_ in server.rows("SHOW BINARY LOGS"))

    until(is_purged, f"the server without {file}")


@pytest.mark.parametrize(
    "phase", ["in the middle of a chunk", "in the middle of the log", "between the commits of two tables"]
)
def test_kills_at_any_phase_leave_both_tables_equal_to_the_server(
    server: Playground, tmp_path: Path, phase: str
) -> None:
    sync = Sync(server, tmp_path, conf=["scan.incremental.snapshot.chunk.size=60"], flags=["--max-batch-rows", "150"])
    with busy(server):
        killed(sync, KILLS[phase])
        sync.run()
    sync.run()
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []


def test_a_network_failure_during_rotation_and_purge_of_binlogs(server: Playground, tmp_path: Path) -> None:
    sync = Sync(server, tmp_path, conf=["scan.incremental.snapshot.chunk.size=60"])
    with proxied(server.port) as proxy:
        sync.conf = [*sync.conf, f"port={proxy.port}"]
        sync.run()
        for number in repeated(6, lambda: proxy.cut > 2, "connections that were cut"):
            server.run(f"UPDATE account SET cents = cents + 1 WHERE id % 6 = {number % 6}", "FLUSH BINARY LOGS")
            proxy.cuts = [700 * number, 3000, 500]
            try:
                sync.run()
            except PenstockError as error:
                if not error.retryable:
                    raise
            proxy.cuts = []
            sync.run()
            # All was read: the files before may go, though the pipeline's place is in one of them.
            purge(server)
        sync.run()
    sync.conf = sync.conf[:-1]
    sync.run()
    assert all(verdict.is_equal for verdict in sync.verified())
    server.run("UPDATE account SET cents = 0")
    purge(server)
    with pytest.raises(BinlogPurged):
        sync.run()
