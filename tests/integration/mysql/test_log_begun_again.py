"""A log that began again on the same server, and has the same names, positions and GTIDs for other transactions."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from penstock.ingest.mysql.errors import BinlogReset
from tests.here import note_as_spark_does, run
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync

pytestmark = pytest.mark.slow


class _StopError(Exception):
    pass


def fill(server: Playground, first: int, owner: str) -> None:
    rows = [f"INSERT INTO t VALUES ({number}, '{owner}')" for number in range(first, first + 5)]
    server.run("CREATE TABLE t (id INT PRIMARY KEY, owner VARCHAR(9))", *rows)


def reset(server: Playground) -> None:
    statement = "RESET MASTER" if server.is_mariadb else "RESET BINARY LOGS AND GTIDS"
    time.sleep(1.1)  # the time at which a file was begun is in seconds
    server.run("SET sql_log_bin = 0", "DROP TABLE IF EXISTS t", "SET sql_log_bin = 1", statement)


def test_a_log_that_is_as_long_again_is_not_continued(server: Playground, tmp_path: Path) -> None:
    reset(server)
    fill(server, 1, "aaa")
    sync = Sync(server, tmp_path)
    sync.run()
    server.run("INSERT INTO t VALUES (6, 'aaa')")
    sync.run()
    read = server.here()
    reset(server)
    fill(server, 3, "bbb")
    server.run("INSERT INTO t VALUES (8, 'bbb')")
    assert (server.here().file, server.here().pos, server.here().gtid) == (read.file, read.pos, read.gtid)
    server.run("INSERT INTO t VALUES (9, 'bbb')")
    with pytest.raises(BinlogReset, match="begun at another time") as caught:
        sync.run()
    assert caught.value.exit_code == 4
    spec = sync.spec
    run(spec.model_copy(update={"errors": spec.errors.model_copy(update={"position_lost": "resnapshot"})}))
    note_as_spark_does(Path(spec.checkpoint))
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []
    assert sync.ids("t") == [3, 4, 5, 6, 7, 8, 9]


def test_a_planned_batch_of_the_former_log_is_not_read(server: Playground, tmp_path: Path) -> None:
    reset(server)
    fill(server, 1, "aaa")
    sync = Sync(server, tmp_path)
    sync.run()
    server.run("INSERT INTO t VALUES (6, 'aaa')")

    def stopped(*_: object) -> None:
        raise _StopError

    with pytest.raises(_StopError):
        sync.run(stopped)
    reset(server)
    fill(server, 3, "bbb")
    server.run("INSERT INTO t VALUES (8, 'bbb')")
    with pytest.raises(BinlogReset, match="begun at another time"):
        sync.run()
