"""Tables that are dropped, created again, renamed or altered between two runs: the log contains no DDL."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import pytest

from penstock.ingest.postgres.source import PgSource
from penstock.ingest.source import Offsets
from tests.integration.postgres.sync import SLOT, PgPlayground, PgSync

pytestmark = pytest.mark.postgres
FOLLOWS = ("--on-drop", "delete-all")


def settle(sync: PgSync) -> None:
    """Run until nothing is left: a table is read again by the batches after the one that finds the need."""
    for _ in range(3):
        sync.run()
    assert [verdict for verdict in sync.verified().values() if not verdict.is_equal] == []


def test_a_column_added_while_the_log_is_behind_is_filled(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id int PRIMARY KEY, v int")
    server.run("INSERT INTO t VALUES (1, 1)")
    sync = PgSync(server, tmp_path)
    sync.run()
    # The first is in the log without the column, and the copy of the table after the signal has it.
    server.run("INSERT INTO t VALUES (2, 2)", "ALTER TABLE t ADD COLUMN a int DEFAULT 7", "DELETE FROM t WHERE id = 1")
    server.run("INSERT INTO t VALUES (3, 3)")
    settle(sync)
    assert {key: row["a"] for key, row in sync.rows("t").items()} == {2: 7, 3: 7}


@pytest.mark.parametrize("default", ["", " DEFAULT 9"])
def test_a_column_that_was_dropped_and_added_again_has_its_new_values(
    server: PgPlayground, tmp_path: Path, default: str
) -> None:
    server.create("t", "id int PRIMARY KEY, a int")
    server.run("INSERT INTO t VALUES (1, 1), (2, 2)")
    sync = PgSync(server, tmp_path)
    sync.run()
    server.run("ALTER TABLE t DROP COLUMN a", "INSERT INTO t VALUES (3)")
    sync.run()
    server.run(f"ALTER TABLE t ADD COLUMN a int{default}")
    settle(sync)
    assert {row["a"] for row in sync.rows("t").values()} == ({9} if default else {None})


@pytest.mark.parametrize("flags", [(), FOLLOWS])
def test_a_table_that_is_dropped_and_created_again_is_captured(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture, flags: tuple[str, ...]
) -> None:
    for table in ("t", "other"):
        server.create(table, "id int PRIMARY KEY, v int")
        server.run(f"INSERT INTO {table} VALUES (1, 1)")
    sync = PgSync(server, tmp_path, flags=flags)
    sync.run()
    server.run("INSERT INTO t VALUES (2, 2)", "DROP TABLE t")
    server.create("t", "id int PRIMARY KEY, v int")
    server.run("INSERT INTO t VALUES (7, 7)")
    counted: Counter[str] = Counter()
    with caplog.at_level(logging.WARNING):
        sync.run(on_batch=lambda _, report: counted.update(report.passed_over))
    assert counted["messages.drop"] == (0 if flags else 1)
    server.run("INSERT INTO t VALUES (8, 8)")
    for _ in range(2):
        sync.run()
    assert sorted(sync.rows("t")) == ([7, 8] if flags else [1, 2, 7, 8])
    assert ("event=drop_not_followed table=public.t" in caplog.text) == (not flags)
    if flags:
        settle(sync)


def test_a_renamed_column_is_reported_and_counted(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.create("t", "id int PRIMARY KEY, v int")
    server.run("INSERT INTO t VALUES (1, 1), (2, 2)")
    sync = PgSync(server, tmp_path)
    sync.run()
    server.run("ALTER TABLE t RENAME COLUMN v TO w", "ALTER TABLE t ADD COLUMN x int", "INSERT INTO t VALUES (3, 3)")
    counted: Counter[str] = Counter()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            sync.run(on_batch=lambda _, report: counted.update(report.passed_over))
    assert caplog.text.count("event=rename_not_followed table=public.t columns=w ") == 1
    assert counted["messages.rename-column"] == 1
    assert {key: (row["v"], row["w"]) for key, row in sync.rows("t").items()} == {
        1: (1, None),
        2: (2, None),
        3: (None, 3),
    }
    PgSync(server, tmp_path, flags=("--reset", "ods.t")).run()
    settle(sync)
    assert {key: row["w"] for key, row in sync.rows("t").items()} == {1: 1, 2: 2, 3: 3}


def test_a_changed_key_is_logged_and_verify_reports_its_rows(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.create("t", "id int PRIMARY KEY, k int NOT NULL")
    server.run("INSERT INTO t VALUES (1, 1)")
    sync = PgSync(server, tmp_path)
    sync.run()
    server.run("ALTER TABLE t RENAME id TO i", "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (i)")
    with caplog.at_level(logging.WARNING):
        sync.run()
    assert "key_changed" not in caplog.text, "the same column has another name"
    server.run("ALTER TABLE t RENAME i TO id", "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (k, id)")
    server.run("INSERT INTO t VALUES (1, 2)")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            sync.run()
    assert caplog.text.count("event=key_changed table=public.t before=") == 1
    assert " now=k,id " in caplog.text
    [verdict] = sync.verified().values()
    assert [(key.how, key.key) for key in verdict.keys] == [("doubled", {"id": 1})]


def test_a_renamed_generated_column_is_not_reported(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.create("t", "id int PRIMARY KEY, v int, g int GENERATED ALWAYS AS (id) STORED")
    server.run("INSERT INTO t VALUES (1, 1)")
    sync = PgSync(server, tmp_path)
    sync.run()
    server.run("ALTER TABLE t RENAME COLUMN g TO h", "INSERT INTO t VALUES (2, 2)")
    settle(sync)
    assert "rename_not_followed" not in caplog.text
    # The rows are read again for the added column, and have their values under the new name too.
    server.run("ALTER TABLE t RENAME COLUMN v TO w", "ALTER TABLE t ADD COLUMN x int DEFAULT 5")
    settle(sync)
    assert {key: (row["w"], row["x"]) for key, row in sync.rows("t").items()} == {1: (1, 5), 2: (2, 5)}


SWAPS = {
    "two": ("RENAME a TO t", "RENAME b TO a", "RENAME t TO b"),
    "three": ("RENAME a TO t", "RENAME b TO a", "RENAME c TO b", "RENAME t TO c"),
    "moved on": ("RENAME a TO t", "RENAME b TO a"),
    "and another": ("RENAME a TO t", "RENAME b TO a", "RENAME t TO b", "ADD d int DEFAULT 7"),
    "after a drop": ("DROP c", "RENAME a TO t", "RENAME b TO a", "RENAME t TO b"),
    "of a dropped one": ("DROP a", "RENAME b TO a"),
}


@pytest.mark.parametrize("case", SWAPS)
def test_a_name_that_another_column_had_lets_the_table_be_read_again(
    server: PgPlayground, tmp_path: Path, case: str
) -> None:
    server.create("t", "id int PRIMARY KEY, a int, b int, c int")
    server.run("INSERT INTO t VALUES (1, 11, 12, 13), (2, 21, 22, 23)")
    sync = PgSync(server, tmp_path)
    sync.run()
    server.run("INSERT INTO t VALUES (3, 31, 32, 33)")
    server.run("; ".join(["BEGIN", *(f"ALTER TABLE t {change}" for change in SWAPS[case]), "COMMIT"]))
    server.run("INSERT INTO t VALUES (4, 41, 42)")
    settle(sync)
    names = server.run("SELECT string_agg(column_name, ',') FROM information_schema.columns WHERE table_name = 't'")
    columns = names.split(",")
    wanted = [
        tuple(int(cell) if cell else None for cell in line.split("|"))
        for line in server.run(f"SELECT {names} FROM t ORDER BY id").splitlines()
    ]
    found = sync.rows("t")
    assert [tuple(found[key][name] for name in columns) for key in sorted(found)] == wanted


@pytest.mark.parametrize("keys", ["id, a", "a, id"])
def test_columns_of_a_key_that_swap_their_names_let_the_target_be_emptied(
    server: PgPlayground, tmp_path: Path, keys: str
) -> None:
    server.create("t", f"id int, a int, b int, PRIMARY KEY ({keys})")
    server.run("INSERT INTO t VALUES (1, 11, 12), (2, 21, 22)")
    sync = PgSync(server, tmp_path)
    sync.run()
    server.run("BEGIN; ALTER TABLE t RENAME a TO t; ALTER TABLE t RENAME id TO a; ALTER TABLE t RENAME t TO id; COMMIT")
    server.run("INSERT INTO t (id, a, b) VALUES (31, 3, 32)")
    settle(sync)
    assert {key: row["a"] for key, row in sync.rows("t").items()} == {11: 1, 21: 2, 31: 3}


def test_columns_that_swap_names_are_reported_if_tables_are_not_read_again(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.create("t", "id int PRIMARY KEY, a int, b int")
    sync = PgSync(server, tmp_path, conf=["scan.startup.mode=latest-offset"])
    sync.run()
    server.run("INSERT INTO t VALUES (1, 1, 2)")
    sync.run()
    server.run("ALTER TABLE t RENAME a TO t", "ALTER TABLE t RENAME b TO a", "ALTER TABLE t RENAME t TO b")
    counted: Counter[str] = Counter()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            sync.run(on_batch=lambda _, report: counted.update(report.passed_over))
    assert caplog.text.count("event=rename_not_followed table=public.t columns=b,a ") == 1
    assert counted["messages.rename-column"] == 1


@pytest.mark.parametrize("statement", ["VACUUM FULL", "CLUSTER", "TRUNCATE", "unlogged"])
@pytest.mark.parametrize("kind", ["table", "partition"])
def test_a_table_that_was_unlogged_between_two_batches_is_reported_and_counted(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, statement: str
) -> None:
    if kind == "table":
        server.create("t", "id int PRIMARY KEY, a text")
        part = "t"
        # Of a table that is in a publication by its name, the server refuses SET UNLOGGED.
        server.run(f"CREATE PUBLICATION {SLOT}_pub FOR ALL TABLES WITH (publish_via_partition_root = true)")
    else:
        server.create("t", "id int PRIMARY KEY, a text) PARTITION BY RANGE (id")
        server.run("CREATE TABLE p0 PARTITION OF t FOR VALUES FROM (0) TO (10)")
        part = "p0"
    server.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    sync = PgSync(server, tmp_path, flags=("--excluding-tables", "p.", "--on-truncate", "delete-all"))
    sync.run()
    if statement == "unlogged":
        server.run(f"ALTER TABLE {part} SET UNLOGGED", "UPDATE t SET a = 'lost' WHERE id = 1")
        server.run(f"ALTER TABLE {part} SET LOGGED")
    else:
        server.run({"CLUSTER": f"CLUSTER {part} USING {part}_pkey"}.get(statement, f"{statement} {part}"))
    server.run("INSERT INTO t VALUES (3, 'c')")
    counted: Counter[str] = Counter()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            sync.run(on_batch=lambda _, report: counted.update(report.passed_over))
    assert counted["messages.unpublished"] == (statement == "unlogged")
    assert caplog.text.count("event=table_may_have_been_unlogged table=public.t ") == (statement == "unlogged")
    if statement == "unlogged":
        PgSync(server, tmp_path, flags=("--excluding-tables", "p.", "--reset", "ods.t")).run()
        settle(sync)
    assert sync.verified()["t"].is_equal


def test_a_renamed_table_is_another_one(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id int PRIMARY KEY, v int")
    server.run("INSERT INTO t VALUES (1, 1)")
    sync = PgSync(server, tmp_path, flags=FOLLOWS)
    sync.run()
    server.run("INSERT INTO t VALUES (2, 2)", "ALTER TABLE t RENAME TO u", "INSERT INTO u VALUES (3, 3)")
    settle(sync)
    assert sync.rows("t") == {}
    assert sorted(sync.rows("u")) == [1, 2, 3]


def test_rows_of_a_dropped_table_keep_its_key(server: PgPlayground, tmp_path: Path) -> None:
    for table in ("t", "other"):
        server.create(table, "id int PRIMARY KEY, v int")
        server.run(f"ALTER TABLE {table} REPLICA IDENTITY FULL", f"INSERT INTO {table} VALUES (1, 1)")
    sync = PgSync(server, tmp_path)
    sync.run()
    server.run("INSERT INTO t VALUES (2, NULL)", "UPDATE t SET v = 5 WHERE id = 1", "DROP TABLE t")
    sync.run()
    assert {key: row["v"] for key, row in sync.rows("t").items()} == {1: 5, 2: None}


def test_rows_of_a_dropped_table_without_a_known_key_are_counted(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.create("t", "id int PRIMARY KEY, v int")
    server.run("ALTER TABLE t REPLICA IDENTITY FULL", "INSERT INTO t VALUES (1, 1)")
    sync = PgSync(server, tmp_path, flags=FOLLOWS)
    sync.run()
    server.run("ALTER TABLE t RENAME TO u", "INSERT INTO u VALUES (2, NULL)", "DROP TABLE u")
    server.create("v", "id int PRIMARY KEY, v int")
    server.run("INSERT INTO v VALUES (1, 1)")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            sync.run()
    assert "event=rows_of_dropped_table_left_out table=public.u" in caplog.text
    assert (sync.tables(), sync.rows("t")) == (["t", "v"], {})


def test_tables_can_be_compared_after_they_were_read_on_a_quiet_server(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id int PRIMARY KEY, v int")
    server.run("INSERT INTO t VALUES (1, 1)")
    PgSync(server, tmp_path).run()
    again = PgSync(server, tmp_path, flags=("--reset", "ods.t"))
    again.run()
    assert PgSync(server, tmp_path).verified()["t"].is_equal


ALL_TABLES = f"CREATE PUBLICATION {SLOT}_pub FOR ALL TABLES WITH (publish_via_partition_root = true)"
ALTERED = (
    "INSERT INTO n VALUES (1), (2), (3)",
    "DELETE FROM n WHERE id = 1",
    "ALTER TABLE n ADD COLUMN a int DEFAULT 7",
    "INSERT INTO n VALUES (4, 4)",
)


def test_a_new_table_is_read_after_its_rows_in_the_log(server: PgPlayground, tmp_path: Path) -> None:
    server.run(ALL_TABLES)
    server.create("t", "id int PRIMARY KEY")
    sync = PgSync(server, tmp_path)
    sync.run()
    server.create("n", "id int PRIMARY KEY")
    server.run(*ALTERED)
    settle(sync)
    assert {key: row["a"] for key, row in sync.rows("n").items()} == {2: 7, 3: 7, 4: 4}


def test_tables_are_read_after_their_rows_in_the_log_of_an_older_slot(server: PgPlayground, tmp_path: Path) -> None:
    server.run(ALL_TABLES)
    server.create("n", "id int PRIMARY KEY")
    server.run(f"SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')", *ALTERED)
    sync = PgSync(server, tmp_path)
    settle(sync)
    assert {key: row["a"] for key, row in sync.rows("n").items()} == {2: 7, 3: 7, 4: 4}


def test_rows_under_an_earlier_name_of_a_new_table_make_no_table(server: PgPlayground, tmp_path: Path) -> None:
    server.run(ALL_TABLES)
    server.create("t", "id int PRIMARY KEY")
    sync = PgSync(server, tmp_path, flags=FOLLOWS)
    sync.run()
    server.create("n", "id int PRIMARY KEY")
    server.run("INSERT INTO n VALUES (1)", "ALTER TABLE n RENAME TO m", "INSERT INTO m VALUES (2)")
    settle(sync)
    assert (sync.tables(), sorted(sync.rows("m"))) == (["m", "t"], [1, 2])


@pytest.mark.parametrize("again", ["never", "before it is included", "while it is included"])
@pytest.mark.parametrize("flags", [(), FOLLOWS])
def test_a_table_that_was_dropped_while_it_was_left_out(
    server: PgPlayground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: str, flags: tuple[str, ...]
) -> None:
    for table in ("t", "other"):
        server.create(table, "id int PRIMARY KEY, v int")
        server.run(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    sync = PgSync(server, tmp_path, flags=flags)
    sync.run()
    excluding = PgSync(server, tmp_path, flags=(*flags, "--excluding-tables", "t"))
    excluding.run()
    server.run("DELETE FROM t WHERE id = 1", "DROP TABLE t")
    excluding.run()
    available = PgSource.available

    def create() -> None:
        server.create("t", "id int PRIMARY KEY, v int")
        server.run("INSERT INTO t VALUES (7, 7)")

    def created(self: PgSource) -> Offsets:
        """The tables are known by now: the run begins."""
        create()
        monkeypatch.undo()
        return available(self)

    if again == "before it is included":
        create()
    elif again == "while it is included":
        monkeypatch.setattr(PgSource, "available", created)
    for _ in range(3):
        sync.run()
    wanted = ([] if flags else [1, 2]) if again == "never" else [7]
    assert (sorted(sync.rows("t")), sorted(sync.rows("other"))) == (wanted, [1, 2])
