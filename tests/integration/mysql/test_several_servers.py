"""An address that leads to several servers: rows are not read on one that lacks changes which were read before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.ingest.mysql.errors import GtidDiverged
from penstock.ingest.mysql.source import MySqlSource
from tests.chaos.proxy import Proxy, proxied
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync
from tests.servers.launch import running

KINDS = [pytest.param("mysql", marks=pytest.mark.mysql), pytest.param("mariadb", marks=pytest.mark.mariadb)]


@pytest.fixture(params=KINDS)
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Playground, Playground]]:
    """Yield two servers with the same table. Those of MariaDB have one server id, as nodes of a cluster may have."""
    first: Playground = request.getfixturevalue(request.param)
    with running(request.param, tmp_path / "late") as port:
        late = Playground(first.flavour, port)
        for server in (first, late):
            server.start_over()
            server.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        yield first, late


@pytest.fixture
def proxy(servers: tuple[Playground, Playground]) -> Iterator[Proxy]:
    with proxied(servers[0].port) as found:
        yield found


def test_rows_of_a_server_that_is_late_are_not_read(
    servers: tuple[Playground, Playground], proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, late = servers
    sync = Sync(Playground(first.flavour, proxy.port), tmp_path, "t", ["table-name=t"])
    plan = MySqlSource.plan
    first.run("INSERT INTO t VALUES (2)")  # before the pipeline begins, so that no batch has it from the log

    def planned(source: MySqlSource, *given: Any) -> Any:
        found = plan(source, *given)
        proxy.target = late.port
        return found

    with monkeypatch.context() as patch:
        patch.setattr(MySqlSource, "plan", planned)
        with pytest.raises(GtidDiverged, match="read on another server"):
            sync.run()
    proxy.target = first.port
    sync.run()
    assert sync.ids() == [1, 2]


@pytest.mark.mariadb
def test_a_log_that_ends_with_a_transaction_of_another_server_id_lacks_nothing(
    mariadb: Playground, tmp_path: Path
) -> None:
    """As after the server has got another id, or where mysqlbinlog has played a log: gtid_current_pos leaves it out."""
    mariadb.start_over()
    mariadb.run("SET SESSION server_id = 77", "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    try:
        assert mariadb.rows("SELECT @@gtid_current_pos <> @@gtid_binlog_pos") == ((1,),)
        for number in (2, 3):
            sync = Sync(mariadb, tmp_path, "t", ["table-name=t"])
            sync.run()
            assert sync.ids() == [*range(1, number)]
            mariadb.run(f"INSERT INTO t VALUES ({number})")
    finally:
        mariadb.run("SET SESSION server_id = @@GLOBAL.server_id")
