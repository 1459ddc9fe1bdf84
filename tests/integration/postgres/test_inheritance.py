"""Tables that inherit from others: a query of the parent has their rows, and the log has them under their own names."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import SchemaConflict, SourceError
from penstock.ingest.postgres.server.address import PgAddress
from penstock.ingest.postgres.server.catalog import list_tables
from penstock.ingest.postgres.server.connection import connected
from penstock.ingest.postgres.snapshot.chunks import cut_chunk, first_chunk
from tests.integration.postgres.sync import DATABASE, SLOT, PgPlayground, PgSync

pytestmark = pytest.mark.postgres


def test_each_table_has_its_own_rows(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id int PRIMARY KEY, v text")
    server.create("c", "PRIMARY KEY (id)) INHERITS (t")
    server.create("d", "id int PRIMARY KEY NOT NULL, v text")
    server.run("ALTER TABLE t ALTER v SET STORAGE EXTERNAL", "INSERT INTO t VALUES (1, repeat('x', 9000))")
    server.run("INSERT INTO c VALUES (2, 'c')", "INSERT INTO d VALUES (9, 'd')")
    sync = PgSync(server, tmp_path)
    sync.run()
    assert [sorted(sync.rows(name)) for name in "tcd"] == [[1], [2], [9]]
    server.run("INSERT INTO c VALUES (1, 'of the child')", "ALTER TABLE d INHERIT t", "UPDATE t SET id = id + 10")
    server.run("DELETE FROM t WHERE id = 12", "INSERT INTO d VALUES (20, 'd')")
    sync.run()
    assert [sorted(sync.rows(name)) for name in "tcd"] == [[11], [11], [19, 20]]
    assert sync.rows("t")[11]["v"] == "x" * 9000
    assert all(verdict.is_equal for verdict in sync.verified().values())


def test_rows_of_a_table_that_inherits_cut_no_chunks_of_its_parent(server: PgPlayground) -> None:
    server.create("t", "id int PRIMARY KEY")
    server.create("p", "id int PRIMARY KEY) PARTITION BY RANGE (id")
    server.run("CREATE TABLE c () INHERITS (t)", "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100)")
    server.run("INSERT INTO c SELECT generate_series(1, 99)", "INSERT INTO p SELECT generate_series(1, 99)")
    with connected(PgAddress("127.0.0.1", server.port, "cdc", "cdc", DATABASE)) as connection:
        tables = {table.table: table for table in list_tables(connection)}
        last = {}
        for name in "tp":
            whole = first_chunk(connection, tables[name])
            assert whole is not None
            last[name] = cut_chunk(connection, whole, 10)[1] is None
    assert last == {"t": True, "p": False}


def test_a_captured_table_that_becomes_unlogged_stops_the_pipeline(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for table in ("t", "u"):
        server.create(table, "id int PRIMARY KEY")
    server.run("CREATE UNLOGGED TABLE never (id int PRIMARY KEY)", f"CREATE PUBLICATION {SLOT}_pub FOR ALL TABLES")
    sync = PgSync(server, tmp_path)
    sync.run()
    assert "event=tables_unlogged left_out=public.never" in caplog.text
    server.run("ALTER TABLE t SET UNLOGGED", "INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    with pytest.raises(SchemaConflict, match="UNLOGGED, so that no log has their changes") as raised:
        sync.run()
    assert raised.value.facts["tables"] == "public.t"
    PgSync(server, tmp_path, flags=("--excluding-tables", "t|never")).run()
    assert list(sync.rows("u")) == [1]
    # As the error says.
    server.run("ALTER TABLE t SET LOGGED", "INSERT INTO t VALUES (2)")
    PgSync(server, tmp_path, flags=("--reset", "ods.t")).run()
    assert sorted(sync.rows("t")) == [1, 2]


def test_a_partition_that_is_unlogged_stops_the_pipeline(server: PgPlayground, tmp_path: Path) -> None:
    server.create("r", "id int PRIMARY KEY, v int) PARTITION BY RANGE (id")
    for number in (0, 1):
        server.run(f"CREATE TABLE r{number} PARTITION OF r FOR VALUES FROM ({number}0) TO ({number}9)")
    server.run("CREATE TABLE other (id int) PARTITION BY LIST (id)")
    server.run("CREATE UNLOGGED TABLE other_1 PARTITION OF other FOR VALUES IN (1)")
    server.run("INSERT INTO r VALUES (1, 1), (11, 1)")
    sync = PgSync(server, tmp_path)
    sync.run()
    later = iter(["ALTER TABLE r1 SET UNLOGGED", "UPDATE r SET v = 3"])
    server.run("UPDATE r SET v = 2")
    with pytest.raises(SchemaConflict, match="UNLOGGED, so that no log has their changes") as raised:
        sync.run(on_batch=lambda *_: server.run(*later, "SELECT 1") and None)
    assert raised.value.facts["tables"] == "r1"
    with pytest.raises(SourceError, match="no log has the changes of the partition r1 of r"):
        sync.run()
    # As the error says.
    server.run("ALTER TABLE r1 SET LOGGED", "INSERT INTO r VALUES (12, 3)")
    PgSync(server, tmp_path, flags=("--reset", "ods.r")).run()
    assert {key: row["v"] for key, row in sync.rows("r").items()} == {1: 3, 11: 3, 12: 3}
