"""Columns that give older rows a value when they are added: no log shows it, and the tables have it all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.postgres.sync import PgPlayground, PgSync

pytestmark = pytest.mark.postgres
COLUMNS = (
    "a int DEFAULT 7",
    "a timestamptz DEFAULT now()",
    "a uuid DEFAULT gen_random_uuid()",
    "a text NOT NULL DEFAULT 'new'",
    "a int GENERATED ALWAYS AS IDENTITY",
    "a float8 DEFAULT random()",
    "a serial",
)


def test_older_rows_have_the_values_of_added_columns(server: PgPlayground, tmp_path: Path) -> None:
    tables = [f"t{number}" for number in range(len(COLUMNS))]
    for table in (*tables, "dropped"):
        server.create(table, "id int PRIMARY KEY, v int")
        server.run(f"ALTER TABLE {table} REPLICA IDENTITY FULL", f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    sync = PgSync(server, tmp_path)
    sync.run()
    for table, column in zip(tables, COLUMNS, strict=True):
        server.run(f"ALTER TABLE {table} ADD COLUMN {column}", f"UPDATE {table} SET v = 9 WHERE id = 2")
    # Rows from before keep the value of a default that was dropped.
    server.run("ALTER TABLE dropped ADD COLUMN a int DEFAULT 7", "ALTER TABLE dropped ALTER a DROP DEFAULT")
    server.run("UPDATE dropped SET v = 9 WHERE id = 2")
    sync.run()
    sync.run()  # the tables are read again after the batch in which the columns appear
    wrong = [verdict for verdict in sync.verified().values() if not verdict.is_equal]
    assert not wrong
    assert all(row["a"] is not None for table in (*tables, "dropped") for row in sync.rows(table).values())
