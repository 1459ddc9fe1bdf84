"""Settings of the server that sessions inherit: none of them changes which rows and values a pipeline reads."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pymysql
import pytest

from penstock.ingest.mysql.server.connection import ask, connected
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync

ROWS = {
    "": ("z", None, 1e10),
    '"q"': ("é", "2024-01-01", 0.1),
    "a\\b": ("x", None, -0.5),
    "it's": ("y ", "2024-01-02", 1.0),
    "e": ("", "2024-01-01", 1.5),
}
SETTINGS: dict[str, str | float] = {
    "sql_select_limit": 3,
    "sql_mode": "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE",
    "div_precision_increment": 0,
    "group_concat_max_len": 4,
    "sql_auto_is_null": 1,
    "max_sort_length": 8,
    "character_set_results": "latin1",
    "character_set_client": "latin1",
    "character_set_connection": "latin1",
    "time_zone": "+05:00",
    "sql_quote_show_create": 0,
    "lc_time_names": "de_DE",
    "completion_type": 2,
    "max_join_size": 1,
    "sql_big_selects": 0,
}


@contextmanager
def set_globally(server: Playground, settings: Mapping[str, str | float]) -> Iterator[None]:
    """New sessions have these settings, and those of before afterwards."""
    before = {name: server.rows(f"SELECT @@GLOBAL.{name}")[0][0] for name in settings}
    try:
        for name, value in settings.items():
            server.run(f"SET GLOBAL {name} = {value!r}")
        yield
    finally:
        for name, value in before.items():
            server.run(f"SET GLOBAL {name} = {value!r}")


def test_a_limit_of_the_server_for_the_time_of_statements_ends_no_query(server: Playground) -> None:
    limit: dict[str, str | float] = {"max_statement_time": 0.1} if server.is_mariadb else {"max_execution_time": 100}
    long = (
        "SELECT COUNT(*) FROM information_schema.COLLATIONS a, information_schema.COLLATIONS b WHERE SLEEP(0.001) = 0"
    )
    with set_globally(server, limit):
        with connected(server.address) as connection:
            began = time.monotonic()
            ask(connection, f"{long} AND a.ID < 20")
            assert time.monotonic() - began > 0.2
        with server.connect() as other, other.cursor() as cursor, pytest.raises(pymysql.MySQLError):
            cursor.execute(f"{long} AND a.ID < 20")


@pytest.fixture
def uncommitted(server: Playground) -> Iterator[pymysql.Connection]:
    """A session with changes of the table t, which it rolls back in the end."""
    server.run("CREATE TABLE t (id VARCHAR(9) PRIMARY KEY, c CHAR(5), d DATE, f DOUBLE)")
    session = server.connect(database=DATABASE)
    with session, session.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES (%s, %s, %s, %s)", [(key, *row) for key, row in ROWS.items()])
        session.begin()
        cursor.execute("INSERT INTO t VALUES ('dirty', 'd', NULL, 0)")
        cursor.execute("UPDATE t SET f = 99 WHERE id = 'e'")
        yield session
        session.rollback()


@pytest.mark.usefixtures("uncommitted")
@pytest.mark.parametrize("chunk_rows", [2, 50_000])
def test_settings_of_the_server_change_no_row(server: Playground, tmp_path: Path, chunk_rows: int) -> None:
    isolation = "tx_isolation" if server.is_mariadb else "transaction_isolation"
    sync = Sync(server, tmp_path, conf=[f"scan.incremental.snapshot.chunk.size={chunk_rows}"])
    with set_globally(server, {**SETTINGS, isolation: "READ-UNCOMMITTED"}):
        sync.run()
        assert all(verdict.is_equal for verdict in sync.verified())
    found = {row["id"]: (row["c"], row["d"] and str(row["d"]), row["f"]) for row in sync.rows("t")}
    assert found == {key: (text.rstrip(" "), day, number) for key, (text, day, number) in ROWS.items()}
