"""Settings of the server that sessions inherit: none of them changes which rows and values a pipeline reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql
import pytest

from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync

ROWS = {
    "": ("z", None, 1e10),
    '"q"': ("é", "2024-01-01", 0.1),
    "a\\b": ("x", None, -0.5),
    "it's": ("y ", "2024-01-02", 1.0),
    "e": ("", "2024-01-01", 1.5),
}
SETTINGS: dict[str, str | int] = {
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
}


@contextmanager
def set_globally(server: Playground, settings: dict[str, str | int]) -> Iterator[None]:
    """New sessions have these settings, and those of before afterwards."""
    before = {name: server.rows(f"SELECT @@GLOBAL.{name}")[0][0] for name in settings}
    try:
        for name, value in settings.items():
            server.run(f"SET GLOBAL {name} = {value!r}")
        yield
    finally:
        for name, value in before.items():
            server.run(f"SET GLOBAL {name} = {value!r}")


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
