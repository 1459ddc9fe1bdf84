"""deletes: soft, from a PostgreSQL server, whose deletes have only the key unless the identity of the table is FULL."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from penstock.pipelines.api.check_source import check_source
from penstock.pipelines.api.sample import tables_planned
from penstock.pipelines.job.source_request import connector, request_of
from tests.integration.postgres.sync import DATABASE, PgPlayground, PgSync
from tests.waiting import until

pytestmark = pytest.mark.postgres
SOFT = ["--deletes", "soft", "--table_conf", "bucket=1"]
NOTE = "deletes of public.{} contain only the key"


def test_deletes_that_lose_values_are_named_by_check_plan_and_start(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.create("t", "id INT PRIMARY KEY, v TEXT")
    server.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    sync = PgSync(server, tmp_path, flags=SOFT)
    for _ in range(2):
        [found] = [finding for finding in check_source(sync.spec) if NOTE.format("t") in finding.message]
        assert found.level == "warning"
        assert "REPLICA IDENTITY FULL" in found.fix
        assert NOTE.format("t") in tables_planned(sync.spec, 10)[0]
        caplog.clear()
        sync.run()
        assert caplog.text.count("event=deletes_without_values") == 1
    server.run("DELETE FROM t WHERE id = 1", "ALTER TABLE t REPLICA IDENTITY FULL", "DELETE FROM t WHERE id = 2")
    caplog.clear()
    sync.run()
    assert "event=deletes_without_values" not in caplog.text
    assert not [finding for finding in check_source(sync.spec) if NOTE.format("t") in finding.message]
    assert {key: (row["v"], row["_deleted"]) for key, row in sync.rows("t").items()} == {
        1: (None, True),
        2: ("b", True),
    }


@pytest.mark.parametrize(
    "flags", [["--table_conf", "bucket=1"], [*SOFT, "--table_conf", "merge-engine=partial-update"]]
)
def test_deletes_that_lose_no_values_are_not_named(
    server: PgPlayground, tmp_path: Path, flags: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    server.create("t", "id INT PRIMARY KEY, v TEXT")
    PgSync(server, tmp_path, flags=flags).run()
    assert "event=deletes_without_values" not in caplog.text


def test_the_partitions_decide_what_deletes_of_a_partitioned_table_have(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for table in ("p", "q"):
        server.create(table, "id INT PRIMARY KEY, v TEXT) PARTITION BY RANGE (id")
        server.run(
            f"ALTER TABLE {table} REPLICA IDENTITY FULL",
            f"CREATE TABLE {table}_1 PARTITION OF {table} FOR VALUES FROM (0) TO (9)",
        )
    server.run("ALTER TABLE q_1 REPLICA IDENTITY FULL")
    PgSync(server, tmp_path, flags=SOFT).run()
    assert NOTE.format("p") in caplog.text
    assert "public.q" not in caplog.text.partition("event=deletes_without_values")[2].partition("\n")[0]


def test_tables_that_are_not_captured_may_be_locked(server: PgPlayground, tmp_path: Path) -> None:
    """The list of partitions of a table waits for locks on them, as of a TRUNCATE or a VACUUM FULL."""
    server.create("t", "id INT PRIMARY KEY")
    server.create("p", "id INT PRIMARY KEY) PARTITION BY RANGE (id")
    server.run("CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (9)")
    spec = PgSync(server, tmp_path, "t", ["table-name=t"], SOFT).spec
    statements = ("BEGIN", "LOCK TABLE p_1", "SELECT pg_sleep(60)")
    words = ["psql", "-XqAt", "-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres", "-d", DATABASE]
    with subprocess.Popen([*words, *(word for text in statements for word in ("-c", text))]) as session:
        lock = "SELECT count(*) FROM pg_locks WHERE relation = 'p_1'::regclass AND granted"
        until(lambda: server.run(lock) == "1", "the lock")
        found = connector(spec).key_only_deletes(spec.source, request_of(spec), [("public", "t"), ("public", "it's")])
        assert list(found) == [("public", "t")]
        assert session.poll() is None, "it has waited for the lock"
        session.terminate()
