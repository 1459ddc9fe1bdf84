"""Columns that give older rows a value when they are added: no log shows it, and the tables have it all the same."""

from __future__ import annotations

from pathlib import Path

from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync

COLUMNS = (
    "a INT DEFAULT 7",
    "a VARCHAR(9) DEFAULT 'new'",
    "a DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6)",
    "a INT DEFAULT (3 * 4)",
    "a DATE NOT NULL DEFAULT '2024-02-29'",
    "a INT NOT NULL",
    "a INT AS (id * 2) STORED",
)


def test_older_rows_have_the_values_of_added_columns(server: Playground, tmp_path: Path) -> None:
    # MySQL refuses to add a column whose default differs from row to row if it logs rows.
    columns = [*COLUMNS, *(["a CHAR(36) DEFAULT (uuid())"] if server.is_mariadb else [])]
    tables = [f"t{number}" for number in range(len(columns))]
    for table in tables:
        server.run(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    sync = Sync(server, tmp_path)
    sync.run()
    for table, column in zip(tables, columns, strict=True):
        server.run(f"ALTER TABLE {table} ADD COLUMN {column}", f"UPDATE {table} SET v = 9 WHERE id = 2")
    sync.run()
    sync.run()  # the tables are read again after the batch in which the columns appear
    wrong = [verdict for verdict in sync.verified() if not verdict.is_equal]
    assert not wrong
    assert all(row["a"] is not None for table in tables for row in sync.rows(table))
