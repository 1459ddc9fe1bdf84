"""ALTER TABLE that MariaDB logs when it begins and again when it ends or has failed (`binlog_alter_two_phase`)."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pymysql
import pytest

from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync
from tests.waiting import ended, until

pytestmark = [pytest.mark.mariadb, pytest.mark.slow]
TWO_PHASES = "SET SESSION binlog_alter_two_phase = 1"


@pytest.fixture(params=["mariadb", "mariadb_11_8"])
def server(request: pytest.FixtureRequest) -> Playground:
    found: Playground = request.getfixturevalue(request.param)
    found.start_over()
    return found


def logged(server: Playground) -> list[str]:
    file = server.here().file
    return [str(row[5]) for row in server.rows(f"SHOW BINLOG EVENTS IN '{file}'") if "ALTER" in str(row[5])]


def fails(server: Playground, statement: str) -> None:
    """Run a statement in two phases, which fails after its begin was logged."""
    session = server.connect(database="play")
    with session, session.cursor() as cursor:
        cursor.execute(TWO_PHASES)
        with pytest.raises(pymysql.IntegrityError):
            cursor.execute(statement)


def test_values_are_in_their_columns_after_a_statement_that_failed(server: Playground, tmp_path: Path) -> None:
    before = server.rows("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    server.run("SET GLOBAL binlog_row_metadata = NO_LOG")  # names of columns are known from the statements only
    try:
        server.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "INSERT INTO t VALUES (1, 10, 20), (2, 11, 20)")
        sync = Sync(server, tmp_path)
        sync.run()
        fails(server, "ALTER TABLE t MODIFY a INT AFTER b, ADD UNIQUE (b)")
        server.run("INSERT INTO t VALUES (3, 12, 30)")
        sync.run()
        assert sync.rows("t")[2] == {"id": 3, "a": 12, "b": 30}
        assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []
    finally:
        server.run(f"SET GLOBAL binlog_row_metadata = {before}")


def test_a_statement_that_failed_after_it_was_logged_changes_nothing(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "INSERT INTO t VALUES (1, 10, 20), (2, 11, 20)")
    sync = Sync(server, tmp_path)
    sync.run()
    fails(server, "ALTER TABLE t CHANGE a x INT AFTER b, ADD COLUMN c INT DEFAULT 7 FIRST, ADD UNIQUE (b)")
    assert any("ROLLBACK ALTER" in line for line in logged(server))
    server.run("INSERT INTO t VALUES (3, 12, 30)", "UPDATE t SET b = 21 WHERE id = 1")
    sync.run()
    wanted = [{"id": 1, "a": 10, "b": 21}, {"id": 2, "a": 11, "b": 20}, {"id": 3, "a": 12, "b": 30}]
    assert sync.rows("t") == wanted


def test_rows_written_meanwhile_have_the_former_columns(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "INSERT INTO t VALUES (1, 10, 20)")
    server.run("CREATE TABLE other (id INT PRIMARY KEY)")
    sync = Sync(server, tmp_path)
    sync.run()
    writer, session, reader = (server.connect(database="play") for _ in range(3))
    with writer, session, reader, writer.cursor() as writes, session.cursor() as alters, reader.cursor() as reads:
        # The statement begins, and waits for a transaction that has read the table.
        reads.execute("BEGIN")
        reads.execute("SELECT * FROM t")
        reads.fetchall()
        alters.execute(TWO_PHASES)
        alters.execute("SET SESSION alter_algorithm = 'INPLACE'")
        changes = "CHANGE a x INT AFTER b, ADD COLUMN c INT DEFAULT 7 FIRST, ADD KEY (b)"
        statement = threading.Thread(target=alters.execute, args=(f"ALTER TABLE t {changes}",))
        statement.start()
        waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata%'"
        until(lambda: server.rows(waits)[0][0] == 1, "the statement that waits")
        writes.execute("INSERT INTO other VALUES (1)")
        reads.execute("COMMIT")
        ended(statement)
    server.run("INSERT INTO t VALUES (1, 3, 30, 12)")
    sync.run()
    assert [(row["id"], row["b"], row["x"]) for row in sync.rows("t")][1:] == [(3, 30, 12)]
    assert sync.ids("other") == [1]


def test_a_statement_is_applied_once(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 10)")
    sync = Sync(server, tmp_path, flags=["--on-rename-column", "rename"])
    sync.run()
    session = server.connect(database="play")
    with session, session.cursor() as cursor:
        cursor.execute(TWO_PHASES)
        cursor.execute("ALTER TABLE t RENAME COLUMN a TO b, ADD COLUMN a INT DEFAULT 3")
        cursor.execute("ALTER TABLE t RENAME COLUMN a TO c")
    counts = Counter("START" in line for line in logged(server) if "GTID" in line)
    assert counts[True] == 2
    server.run("INSERT INTO t VALUES (2, 20, 4)")
    sync.run()
    rows = {row["id"]: row for row in sync.rows("t")}
    assert (rows[1]["b"], rows[1]["c"], rows[2]["b"], rows[2]["c"]) == (10, 3, 20, 4)
