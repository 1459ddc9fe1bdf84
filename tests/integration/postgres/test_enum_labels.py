"""Labels of enums that are renamed are values of older rows, which the log does not have."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.integration.postgres.sync import PgPlayground, PgSync
from tests.integration.postgres.test_altered_tables import settle

pytestmark = pytest.mark.postgres
RENAME = "ALTER TYPE e RENAME VALUE 'a' TO 'z'"
HOLDERS = {
    "enum": ("e", "'a'", "z"),
    "array": ("e[]", "'{a,b}'", ["z", "b"]),
    "domain": ("d", "'a'", "z"),
    "array of domains": ("d[]", "'{a}'", ["z"]),
    "composite": ("c", "'(a,1)'", "(z,1)"),
    "range": ("r", "'[a,b]'", "[z,b]"),
    "multirange": ("r_multirange", "'{[a,b]}'", "{[z,b]}"),
}


def begin(server: PgPlayground, tmp_path: Path, *columns: str, rows: str = "") -> PgSync:
    server.run(
        "CREATE TYPE e AS ENUM ('a', 'b')",
        "CREATE TYPE other AS ENUM ('o')",
        "CREATE DOMAIN d AS e",
        "CREATE TYPE c AS (l e, n int)",
        "CREATE TYPE r AS RANGE (subtype = e, multirange_type_name = r_multirange)",
    )
    server.create("t", ", ".join(columns))
    server.run(f"INSERT INTO t VALUES {rows}")
    sync = PgSync(server, tmp_path)
    sync.run()
    return sync


@pytest.mark.parametrize("case", HOLDERS)
def test_older_rows_have_the_new_label(server: PgPlayground, tmp_path: Path, case: str) -> None:
    kind, value, wanted = HOLDERS[case]
    sync = begin(server, tmp_path, "id int PRIMARY KEY", f"a {kind}", "v int", rows=f"(1, {value}, 1), (2, {value}, 2)")
    server.run(RENAME, "UPDATE t SET v = 9 WHERE id = 2")
    settle(sync)
    assert [row["a"] for row in sync.rows("t").values()] == [wanted, wanted]


def test_rows_logged_between_two_renames_have_the_last_label(server: PgPlayground, tmp_path: Path) -> None:
    sync = begin(server, tmp_path, "id int PRIMARY KEY", "a e", rows="(1, 'a')")
    server.run(RENAME, "INSERT INTO t VALUES (2, 'z')", "ALTER TYPE e RENAME VALUE 'z' TO 'a'")
    settle(sync)
    assert {key: row["a"] for key, row in sync.rows("t").items()} == {1: "a", 2: "a"}


@pytest.mark.parametrize("key", ["a", "a, n", "n, a"])
def test_renamed_labels_of_a_key_replace_the_rows(server: PgPlayground, tmp_path: Path, key: str) -> None:
    sync = begin(server, tmp_path, "id int", "n int", "a e", f"PRIMARY KEY ({key})", rows="(1, 1, 'a'), (2, 2, 'b')")
    server.run(RENAME, "UPDATE t SET id = 5 WHERE a = 'z'")
    settle(sync)
    assert sorted(row["a"] for row in sync.rows("t").values()) == ["b", "z"]


def test_labels_of_partitioned_tables_are_read_again(server: PgPlayground, tmp_path: Path) -> None:
    sync = begin(server, tmp_path, "id int PRIMARY KEY", "a int", rows="(1, 1)")
    server.create("q", "id int PRIMARY KEY, a e) PARTITION BY RANGE (id")
    server.run("CREATE TABLE q1 PARTITION OF q FOR VALUES FROM (0) TO (10)", "INSERT INTO q VALUES (1, 'a')")
    settle(sync)
    server.run(RENAME)
    settle(sync)
    assert sync.rows("q")[1]["a"] == "z"


def test_an_attribute_added_to_a_composite_type_is_in_older_rows(server: PgPlayground, tmp_path: Path) -> None:
    sync = begin(server, tmp_path, "id int PRIMARY KEY", "a c", "v int", rows="(1, '(a,1)', 1)")
    server.run("ALTER TYPE c ADD ATTRIBUTE m int")
    settle(sync)
    assert sync.rows("t")[1]["a"] == "(a,1,)"


KEEPS = {
    "added": ["ALTER TYPE e ADD VALUE 'y'", "ALTER TYPE e ADD VALUE 'x' BEFORE 'b'"],
    "of an added column": ["ALTER TABLE t ADD COLUMN o other"],
    "of a type without columns": ["ALTER TYPE other RENAME VALUE 'o' TO 'p'"],
    "of a dropped column": ["ALTER TABLE t DROP COLUMN x", "ALTER TYPE other RENAME VALUE 'o' TO 'p'"],
    "not null": ["ALTER TABLE t ALTER a SET NOT NULL"],
}


@pytest.mark.parametrize("case", KEEPS)
def test_a_table_whose_labels_stay_is_not_read_again(
    server: PgPlayground, tmp_path: Path, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    last = "x other" if case == "of a dropped column" else "x int"
    sync = begin(server, tmp_path, "id int PRIMARY KEY", "v int", "a e", last, rows="(1, 1, 'a')")
    for change in KEEPS[case]:
        server.run(change, "UPDATE t SET v = v + 1 WHERE id = 1")
        with caplog.at_level(logging.INFO):
            sync.run()
    assert "values_changed_by_statement" not in caplog.text
    assert "event=tables_read_again" not in caplog.text
